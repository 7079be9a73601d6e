//! Clients by name: the hosts and netgroups that rules name, and what their addresses are at the moment.
//!
//! A rule with a name matches the addresses that its [`LiveName`] has, which is a load of a pointer and a search; nothing
//! is looked up where a call is decided. [`Names`] says which names are to be looked up and when, and what came of it. It
//! asks nobody and knows no clock: whoever has one does the look-ups ([`Question::look_up`], which may block) and hands the
//! answers in.
//!
//! A name that cannot be resolved matches nobody. Where the name services are silent for a while, and only there, the
//! addresses from before are kept, for [`limits::CLIENT_NAME_KEPT_SECONDS_MAX`].

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use nfs_io::host_names::{self, LookupError, NetgroupHosts};

use crate::limits;

/// The name of a host or of a netgroup, in small letters where it is a host's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClientName {
    /// A host, by a name that this machine can look up.
    Host(Arc<str>),
    /// All hosts of a netgroup.
    Netgroup(Arc<str>),
}

/// As the configuration writes it: a netgroup with an `@` before it.
impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => f.write_str(name),
            Self::Netgroup(name) => write!(f, "@{name}"),
        }
    }
}

/// How it is with a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameState {
    /// It has not been looked up yet, and matches nobody.
    #[default]
    Asked,
    /// It has the addresses that the last look-up gave.
    Known,
    /// The netgroup has the addresses of those of its hosts that have some.
    Partly,
    /// The name services do not answer: it has its addresses from before for a while.
    Kept,
    /// It has no address and matches nobody.
    Nobody,
}

impl NameState {
    /// The words by which programs are told.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("asked", Self::Asked),
        ("known", Self::Known),
        ("partly", Self::Partly),
        ("kept", Self::Kept),
        ("nobody", Self::Nobody),
    ];
}

/// What a name stands for at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// In order and each once, IPv4 ones as such.
    pub addresses: Vec<IpAddr>,
    /// How these came about.
    pub state: NameState,
    /// What is wrong, a clause without an end; empty where nothing is.
    pub trouble: String,
}

/// A name as rules hold it: what it stands for changes while the table stays.
#[derive(Debug)]
pub struct LiveName {
    /// The name.
    pub name: ClientName,
    resolved: ArcSwap<Resolved>,
}

impl LiveName {
    pub(super) fn new(name: ClientName) -> Self {
        Self {
            name,
            resolved: ArcSwap::default(),
        }
    }

    /// What it stands for now.
    pub fn resolved(&self) -> arc_swap::Guard<Arc<Resolved>> {
        self.resolved.load()
    }

    /// Is it this address, which is in its IPv4 form where it has one? Costs no lock.
    pub(super) fn contains(&self, address: &IpAddr) -> bool {
        self.resolved
            .load()
            .addresses
            .binary_search(address)
            .is_ok()
    }

    /// Goes on with what another table knows of the same name.
    pub(super) fn go_on_from(&self, other: &Self) {
        self.resolved.store(other.resolved.load_full());
    }

    pub(super) fn set(&self, resolved: Resolved) {
        self.resolved.store(Arc::new(resolved));
    }
}

/// Compares the names: an address that changed makes no other rule.
impl PartialEq for LiveName {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LiveName {}

/// Something to look up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// Which addresses has a host?
    Addresses(Arc<str>),
    /// Which hosts has a netgroup?
    Hosts(Arc<str>),
}

/// What a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The addresses of a host, in order and each once.
    Addresses(Vec<IpAddr>),
    /// The hosts of a netgroup.
    Hosts(NetgroupHosts),
}

impl Question {
    /// Asks the databases of this machine, and may wait for them as long as the C library has patience.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn look_up(&self) -> Result<Found, LookupError> {
        match self {
            Self::Addresses(host) => host_names::addresses(host).map(Found::Addresses),
            Self::Hosts(group) => {
                host_names::netgroup_hosts(group, limits::CLIENT_HOSTS_MAX).map(Found::Hosts)
            }
        }
    }
}

/// What is known of the names of a configuration, and what is to be asked when.
#[derive(Debug, Default)]
pub struct Names {
    known: HashMap<Question, Known>,
    lookups: u64,
    failed: u64,
}

/// What is known of one question.
#[derive(Debug, Default)]
struct Known {
    /// The last answer, and when it came.
    found: Option<(Instant, Found)>,
    /// What became of the look-ups since.
    trouble: Option<LookupError>,
    /// When the look-up that is under way began.
    under_way: Option<Instant>,
    /// When it is to be asked next; `None` for at once.
    due: Option<Instant>,
}

impl Known {
    /// The answer to go by at `now`, and what speaks against it.
    fn at(&self, now: Instant) -> (Option<&Found>, Option<String>) {
        let late = self.under_way.is_some_and(|since| {
            now.saturating_duration_since(since) >= seconds(limits::CLIENT_NAME_WAIT_SECONDS_MAX)
        });
        let trouble = match &self.trouble {
            Some(trouble) => Some(trouble.to_string()),
            None if late => Some("the name service does not answer in time".to_owned()),
            None => None,
        };
        let kept = seconds(limits::CLIENT_NAME_KEPT_SECONDS_MAX);
        let found = self.found.as_ref();
        let found = found.filter(|(when, _)| now.saturating_duration_since(*when) < kept);
        (found.map(|(_, found)| found), trouble)
    }
}

impl Names {
    /// The questions that are to be asked at `now` so that `wanted` are known: those that are due, as many as may be
    /// under way at once. They count as under way until [`Names::learn`] has their answers. What is not wanted any more
    /// is forgotten.
    pub fn ask<'n>(
        &mut self,
        wanted: impl Iterator<Item = &'n ClientName>,
        now: Instant,
    ) -> Vec<Question> {
        let needed = self.needed(wanted);
        let is_needed: BTreeSet<(bool, &str)> = needed.iter().map(key).collect();
        self.known.retain(|question, known| {
            known.under_way.is_some() || is_needed.contains(&key(question))
        });
        let under_way = self
            .known
            .values()
            .filter(|known| known.under_way.is_some());
        let free = limits::CLIENT_LOOKUPS_MAX.saturating_sub(under_way.count());
        let mut asked = Vec::new();
        for question in needed {
            let known = self.known.entry(question.clone()).or_default();
            let is_due = known.due.is_none_or(|due| due <= now);
            if asked.len() < free && known.under_way.is_none() && is_due {
                known.under_way = Some(now);
                asked.push(question);
            }
        }
        self.lookups += asked.len() as u64;
        asked
    }

    /// All there is to know for these names: netgroups, and hosts.
    fn needed<'n>(&self, wanted: impl Iterator<Item = &'n ClientName>) -> Vec<Question> {
        let (mut groups, mut hosts) = (BTreeSet::new(), BTreeSet::new());
        let mut of_groups = BTreeSet::new();
        for name in wanted {
            match name {
                ClientName::Host(host) => hosts.insert(Arc::clone(host)),
                ClientName::Netgroup(group) => {
                    let members = self.hosts_of(group).into_iter().flatten();
                    let members = members.filter(|host| host.parse::<IpAddr>().is_err());
                    of_groups.extend(members.map(|host| Arc::from(host.as_str())));
                    groups.insert(Arc::clone(group))
                }
            };
        }
        let room = limits::CLIENT_HOSTS_MAX.saturating_sub(hosts.len());
        hosts.extend(of_groups.into_iter().take(room));
        let groups = groups.into_iter().map(Question::Hosts);
        groups
            .chain(hosts.into_iter().map(Question::Addresses))
            .collect()
    }

    fn hosts_of(&self, group: &Arc<str>) -> Option<&Vec<String>> {
        let known = self.known.get(&Question::Hosts(Arc::clone(group)))?;
        match &known.found {
            Some((_, Found::Hosts(members))) => Some(&members.hosts),
            _ => None,
        }
    }

    /// Takes the answer to a question that was asked.
    pub fn learn(&mut self, question: &Question, answer: Result<Found, LookupError>, now: Instant) {
        self.failed += u64::from(answer.is_err());
        let Some(known) = self.known.get_mut(question) else {
            return;
        };
        known.under_way = None;
        let again = match answer {
            Ok(found) => {
                known.found = Some((now, found));
                known.trouble = None;
                limits::CLIENT_NAME_SECONDS
            }
            Err(trouble) => {
                // Whoever has gone from the databases is let in no more.
                if trouble == LookupError::Unknown {
                    known.found = None;
                }
                known.trouble = Some(trouble);
                limits::CLIENT_NAME_FAILED_SECONDS
            }
        };
        known.due = now.checked_add(seconds(again));
    }

    /// Everything is to be asked for anew.
    pub fn forget_times(&mut self) {
        for known in self.known.values_mut() {
            known.due = None;
        }
    }

    /// What a name stands for at `now`.
    #[must_use]
    pub fn resolved(&self, name: &ClientName, now: Instant) -> Resolved {
        match name {
            ClientName::Host(host) => self.resolved_host(host, now),
            ClientName::Netgroup(group) => self.resolved_group(group, now),
        }
    }

    fn resolved_host(&self, host: &Arc<str>, now: Instant) -> Resolved {
        let Some(known) = self.known.get(&Question::Addresses(Arc::clone(host))) else {
            return Resolved::default();
        };
        let (found, trouble) = known.at(now);
        let addresses = match found {
            Some(Found::Addresses(addresses)) => addresses.clone(),
            _ => Vec::new(),
        };
        Resolved {
            state: match (addresses.is_empty(), &trouble) {
                (true, None) => NameState::Asked,
                (true, Some(_)) => NameState::Nobody,
                (false, None) => NameState::Known,
                (false, Some(_)) => NameState::Kept,
            },
            addresses,
            trouble: trouble.unwrap_or_default(),
        }
    }

    fn resolved_group(&self, group: &Arc<str>, now: Instant) -> Resolved {
        let Some(known) = self.known.get(&Question::Hosts(Arc::clone(group))) else {
            return Resolved::default();
        };
        let (found, trouble) = known.at(now);
        let Some(Found::Hosts(members)) = found else {
            let state = match trouble {
                Some(_) => NameState::Nobody,
                None => NameState::Asked,
            };
            return Resolved {
                state,
                trouble: trouble.unwrap_or_default(),
                addresses: Vec::new(),
            };
        };
        let (mut addresses, mut without) = (BTreeSet::new(), Vec::new());
        for host in &members.hosts {
            if let Ok(address) = host.parse::<IpAddr>() {
                addresses.insert(address.to_canonical());
                continue;
            }
            let of_host = self.resolved_host(&Arc::from(host.as_str()), now);
            if of_host.state == NameState::Nobody {
                without.push((host, of_host.trouble));
            }
            addresses.extend(of_host.addresses);
        }
        let mut troubles: Vec<String> = trouble.iter().cloned().collect();
        if let Some((host, why)) = without.first() {
            let (some, all) = (without.len(), members.hosts.len());
            troubles.push(format!(
                "{some} of its {all} hosts have no address, as {host}: {why}"
            ));
        }
        if members.names_everybody {
            let member = "a member without a host, which would stand for every host there is, is passed over";
            troubles.push(member.to_owned());
        }
        if members.is_cut {
            let most = limits::CLIENT_HOSTS_MAX;
            troubles.push(format!(
                "it has more than {most} hosts, or a member too long to be read, and those from there on are passed over"
            ));
        }
        if addresses.is_empty() && troubles.is_empty() && members.hosts.is_empty() {
            troubles.push("it has no hosts".to_owned());
        }
        Resolved {
            state: match (addresses.is_empty(), trouble.is_some(), troubles.is_empty()) {
                (true, _, true) => NameState::Asked,
                (true, _, false) => NameState::Nobody,
                (false, true, _) => NameState::Kept,
                (false, false, false) => NameState::Partly,
                (false, false, true) => NameState::Known,
            },
            addresses: addresses.into_iter().collect(),
            trouble: troubles.join("; "),
        }
    }

    /// How long after `now` something is due, or an answer late.
    #[must_use]
    pub fn next_in(&self, now: Instant) -> Duration {
        let late = seconds(limits::CLIENT_NAME_WAIT_SECONDS_MAX);
        let under_way = self
            .known
            .values()
            .filter(|known| known.under_way.is_some());
        // What finds no place waits for an answer, and not for a time.
        let has_room = under_way.count() < limits::CLIENT_LOOKUPS_MAX;
        let of = |known: &Known| match (known.under_way, known.due) {
            (Some(since), _) => (since + late).checked_duration_since(now),
            (None, Some(due)) if has_room => Some(due.saturating_duration_since(now)),
            (None, _) => None,
        };
        let next = self.known.values().filter_map(of).min();
        next.unwrap_or(seconds(limits::CLIENT_NAME_SECONDS))
    }

    /// Whether every question has been answered once, one way or the other.
    fn is_settled(&self) -> bool {
        let is_answered = |known: &Known| known.found.is_some() || known.trouble.is_some();
        self.known.values().all(is_answered)
    }

    /// How many look-ups were begun, and how many of them gave nothing.
    #[must_use]
    pub const fn figures(&self) -> (u64, u64) {
        (self.lookups, self.failed)
    }
}

fn key(question: &Question) -> (bool, &str) {
    match question {
        Question::Addresses(host) => (false, host),
        Question::Hosts(group) => (true, group),
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl super::ExportTable {
    /// Looks all names of clients up, and waits for the answers for at most so long: for a program that wants to know
    /// what they stand for, and serves nobody.
    pub fn look_names_up(&self, patience: Duration) {
        let mut names = Names::default();
        let (sender, answers) = mpsc::channel();
        let end = Instant::now() + patience;
        loop {
            let wanted = self.names().iter().map(|live| &live.name);
            for question in names.ask(wanted, Instant::now()) {
                let sender = sender.clone();
                let asked = question.clone();
                let look = move || {
                    // Nobody may be there any more who wants to know.
                    drop(sender.send((asked.clone(), asked.look_up())));
                };
                if let Err(error) = std::thread::Builder::new().spawn(look) {
                    let why = format!("no thread to be had: {error}");
                    let answer = Err(LookupError::Unavailable(why));
                    names.learn(&question, answer, Instant::now());
                }
            }
            if names.is_settled() {
                break;
            }
            let left = end.saturating_duration_since(Instant::now());
            match answers.recv_timeout(left) {
                Ok((question, answer)) => names.learn(&question, answer, Instant::now()),
                Err(_late) => break,
            }
        }
        // What is under way still is late, whatever this caller's patience was.
        let late = Instant::now() + seconds(limits::CLIENT_NAME_WAIT_SECONDS_MAX);
        self.set_names(|name| names.resolved(name, late));
    }
}

#[cfg(test)]
mod tests;
