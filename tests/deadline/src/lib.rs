//! Commands with a deadline: whoever waits for one here goes on some time, whatever becomes of the command.
//!
//! A process in the kernel's state D, behind a file system that has stopped answering for example, cannot be killed,
//! and keeps open what it writes to. So nothing here waits without a deadline for a process to end or for its output
//! to be closed. When the time is over, what the processes do is written down, and those that can be ended are ended.
//!
//! A command stays in the process group of its caller, so that Ctrl-C ends both of them. What it started is found by
//! its parents, and by who can write to its output.

mod family;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use family::Family;

/// Lines that are read before the one in hand has been seen.
const EVENTS_MAX: usize = 1024;

/// How long is waited for a command and for what it started.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until the command is told to end; `None` waits for ever.
    pub run: Option<Duration>,
    /// Until what the command started has let go of its output, when the command itself has ended.
    pub release: Duration,
    /// From SIGTERM to SIGKILL.
    pub end: Duration,
    /// From SIGKILL until nobody is waited for any more.
    pub die: Duration,
}

impl Patience {
    /// Waits for the command for ever.
    pub const ENDLESS: Self = Self {
        run: None,
        release: Duration::from_secs(60),
        end: Duration::from_secs(20),
        die: Duration::from_secs(5),
    };

    /// Lets a command run for this long, and then waits for half a minute more at most.
    pub const fn seconds(seconds: u64) -> Self {
        Self {
            run: Some(Duration::from_secs(seconds)),
            ..Self::ENDLESS
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub enum Ended {
    /// By itself, and nobody can write to its output any more.
    ByItself(ExitStatus),
    /// Not in time.
    Late(Hang),
}

/// A command that did not end in time, or left behind what holds its output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hang {
    /// What was too late, and how long it was waited for.
    pub why: String,
    /// What each process was doing, in lines; at the end those that could not be killed.
    pub processes: Vec<String>,
}

/// Waits for `child`, and shows `see` each line of its output, to which `output` is the reading end.
///
/// # Errors
/// Its output cannot be read, or the system cannot tell how it ended.
pub fn watch(
    mut child: Child,
    output: Option<OwnedFd>,
    patience: Patience,
    mut see: impl FnMut(String),
) -> io::Result<Ended> {
    let mut ending = Ending::new(patience, Family::of(&child, output.as_ref()));
    let mut is_open = output.is_some();
    let (sender, events) = sync_channel(EVENTS_MAX);
    // Both threads outlive this call if what they wait for never comes.
    if let Some(output) = output {
        let sender = sender.clone();
        thread::Builder::new().spawn(move || read(output, &sender))?;
    }
    thread::Builder::new().spawn(move || {
        let status = child.wait();
        // Nobody listens any more if the time was over.
        let _not_wanted = sender.send(Event::Ended(status));
    })?;
    let mut status = None;
    while is_open || status.is_none() {
        match next(&events, ending.deadline) {
            Some(Event::Line(line)) => see(line),
            Some(Event::Closed(closed)) => {
                closed?;
                is_open = false;
            }
            Some(Event::Ended(ended)) => {
                status = Some(ended?);
                ending.command_has_ended();
            }
            None if ending.advance() => {}
            None => break,
        }
    }
    match (ending.hang(), status) {
        (None, Some(status)) => Ok(Ended::ByItself(status)),
        (hang, _) => Ok(Ended::Late(hang.unwrap_or_default())),
    }
}

/// What the threads tell that wait for a command.
enum Event {
    Line(String),
    /// Nobody can write to the output any more, or it cannot be read.
    Closed(io::Result<()>),
    Ended(io::Result<ExitStatus>),
}

fn read(output: OwnedFd, events: &SyncSender<Event>) {
    let mut lines = BufReader::new(File::from(output)).split(b'\n');
    loop {
        let (event, is_last) = match lines.next() {
            Some(Ok(line)) => (
                Event::Line(String::from_utf8_lossy(&line).into_owned()),
                false,
            ),
            Some(Err(error)) => (Event::Closed(Err(error)), true),
            None => (Event::Closed(Ok(())), true),
        };
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

/// The next event; `None` when the deadline has passed, also if there is no end of events.
fn next(events: &Receiver<Event>, deadline: Option<Instant>) -> Option<Event> {
    let Some(deadline) = deadline else {
        return events.recv().ok();
    };
    let left = deadline.checked_duration_since(Instant::now())?;
    events.recv_timeout(left).ok()
}

/// How far a command has been brought to its end.
struct Ending {
    patience: Patience,
    family: Family,
    stage: Stage,
    /// When the next stage begins; `None` for never.
    deadline: Option<Instant>,
    hang: Option<Hang>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Runs,
    ToldToEnd,
    Killed,
}

impl Ending {
    fn new(patience: Patience, family: Family) -> Self {
        Self {
            patience,
            family,
            stage: Stage::Runs,
            deadline: patience.run.map(|run| Instant::now() + run),
            hang: None,
        }
    }

    /// From now on only what it left behind is waited for.
    fn command_has_ended(&mut self) {
        self.family.root_has_ended();
        if self.stage == Stage::Runs {
            let release = Instant::now() + self.patience.release;
            self.deadline = self.deadline.map(|deadline| deadline.min(release));
        }
    }

    /// Does what is to be done at the deadline; whether there is another one.
    fn advance(&mut self) -> bool {
        let (stage, signal, wait) = match self.stage {
            Stage::Runs => (Stage::ToldToEnd, Signal::TERM, self.patience.end),
            Stage::ToldToEnd => (Stage::Killed, Signal::KILL, self.patience.die),
            Stage::Killed => return false,
        };
        self.family.look();
        if self.stage == Stage::Runs {
            self.hang = Some(Hang {
                why: self.why(),
                processes: self.family.doings(),
            });
        }
        self.family.signal(signal);
        self.stage = stage;
        self.deadline = Some(Instant::now() + wait);
        true
    }

    fn why(&self) -> String {
        if self.family.has_root() {
            let seconds = self.patience.run.unwrap_or_default().as_secs();
            format!("it has run for {seconds} s, and was ended")
        } else {
            let seconds = self.patience.release.as_secs();
            format!("it had ended, and {seconds} s later others could still write to its output")
        }
    }

    /// What is to be said if the time was over. Whoever is left has been killed then.
    fn hang(mut self) -> Option<Hang> {
        let mut hang = self.hang.take()?;
        // It ended when it was told to, which says nothing about what it had started.
        if self.stage == Stage::ToldToEnd {
            self.advance();
        }
        if let Some(deadline) = self.deadline {
            self.family.wait(deadline);
        }
        let left = self.family.doings();
        if !left.is_empty() {
            hang.processes.push("SIGKILL has not ended:".to_owned());
            hang.processes.extend(left);
        }
        Some(hang)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Enough for a script to come to its last command on a busy machine.
    const TO_BEGIN: Duration = Duration::from_secs(2);

    /// Runs a shell's script with its standard output read; the lines of that, and how it ended.
    fn run(script: &str, patience: Patience) -> (Vec<String>, Ended) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().map(OwnedFd::from);
        let mut lines = Vec::new();
        let ended = watch(child, output, patience, |line| lines.push(line)).unwrap();
        (lines, ended)
    }

    fn late(ended: Ended) -> Hang {
        match ended {
            Ended::Late(hang) => hang,
            Ended::ByItself(status) => panic!("it ended by itself: {status}"),
        }
    }

    #[test]
    fn what_ends_in_time_is_passed_on_as_it_is() {
        for patience in [Patience::ENDLESS, Patience::seconds(60)] {
            let (lines, ended) = run("seq 5000; printf 'no end of line'; exit 3", patience);
            assert_eq!(lines.len(), 5001);
            assert_eq!((lines[0].as_str(), lines[4999].as_str()), ("1", "5000"));
            assert_eq!(lines[5000], "no end of line");
            assert!(
                matches!(&ended, Ended::ByItself(status) if status.code() == Some(3)),
                "{ended:?}"
            );
        }
    }

    #[test]
    fn what_ignores_sigterm_is_killed_with_its_children() {
        let patience = Patience {
            run: Some(TO_BEGIN),
            end: Duration::from_millis(1),
            ..Patience::ENDLESS
        };
        let script = "trap '' TERM; echo begins; sleep 1000 & echo $!; wait";
        let (lines, ended) = run(script, patience);
        let hang = late(ended);
        assert_eq!(lines[0], "begins");
        assert!(hang.why.starts_with("it has run for"), "{hang:?}");
        let sleeps = format!("process {}, sleep", lines[1]);
        let told = |what: &str| hang.processes.iter().any(|line| line.contains(what));
        assert!(told(&sleeps) && told(", sh"), "{hang:?}");
        assert!(!told("SIGKILL"), "{hang:?}");
    }

    #[test]
    fn who_ends_when_told_leaves_nobody_behind() {
        let patience = Patience {
            run: Some(TO_BEGIN),
            ..Patience::ENDLESS
        };
        // The child ignores SIGTERM and holds nothing that is waited for.
        let script = "(trap '' TERM; exec sleep 1000) >/dev/null 2>&1 & echo $!; exec sleep 1000";
        let (lines, ended) = run(script, patience);
        assert_eq!(late(ended).processes.len(), 2);
        let stat = format!("/proc/{}/stat", lines[0]);
        // Who adopted the child may not have noticed its end.
        let is_gone = std::fs::read_to_string(stat).map_or(true, |stat| stat.contains(") Z "));
        assert!(is_gone);
    }

    #[test]
    fn who_holds_the_output_of_a_command_that_ended_is_found() {
        let patience = Patience {
            run: Some(Duration::from_secs(600)),
            release: TO_BEGIN,
            ..Patience::ENDLESS
        };
        let (lines, ended) = run("setsid sleep 1000 & echo $!", patience);
        let hang = late(ended);
        assert!(hang.why.starts_with("it had ended"), "{hang:?}");
        let sleeps = format!("process {}, sleep", lines[0]);
        assert!(hang.processes[0].starts_with(&sleeps), "{hang:?}");
        assert_eq!(hang.processes.len(), 1, "{hang:?}");
    }

    #[test]
    fn who_prints_without_end_is_ended() {
        let patience = Patience {
            run: Some(TO_BEGIN),
            ..Patience::ENDLESS
        };
        assert_eq!(late(run("exec yes", patience).1).processes.len(), 1);
    }
}
