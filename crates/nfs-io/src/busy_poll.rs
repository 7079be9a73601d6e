//! Busy polling: a thread that looks for more to do for a while before it sleeps.
//!
//! A thread that sleeps in `epoll_wait` has to be woken for whatever comes next, and from the moment at which it comes
//! until the thread runs it takes longer than a small call does: tens of microseconds on a processor that was idle or
//! is virtual. One that polls asks `epoll_wait` with a timeout of zero, again and again, and is awake when something
//! comes. The price is a processor that is busy for as long as it polls: it polls only for a set time after something
//! was to be done, and then sleeps; or only while it is at work for much of the time ([`BusyPoll::AUTO`]).

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::limits::{BUSY_POLL_AUTO_MICROSECONDS, BUSY_POLL_MICROSECONDS_MAX};

/// How long an event loop polls after something was to be done, before it sleeps. The default is not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyPoll {
    time: Duration,
    when: When,
}

/// When an event loop polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    /// Whenever something was done.
    #[default]
    Always,
    /// Only while its thread is at work for much of the time.
    AtWork,
}

/// Why a text is no time to poll for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusyPollError {
    /// The text is not a number with a unit.
    #[error(
        "\"{0}\" is no time to poll for; write \"50us\", \"1ms\", \"auto\" for a short one where a thread has much to do, or \
         0 to sleep at once"
    )]
    NotATime(String),
    /// It is longer than may be set.
    #[error(
        "\"{0}\" is too long to poll for: each shard would keep a processor busy for that long after every call; write \
         {BUSY_POLL_MICROSECONDS_MAX}us or less"
    )]
    TooLong(String),
}

impl BusyPoll {
    /// The event loop sleeps as soon as there is nothing to do.
    pub const OFF: Self = Self::lasting(Duration::ZERO);

    /// The event loop polls for a short time, and only while its thread is at work for much of the time.
    pub const AUTO: Self = Self {
        time: Duration::from_micros(BUSY_POLL_AUTO_MICROSECONDS),
        when: When::AtWork,
    };

    /// An event loop that polls for so long, however long that is: only what people write is bounded.
    #[must_use]
    pub const fn lasting(time: Duration) -> Self {
        Self {
            time,
            when: When::Always,
        }
    }

    /// An event loop that polls for so many microseconds.
    #[must_use]
    pub const fn of_microseconds(time: u64) -> Self {
        Self::lasting(Duration::from_micros(time))
    }

    /// Whether the event loop sleeps as soon as there is nothing to do.
    #[must_use]
    pub const fn is_off(self) -> bool {
        self.time.is_zero()
    }

    /// Whether it polls only while its thread is at work for much of the time.
    #[must_use]
    pub const fn is_auto(self) -> bool {
        matches!(self.when, When::AtWork)
    }

    /// The time in whole microseconds.
    #[must_use]
    pub fn microseconds(self) -> u64 {
        u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) const fn time(self) -> Duration {
        self.time
    }

    pub(crate) const fn when(self) -> When {
        self.when
    }

    /// For a thread without an event loop: asks `look` again and again until it gives something or the time is over;
    /// not once if that is off.
    pub fn look<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let begun = Instant::now();
        while !self.is_off() {
            let found = look();
            if found.is_some() {
                return found;
            }
            if begun.elapsed() >= self.time {
                break;
            }
        }
        None
    }
}

impl fmt::Display for BusyPoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::Always => write!(f, "{}us", self.microseconds()),
            When::AtWork => f.write_str(AUTO),
        }
    }
}

/// The word for [`BusyPoll::AUTO`].
const AUTO: &str = "auto";

impl FromStr for BusyPoll {
    type Err = BusyPollError;

    /// Reads a whole number with `us` or `ms`, or 0 for not at all, or `auto`.
    fn from_str(text: &str) -> Result<Self, BusyPollError> {
        if text == AUTO {
            return Ok(Self::AUTO);
        }
        let not_a_time = || BusyPollError::NotATime(text.to_owned());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).ok_or_else(not_a_time)?;
        if number.is_empty() {
            return Err(not_a_time());
        }
        // What is no `u64` is too long in any unit.
        let number: u64 = number.parse().unwrap_or(u64::MAX);
        let microseconds = match unit {
            "us" => number,
            "ms" => number.saturating_mul(1000),
            "" if number == 0 => 0,
            _ => return Err(not_a_time()),
        };
        if microseconds > BUSY_POLL_MICROSECONDS_MAX {
            return Err(BusyPollError::TooLong(text.to_owned()));
        }
        Ok(Self::of_microseconds(microseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let read = |text: &str| text.parse::<BusyPoll>();
        let table = [("0", 0), ("0us", 0), ("50us", 50), ("1ms", 1000)];
        for (text, microseconds) in table {
            assert_eq!(read(text).unwrap().microseconds(), microseconds, "{text}");
        }
        let most = BusyPoll::lasting(Duration::from_micros(BUSY_POLL_MICROSECONDS_MAX));
        assert_eq!(read(&most.to_string()), Ok(most));
        assert!(read("0").unwrap().is_off() && !most.is_off() && !most.is_auto());
        assert_eq!(read("auto"), Ok(BusyPoll::AUTO));
        assert!(BusyPoll::AUTO.is_auto() && BusyPoll::AUTO.to_string() == "auto");
        for text in [
            "", "us", "50", "50 us", "-1us", "1.5ms", "1s", "50µs", "é", "Auto",
        ] {
            assert_eq!(read(text), Err(BusyPollError::NotATime(text.to_owned())));
        }
        let longer = format!("{}us", BUSY_POLL_MICROSECONDS_MAX + 1);
        for text in [longer.as_str(), "1000ms", "99999999999999999999us"] {
            assert_eq!(read(text), Err(BusyPollError::TooLong(text.to_owned())));
        }
    }
}
