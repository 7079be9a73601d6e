//! Which mode the evidence asks for. The first rule that holds decides; how soon a wish is followed is for
//! [`Flow::settle`](super::Flow). What is entered at one figure is left at a lower one.

use super::{Around, Call, Direction, Flow, Hint, Reason};
use crate::Mode;
use crate::limits::{
    AUTO_CALLS_MIN, AUTO_FITS_FRACTION, AUTO_FITS_LEFT_FRACTION, AUTO_LARGE_BYTES,
    AUTO_LARGE_LEFT_BYTES, AUTO_SCATTERED_CALLS_MIN, AUTO_SMALL_FILE_BYTES,
    AUTO_SMALL_FILE_LEFT_BYTES,
};

/// The mode for calls as they have been lately, and why. `read_hot`: READs of the file come back to what is in
/// the page cache.
pub(super) fn wish(flow: &Flow, read_hot: bool, call: &Call, around: &Around) -> (Mode, Reason) {
    let look = Look {
        flow,
        call,
        around,
        read_hot,
    };
    if let Some(mode) = look.of_hint() {
        return (mode, Reason::Hint);
    }
    if look.is_small_file() {
        return (Mode::Buffered, Reason::SmallFile);
    }
    match call.direction {
        Direction::Read => look.of_read(),
        Direction::Write => look.of_write(),
    }
}

/// A flow, as the rules look at it.
struct Look<'l> {
    flow: &'l Flow,
    call: &'l Call,
    around: &'l Around,
    read_hot: bool,
}

impl Look<'_> {
    fn of_hint(&self) -> Option<Mode> {
        match self.call.hint {
            Hint::Normal | Hint::Sequential | Hint::Random => None,
            Hint::WillNeed => Some(Mode::Buffered),
            Hint::NoReuse if self.is_large() && self.is_aligned() => Some(Mode::Direct),
            Hint::NoReuse => Some(Mode::DontCache),
        }
    }

    fn of_read(&self) -> (Mode, Reason) {
        let past = match self.is_sequential() && !self.is_large() {
            true => Mode::DontCache,
            false => Mode::Direct,
        };
        if self.is_reused() {
            return (Mode::Buffered, Reason::Reused);
        }
        if self.around.pressed && self.is_known() {
            return (past, Reason::Pressure);
        }
        if self.is_cached() {
            return (Mode::Buffered, Reason::Cached);
        }
        if self.fits() {
            return (Mode::Buffered, Reason::Fits);
        }
        // A first large call on what memory cannot hold is read as what it will turn out to be.
        let too_few = match self.is_sequential() {
            true => !self.is_known(),
            false => self.flow.calls < AUTO_SCATTERED_CALLS_MIN,
        };
        if too_few && !self.is_large() {
            return (Mode::Buffered, Reason::Beginning);
        }
        match (self.is_sequential(), self.is_large()) {
            (true, true) => (past, Reason::Stream),
            (true, false) => (past, Reason::SmallStream),
            (false, _) => (past, Reason::Scattered),
        }
    }

    fn of_write(&self) -> (Mode, Reason) {
        let past = match self.is_large() && self.is_aligned() {
            true => Mode::Direct,
            false => Mode::DontCache,
        };
        if self.read_hot && self.is_reused() {
            return (Mode::Buffered, Reason::Reused);
        }
        if self.is_stable() {
            return match self.is_aligned() {
                true => (Mode::Direct, Reason::Stable),
                false => (Mode::Buffered, Reason::Unaligned),
            };
        }
        if self.around.pressed && self.is_known() && !self.is_reused() {
            return (past, Reason::Pressure);
        }
        if self.is_reused() && !self.around.flooded {
            return (Mode::Buffered, Reason::Reused);
        }
        if !self.is_aligned() {
            return (Mode::Buffered, Reason::Unaligned);
        }
        if !self.is_large() {
            return (Mode::Buffered, Reason::Small);
        }
        if self.fits() {
            return (Mode::Buffered, Reason::Fits);
        }
        match self.is_sequential() {
            true => (Mode::Direct, Reason::Stream),
            false => (Mode::Direct, Reason::Scattered),
        }
    }

    /// Enough calls were seen to say what they have in common.
    fn is_known(&self) -> bool {
        self.flow.calls >= u64::from(AUTO_CALLS_MIN)
    }

    fn is_small_file(&self) -> bool {
        let most = match self.flow.reason {
            Reason::SmallFile => AUTO_SMALL_FILE_LEFT_BYTES,
            _ => AUTO_SMALL_FILE_BYTES,
        };
        self.call.file_bytes <= most
    }

    fn is_large(&self) -> bool {
        let least = match self.flow.mode {
            Mode::Direct => AUTO_LARGE_LEFT_BYTES,
            Mode::Buffered | Mode::DontCache => AUTO_LARGE_BYTES,
        };
        u64::from(self.flow.mean_bytes) >= least
    }

    fn is_sequential(&self) -> bool {
        match self.call.hint {
            Hint::Sequential => true,
            Hint::Random => false,
            Hint::Normal | Hint::NoReuse | Hint::WillNeed => {
                let least = match self.flow.reason {
                    Reason::Stream | Reason::SmallStream => 40,
                    _ => 75,
                };
                // Whoever begins large and at the beginning will go on.
                let begins = !self.is_known() && self.is_large();
                begins || self.flow.sequential.is(least)
            }
        }
    }

    fn is_reused(&self) -> bool {
        let least = match self.flow.reason {
            Reason::Reused => 25,
            _ => 50,
        };
        self.flow.reused.is(least)
    }

    fn is_cached(&self) -> bool {
        let least = match self.flow.reason {
            Reason::Cached => 40,
            _ => 75,
        };
        self.flow.cached.is(least)
    }

    fn is_stable(&self) -> bool {
        let least = match self.flow.reason {
            Reason::Stable => 50,
            _ => 75,
        };
        self.flow.stable.is(least)
    }

    fn is_aligned(&self) -> bool {
        let most = match self.flow.reason {
            Reason::Unaligned => 10,
            _ => 25,
        };
        !self.flow.unaligned.is(most)
    }

    /// The file has its place in memory, and large calls on many such files do not take it from each other.
    fn fits(&self) -> bool {
        let part = match self.flow.reason {
            Reason::Fits => AUTO_FITS_LEFT_FRACTION,
            _ => AUTO_FITS_FRACTION,
        };
        self.call.file_bytes <= self.around.memory_bytes / part
            && !(self.around.flooded && self.is_large())
    }
}
