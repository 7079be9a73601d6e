//! Hands scenarios out to as many processes at once as were asked for, and prints what becomes of
//! each when it ends.
//!
//! What a scenario prints is kept until it ends, so that the lines of two do not mix. The longest
//! begin first when several run side by side, so that none is left alone at the end.
//!
//! A scenario that hangs is ended when its time is over, and is a failure of that one alone.

use std::collections::VecDeque;
use std::io::{self, Read as _, Seek as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use nfs_deadline::{Ended, Hang, Patience, watch};

/// A scenario that waits for its turn.
pub(super) struct Item {
    /// Whole name of the scenario, with the engine.
    pub(super) name: String,
    /// The command that runs this scenario and no other.
    pub(super) command: Command,
    /// Seconds that the scenario takes on two idle cores, about.
    pub(super) seconds: u32,
    /// How long it may take.
    pub(super) patience: Patience,
    /// Whether nothing else may run meanwhile.
    pub(super) alone: bool,
}

/// How many held and how many did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: u32,
    pub(super) failed: u32,
}

/// The state that the threads share which run the scenarios.
struct Queue {
    waiting: VecDeque<Item>,
    /// Begin when all others have ended, one after the other.
    alone: VecDeque<Item>,
    running: Vec<Begun>,
    outcome: Outcome,
    total: usize,
    jobs: usize,
}

/// A scenario that is running.
struct Begun {
    name: String,
    at: Instant,
    seconds: u32,
}

/// Runs all scenarios: `jobs` at once, then one after the other those that are to be alone.
pub(super) fn run(mut items: Vec<Item>, jobs: usize) -> Outcome {
    if jobs > 1 {
        items.sort_by_key(|item| std::cmp::Reverse(item.seconds));
    }
    let total = items.len();
    let (alone, waiting): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.alone);
    let queue = Mutex::new(Queue {
        total,
        waiting: waiting.into(),
        alone: alone.into(),
        running: Vec::new(),
        outcome: Outcome::default(),
        jobs,
    });
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(&queue));
        }
    });
    {
        let mut queue = lock(&queue);
        queue.waiting = std::mem::take(&mut queue.alone);
        queue.jobs = 1;
    }
    work(&queue);
    queue
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .outcome
}

fn work(queue: &Mutex<Queue>) {
    loop {
        let Some(mut item) = begin(&mut lock(queue)) else {
            return;
        };
        let begun = SystemTime::now();
        let printed = printed(&mut item);
        let said = Said::of(&item.name, printed, begun);
        end(&mut lock(queue), &item, &said);
    }
}

/// Takes the next scenario and says that it begins.
fn begin(queue: &mut Queue) -> Option<Item> {
    let item = queue.waiting.pop_front()?;
    println!("RUN  {}", item.name);
    queue.running.push(Begun {
        name: item.name.clone(),
        at: Instant::now(),
        seconds: item.seconds,
    });
    Some(item)
}

/// Runs a scenario's process; how it ended, and what it printed: its standard output, then its standard error.
fn printed(item: &mut Item) -> io::Result<(Ended, String)> {
    // A file instead of a second pipe: nothing has to read it meanwhile.
    let mut errors = tempfile::tempfile()?;
    let command = item.command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(errors.try_clone()?).spawn()?;
    let output = child.stdout.take().map(Into::into);
    let mut printed = String::new();
    let ended = watch(child, output, item.patience, |line| {
        printed.push_str(&line);
        printed.push('\n');
    })?;
    let mut said = Vec::new();
    errors.rewind()?;
    errors.read_to_end(&mut said)?;
    printed.push_str(&String::from_utf8_lossy(&said));
    Ok((ended, printed))
}

/// What a scenario's process printed, and whether the scenario held.
struct Said {
    held: bool,
    verdict: String,
    rest: String,
}

impl Said {
    fn of(name: &str, ended: io::Result<(Ended, String)>, begun: SystemTime) -> Self {
        match ended {
            Ok((Ended::ByItself(status), printed)) => Self::by_itself(name, status, &printed),
            Ok((Ended::Late(hang), printed)) => {
                let left = nfs_lab::left_by(name, begun);
                Self::late(name, &hang, &printed, &left)
            }
            Err(error) => Self::failed(format!("FAIL {name}: cannot be run: {error}")),
        }
    }

    fn by_itself(name: &str, status: ExitStatus, printed: &str) -> Self {
        let is_verdict = |line: &&str| line.starts_with("PASS ") || line.starts_with("FAIL ");
        let mut said = match printed.lines().find(is_verdict) {
            Some(verdict) => Self {
                held: status.success(),
                verdict: verdict.to_owned(),
                rest: String::new(),
            },
            None => Self::failed(format!("FAIL {name}: its process died: {status}")),
        };
        for line in printed.lines().filter(|line| !is_verdict(line)) {
            said.rest.push_str(line);
            said.rest.push('\n');
        }
        said
    }

    /// Whatever the scenario said of itself is no verdict; what its process has `left` could not be shown by itself.
    fn late(name: &str, hang: &Hang, printed: &str, left: &[String]) -> Self {
        let mut said = Self::failed(format!("FAIL {name}: {}", hang.why));
        let processes = hang.processes.iter().map(String::as_str);
        let left = left.iter().map(String::as_str);
        for line in printed.lines().chain(processes).chain(left) {
            said.rest.push_str("     ");
            said.rest.push_str(line);
            said.rest.push('\n');
        }
        said
    }

    fn failed(verdict: String) -> Self {
        Self {
            held: false,
            verdict,
            rest: String::new(),
        }
    }
}

/// Counts a scenario that ended and prints what it said: the verdict with how far the run has come, and of
/// one that failed how to run it alone.
fn end(queue: &mut Queue, item: &Item, said: &Said) {
    queue.running.retain(|begun| begun.name != item.name);
    if said.held {
        queue.outcome.passed += 1;
    } else {
        queue.outcome.failed += 1;
    }
    println!("{} [{}]", said.verdict, queue.progress());
    if !said.held {
        println!("     again, alone: {}", shown(&item.command));
    }
    print!("{}", said.rest);
}

impl Queue {
    fn progress(&self) -> String {
        let done = self.outcome.passed + self.outcome.failed;
        let waiting: Duration = self.waiting.iter().map(|item| seconds(item.seconds)).sum();
        let running: Duration = self
            .running
            .iter()
            .map(|begun| seconds(begun.seconds).saturating_sub(begun.at.elapsed()))
            .sum();
        let alone: Duration = self.alone.iter().map(|item| seconds(item.seconds)).sum();
        let left = (waiting + running).as_secs() / self.jobs.max(1) as u64 + alone.as_secs();
        let left = match left {
            0 => String::new(),
            1..=90 => format!(", about {left} s left"),
            _ => format!(", about {} min left", left.div_ceil(60)),
        };
        format!("{done} of {}{left}", self.total)
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds))
}

/// The command as one would type it in a shell, without quotes.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use nfs_lab::Scratch;

    use super::*;

    fn item(name: &str, script: &str) -> Item {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Item {
            name: name.to_owned(),
            command,
            seconds: 1,
            patience: Patience::seconds(600),
            alone: false,
        }
    }

    #[test]
    fn each_is_run_once_and_counted_by_how_it_ended() {
        let place = tempfile::tempdir().unwrap();
        let mark = |name: &str| format!("echo x >> {}/{name}", place.path().display());
        let items = vec![
            item(
                "a:uring",
                &format!("{}; echo 'PASS a:uring (0.1 s) fine'", mark("a")),
            ),
            item(
                "b:uring",
                &format!("{}; echo 'FAIL b:uring: wrong bytes'; exit 1", mark("b")),
            ),
            item("c:uring", &format!("{}; kill -9 $$", mark("c"))),
            item(
                "d:uring",
                &format!("{}; echo 'nothing that is a verdict'", mark("d")),
            ),
        ];
        let outcome = run(items, 3);
        assert_eq!(
            outcome,
            Outcome {
                passed: 1,
                failed: 3
            }
        );
        for name in ["a", "b", "c", "d"] {
            let marks = std::fs::read_to_string(place.path().join(name)).unwrap();
            assert_eq!(marks, "x\n", "{name} ran once");
        }
    }

    #[test]
    fn who_hangs_is_a_failure_and_the_others_run() {
        let name = format!("hangs{}:uring", std::process::id());
        let scratch = Scratch::new(&name).unwrap();
        let log = scratch.path().join("server.log");
        let script = format!(
            "echo 'PASS a:uring (0.1 s)'; echo more >&2; echo last > {}; exec sleep 1000",
            log.display()
        );
        let mut hangs = Item {
            patience: Patience::seconds(2),
            ..item(&name, &script)
        };
        let begun = SystemTime::now();
        let said = Said::of(&name, printed(&mut hangs), begun);
        assert!(!said.held);
        let verdict = format!("FAIL {name}: it has run for 2 s");
        assert!(said.verdict.starts_with(&verdict), "{}", said.verdict);
        let lines: Vec<&str> = said.rest.lines().collect();
        assert_eq!(lines[..2], ["     PASS a:uring (0.1 s)", "     more"]);
        assert!(lines[2].contains(", sleep: "), "{lines:?}");
        let end = format!("     the end of {}:", log.display());
        let kept = format!("     kept {}", scratch.path().display());
        let left = [end.as_str(), "       last", kept.as_str()];
        assert_eq!(lines[lines.len() - 3..], left, "what it left is shown");
        let outcome = run(
            vec![hangs, item("b:uring", "echo 'PASS b:uring (0.1 s)'")],
            1,
        );
        assert_eq!((outcome.passed, outcome.failed), (1, 1));
    }

    #[test]
    fn what_is_to_be_alone_runs_when_all_others_have_ended() {
        let place = tempfile::tempdir().unwrap();
        let running = |name: &str| format!("{}/{name}", place.path().display());
        // Each is seen by its file while it runs; one that is to be alone fails if it sees any.
        let beside = |name: &str| {
            let file = running(name);
            item(
                name,
                &format!("touch {file}; sleep 0.2; rm {file}; echo 'PASS {name} (0.1 s)'"),
            )
        };
        let alone = |name: &str| {
            let (file, all) = (running(name), place.path().display().to_string());
            let script = format!(
                "test -z \"$(ls {all})\" || exit 1; touch {file}; sleep 0.2; rm {file}; echo 'PASS {name} (0.1 s)'"
            );
            Item {
                alone: true,
                ..item(name, &script)
            }
        };
        let items = vec![
            alone("a"),
            beside("b"),
            alone("c"),
            beside("d"),
            beside("e"),
        ];
        let outcome = run(items, 3);
        assert_eq!((outcome.passed, outcome.failed), (5, 0));
    }

    #[test]
    fn what_is_left_is_shared_by_those_that_run() {
        let queue = Queue {
            waiting: [item("a", "true"), item("b", "true")]
                .into_iter()
                .map(|item| Item {
                    seconds: 300,
                    ..item
                })
                .collect(),
            alone: [Item {
                seconds: 59,
                ..item("c", "true")
            }]
            .into(),
            running: Vec::new(),
            outcome: Outcome {
                passed: 2,
                failed: 1,
            },
            total: 6,
            jobs: 2,
        };
        assert_eq!(queue.progress(), "3 of 6, about 6 min left");
    }
}
