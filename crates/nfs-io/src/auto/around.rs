//! What a choice of mode has to know of the machine around it: memory and who else wants it.
//!
//! Pure: [`Around`] is made of an earlier one and of what was found since. Whoever asks the kernel is in
//! [`memory`](crate::memory).

use crate::limits::{
    AUTO_FLOODED_FRACTION, AUTO_FLOODED_LEFT_FRACTION, AUTO_PRESSED, AUTO_PRESSED_LEFT,
};

/// The machine around a file's calls, as it was found last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// How much the page cache may have for this process, in bytes; [`u64::MAX`] where the kernel does not say.
    pub memory_bytes: u64,
    /// Hundredths of a percent of the last ten seconds in which some task waited for memory.
    pub pressure: u16,
    /// Memory is short: tasks have to wait for it.
    pub pressed: bool,
    /// What all large calls together move and do not come back to would fill memory within seconds.
    pub flooded: bool,
    /// Bytes of such calls in the last seconds, fading.
    pub streamed_bytes: u64,
}

impl Default for Around {
    /// Nothing is known: as if there were memory for everything.
    fn default() -> Self {
        Self {
            memory_bytes: u64::MAX,
            pressure: 0,
            pressed: false,
            flooded: false,
            streamed_bytes: 0,
        }
    }
}

impl Around {
    /// What is around a second later: `memory_bytes` and `pressure` as they were found, `None` where the kernel
    /// does not say, and `streamed` bytes of large calls since. Each state is left at half of what it is
    /// entered at, or less.
    #[must_use]
    pub fn after_a_second(
        &self,
        memory_bytes: Option<u64>,
        pressure: Option<u16>,
        streamed: u64,
    ) -> Self {
        let memory_bytes = memory_bytes.unwrap_or(u64::MAX);
        let pressure = pressure.unwrap_or(0);
        let streamed_bytes = (self.streamed_bytes / 8 * 7).saturating_add(streamed);
        let pressed_at = if self.pressed {
            AUTO_PRESSED_LEFT
        } else {
            AUTO_PRESSED
        };
        let flooded_at = if self.flooded {
            AUTO_FLOODED_LEFT_FRACTION
        } else {
            AUTO_FLOODED_FRACTION
        };
        Self {
            memory_bytes,
            pressure,
            pressed: pressure >= pressed_at,
            flooded: streamed_bytes > memory_bytes / flooded_at,
            streamed_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn found(around: Around, pressure: u16, streamed: u64) -> Around {
        around.after_a_second(Some(GIB), Some(pressure), streamed)
    }

    #[test]
    fn pressure_is_entered_later_than_it_is_left() {
        let calm = found(Around::default(), AUTO_PRESSED - 1, 0);
        assert!(!calm.pressed);
        let pressed = found(calm, AUTO_PRESSED, 0);
        assert!(pressed.pressed);
        assert!(found(pressed, AUTO_PRESSED_LEFT, 0).pressed);
        assert!(!found(pressed, AUTO_PRESSED_LEFT - 1, 0).pressed);
        assert!(!calm.after_a_second(None, None, 0).pressed);
    }

    #[test]
    fn streams_flood_memory_for_as_long_as_they_go_on() {
        let mut around = Around::default();
        for _ in 0..3 {
            around = found(around, 0, GIB / 4);
        }
        assert!(around.flooded, "{around:?}");
        for _ in 0..100 {
            around = found(around, 0, GIB / 16);
            assert!(around.flooded, "{around:?}");
        }
        let mut seconds = 0;
        while around.flooded {
            around = found(around, 0, 0);
            seconds += 1;
        }
        assert!((2..30).contains(&seconds), "{seconds}");
    }

    #[test]
    fn where_the_kernel_says_nothing_nothing_is_short() {
        let around = Around::default().after_a_second(None, None, u64::MAX);
        assert!(!around.pressed && around.memory_bytes == u64::MAX);
    }
}
