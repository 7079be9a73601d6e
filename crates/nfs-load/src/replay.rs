//! Replays of recorded loads: the calls that a server had, on made-up files of another one, in the same order for each
//! file, at their own pace or faster.
//!
//! A recording becomes a script (`script.rs`), which is played against each target in turn (`player.rs`) by one thread
//! with a connection for each of the clients' own; `turns.rs` keeps the order.

mod play;
mod player;
mod run;
pub mod script;
#[cfg(test)]
mod tests;
mod turns;

pub use run::{Plan, run};

use crate::error::LoadError;
use crate::limits;

/// How fast a load is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// By the clock, so many times as fast as it was recorded.
    Times(f64),
    /// Each call as soon as those before it on its files allow.
    Max,
}

impl Speed {
    /// Reads it as it is given: a number, or `max`.
    ///
    /// # Errors
    /// In words: it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times: Option<f64> = text.parse().ok();
        let times = times.filter(|times| (0.001..=limits::REPLAY_SPEED_MAX).contains(times));
        times.map(Self::Times).ok_or_else(|| {
            format!("'{text}' is no speed: give 1 for the recording's own, 10 for ten times that, or max")
        })
    }

    /// Seconds that a load takes at this speed which took so many; nothing where that is up to the server.
    #[must_use]
    pub fn seconds(self, recorded: f64) -> Option<f64> {
        match self {
            Self::Times(times) => Some(recorded / times),
            Self::Max => None,
        }
    }

    fn check(self, recorded: f64) -> Result<(), LoadError> {
        match self.seconds(recorded) {
            Some(seconds) if seconds > limits::SECONDS_MAX => Err(LoadError::Setting(format!(
                "at this speed the recording takes {seconds:.0} s, and {:.0} are the most: give a higher --speed",
                limits::SECONDS_MAX
            ))),
            _ => Ok(()),
        }
    }
}
