//! Servers that do not answer, told to whoever waits for a command.

use std::time::Duration;

use nfs_client::{Liveness, Silent, Target};
use serde_json::Map;
use tokio::time::{Instant, MissedTickBehavior};

use crate::limits::{SILENCE_TOLD_EVERY_MAX, SILENCE_TOLD_FIRST};
use crate::message::{self, Level};

/// Time between two looks at the servers.
const LOOK: Duration = Duration::from_millis(500);

/// Runs `work` to its end, and tells meanwhile of the servers that `liveness` finds silent.
pub(crate) async fn told<T>(liveness: &Liveness, work: impl Future<Output = T>) -> T {
    let mut told = Told::default();
    let mut work = std::pin::pin!(work);
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            value = &mut work => {
                // The answer that ends the work is an answer, too.
                told.look_at(liveness);
                return value;
            }
            _ = look.tick() => told.look_at(liveness),
        }
    }
}

/// What was told of which servers.
#[derive(Debug, Default)]
struct Told {
    servers: Vec<ToldOf>,
}

/// A server that was told of.
#[derive(Debug)]
struct ToldOf {
    target: Target,
    /// When it was told first that it does not answer.
    at: Instant,
    /// How long it has been silent, when that was seen last.
    lasting: Duration,
    /// How long it is to be silent for to be told again.
    next: Duration,
}

/// Something that is to be told of a server.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Silent { target: Target, lasting: Duration },
    Answers { target: Target, after: Duration },
}

impl Told {
    fn look_at(&mut self, liveness: &Liveness) {
        let silent = liveness.silent(SILENCE_TOLD_FIRST);
        let heard = |target: &Target, since| liveness.heard_at(target).is_some_and(|at| at > since);
        for event in self.look(&silent, heard) {
            event.say();
        }
    }

    /// What is to be told now that `silent` are the servers that do not answer. `heard` says whether something
    /// has come from a server since a time: one that nobody waits for any more has not answered.
    fn look(&mut self, silent: &[Silent], heard: impl Fn(&Target, Instant) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        self.servers.retain(|known| {
            let is_silent = silent.iter().any(|one| one.target == known.target);
            if !is_silent && heard(&known.target, known.at) {
                events.push(Event::Answers {
                    target: known.target.clone(),
                    after: known.lasting,
                });
            }
            is_silent
        });
        for one in silent {
            let known = self.servers.iter_mut().find(|it| it.target == one.target);
            let known = match known {
                Some(known) => known,
                None => {
                    self.servers.push(ToldOf {
                        target: one.target.clone(),
                        at: Instant::now(),
                        lasting: one.lasting,
                        next: one.lasting,
                    });
                    match self.servers.last_mut() {
                        Some(known) => known,
                        None => continue,
                    }
                }
            };
            known.lasting = one.lasting;
            if one.lasting >= known.next {
                known.next = one.lasting + one.lasting.min(SILENCE_TOLD_EVERY_MAX);
                events.push(Event::Silent {
                    target: one.target.clone(),
                    lasting: one.lasting,
                });
            }
        }
        events
    }
}

impl Event {
    fn say(&self) {
        let members = |target: &Target, lasting: &Duration| {
            Map::from_iter([
                ("server".to_owned(), target.to_string().into()),
                ("silent_seconds".to_owned(), lasting.as_secs().into()),
            ])
        };
        match self {
            Self::Silent { target, lasting } => {
                let seconds = lasting.as_secs();
                let text = format!("server {target} does not answer, still trying ({seconds} s)");
                message::say(Level::Warn, &text, members(target, lasting));
            }
            Self::Answers { target, after } => {
                let text = format!("server {target} answers again");
                message::say(Level::Info, &text, members(target, after));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_told_less_and_less_often() {
        let target = Target::new("h", 2049);
        let mut told = Told::default();
        let mut seconds = Vec::new();
        for lasting in 3..400 {
            let silent = Silent {
                target: target.clone(),
                lasting: Duration::from_secs(lasting),
            };
            let events = told.look(&[silent], |_, _| true);
            seconds.extend((!events.is_empty()).then_some(lasting));
        }
        assert_eq!(seconds, [3, 6, 12, 24, 48, 96, 156, 216, 276, 336, 396]);
        let answers = |target: &Target| Event::Answers {
            target: target.clone(),
            after: Duration::from_secs(399),
        };
        assert_eq!(told.look(&[], |_, _| true), [answers(&target)]);
        assert_eq!(told.look(&[], |_, _| true), []);
    }

    #[test]
    fn a_server_that_nobody_waits_for_any_more_has_not_answered() {
        let silent = Silent {
            target: Target::new("h", 2049),
            lasting: Duration::from_secs(3),
        };
        let mut told = Told::default();
        assert_eq!(told.look(&[silent], |_, _| false).len(), 1);
        assert_eq!(told.look(&[], |_, _| false), []);
    }
}
