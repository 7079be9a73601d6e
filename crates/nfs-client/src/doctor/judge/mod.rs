//! From the facts of a server to findings: what is well, what is worth knowing, what to worry about, each
//! with its meaning and its cure. Pure: the same facts give the same findings.

mod abilities;
mod consistency;
mod identity;
mod services;
mod stability;
#[cfg(test)]
mod tests;
mod words;

use super::facts::{Ended, Facts, NoTrials, Refusal};
use crate::error::printable;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All is as it should be.
    Ok,
    /// Worth knowing, and neither good nor bad by itself.
    Note,
    /// It works, and may not be what was meant: somebody should look.
    Warning,
    /// Clients can lose data or fail by this.
    Problem,
}

impl Level {
    /// One word for it. Part of the JSON of `penstock doctor`: it does not change.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// Which part of the report a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Programs, versions and exports of the host.
    Services,
    /// What the server says of its file system.
    Abilities,
    /// How long calls take, and what stable storage costs.
    Stability,
    /// Whether clients can rely on what they were told.
    Consistency,
    /// Who is who.
    Identity,
    /// The examination itself, and what it left.
    Examination,
}

impl Section {
    /// All sections, in the order they are shown in.
    pub const ALL: [Self; 6] = [
        Self::Services,
        Self::Abilities,
        Self::Stability,
        Self::Consistency,
        Self::Identity,
        Self::Examination,
    ];

    /// One word for it. Part of the JSON of `penstock doctor`: it does not change.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Abilities => "abilities",
            Self::Stability => "stability",
            Self::Consistency => "consistency",
            Self::Identity => "identity",
            Self::Examination => "examination",
        }
    }
}

/// One thing that was found out about a server, with what it means and how to cure it.
pub type Finding = nfs_io::finding::Finding<Section, Level>;

type List = nfs_io::finding::Findings<Section, Level>;

/// All that there is to say of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// All findings, in the order they are shown in: each section's stand together.
    pub findings: Vec<Finding>,
    examined: bool,
}

/// What all findings together come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No problem was found.
    Sound,
    /// A problem was found.
    Problem,
    /// The server could not be examined.
    Unexamined,
}

impl Diagnosis {
    /// What the findings come to.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if !self.examined {
            Verdict::Unexamined
        } else if self.worst() == Level::Problem {
            Verdict::Problem
        } else {
            Verdict::Sound
        }
    }

    /// The level of the finding that matters most.
    #[must_use]
    pub fn worst(&self) -> Level {
        let levels = self.findings.iter().map(|finding| finding.level);
        levels.max().unwrap_or(Level::Ok)
    }
}

/// Judges what an examination found out.
#[must_use]
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let mut list = List::default();
    services::judge(&mut list, facts);
    let examined = facts.directory.is_ok();
    if examined {
        abilities::judge(&mut list, facts);
        stability::judge(&mut list, facts);
        if let Ok(trials) = &facts.trials {
            consistency::judge(&mut list, trials);
            identity::judge(&mut list, trials);
        }
    }
    examination(&mut list, facts);
    Diagnosis {
        findings: list.into_vec(),
        examined,
    }
}

/// What the examination came to, and what it left.
fn examination(list: &mut List, facts: &Facts) {
    let section = Section::Examination;
    if let Some(ended) = facts.ended {
        let fact = match ended {
            Ended::Asked => "ended before it had asked for all, as it was told to",
            Ended::Late => "ended before it had asked for all: its time was over",
        };
        list.add(section, Level::Warning, "extent", fact)
            .meaning("what was not asked for is left out above");
    }
    match &facts.trials {
        Ok(_) | Err(NoTrials::NotMounted) => {}
        Err(NoTrials::ReadOnly) => {
            list.add(
                section,
                Level::Note,
                "writing",
                "nothing was written, as asked for",
            )
            .meaning("stable storage, handles, clocks, listings and identities were not tried");
        }
        Err(NoTrials::Refused(refusal)) => {
            let fact = format!("no directory can be made here: {refusal}");
            list.add(section, Level::Warning, "writing", fact)
                .meaning("stable storage, handles, clocks, listings and identities were not tried")
                .cure(
                    "name a directory in which this user may write (uid= and gid= of the URL say who \
                     asks), or leave it at that with --read-only",
                );
        }
    }
    if let Some(own) = &facts.own {
        let path = printable(&own.path);
        match &own.removed {
            Ok(()) => {
                let fact = format!("{path} was made, used and removed");
                list.add(section, Level::Ok, "own directory", fact);
            }
            Err(why) => {
                let fact = format!("{path} could not be removed: {why}");
                list.add(section, Level::Problem, "own directory", fact)
                    .meaning("this examination made it, and nobody else uses it")
                    .cure("remove it by hand: penstock rm -r with its URL");
            }
        }
    }
    if facts.calls > 0 {
        let fact = format!("{} calls, one at a time", facts.calls);
        list.add(section, Level::Ok, "load", fact);
    }
}

/// Adds that something could not be found out, and why.
fn untold(list: &mut List, section: Section, subject: &'static str, refusal: &Refusal) {
    // That the examination ended is told once.
    if *refusal != Refusal::NotAsked {
        let fact = format!("not found out: {refusal}");
        list.add(section, Level::Warning, subject, fact);
    }
}
