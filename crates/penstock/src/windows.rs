//! How much is on its way at once: the options that the commands which move data share.

use std::num::NonZeroU64;

use nfs_client::rate::piece_bytes;
use nfs_client::{Depth, MountOptions, Windows, limits};

use crate::limits::WINDOW_MAX;
use crate::session::Common;

/// The windows of a command.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct WindowArgs {
    /// READs or WRITEs in flight for one file; found from what is measured unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WINDOW_MAX)))]
    pub(crate) window: Option<u32>,

    /// Bytes of one READ or WRITE, such as 256KiB; the server's own maximum unless given
    #[arg(long, value_name = "SIZE", value_parser = transfer_size)]
    pub(crate) transfer: Option<u32>,
}

/// READs in flight where a limit of bytes per second makes them small: an eighth of a second's each.
const LIMITED_WINDOW: u32 = 2;

/// Transfers that there is memory for beyond a window of a given depth: what is being handed on.
const MORE_TRANSFERS: u64 = 8;

impl WindowArgs {
    /// The options of `common`, with these windows.
    pub(crate) fn mount_options(&self, common: &Common) -> MountOptions {
        MountOptions {
            windows: self.windows(),
            ..common.mount_options()
        }
    }

    /// The windows of a command that moves `limit` bytes per second at most. Data read ahead is dropped when
    /// it waits for a second; what is asked for lies in half of that, unless the user says more.
    pub(crate) fn limited(&self, limit: Option<NonZeroU64>) -> Self {
        let Some(limit) = limit else {
            return self.clone();
        };
        let usual = Windows::default().transfer_bytes_max;
        let piece = u32::try_from(piece_bytes(limit)).unwrap_or(u32::MAX);
        let few = piece < usual;
        Self {
            window: self.window.or(few.then_some(LIMITED_WINDOW)),
            transfer: self.transfer.or(few.then_some(piece)),
        }
    }

    /// The windows that the options ask for, with memory for a depth that was given.
    pub(crate) fn windows(&self) -> Windows {
        let mut windows = Windows::default();
        if let Some(transfer) = self.transfer {
            windows.transfer_bytes_max = transfer;
        }
        if let Some(depth) = self.window {
            windows.read = Depth::Fixed(depth);
            windows.write = Depth::Fixed(depth);
            let transfers = u64::from(depth) + MORE_TRANSFERS;
            let wanted = transfers * u64::from(windows.transfer_bytes_max);
            windows.memory_bytes_max = windows.memory_bytes_max.max(wanted);
        }
        windows
    }

    /// The options as they are written on a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let window = self.window.map(|depth| format!("--window={depth}"));
        let transfer = self.transfer.map(|bytes| format!("--transfer={bytes}"));
        window.into_iter().chain(transfer).collect()
    }
}

/// A number of bytes per second, from 1.
pub(crate) fn rate(text: &str) -> Result<NonZeroU64, String> {
    let bytes = nfs_io::size::parse(text).map_err(|error| error.to_string())?;
    NonZeroU64::new(bytes)
        .ok_or_else(|| "give bytes per second, 1 or more, such as 20MiB".to_owned())
}

fn transfer_size(text: &str) -> Result<u32, String> {
    let bytes = nfs_io::size::parse(text).map_err(|error| error.to_string())?;
    match u32::try_from(bytes) {
        Ok(bytes) if (512..=limits::READ_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!(
            "give a size from 512 to {}, such as 64KiB",
            limits::READ_BYTES_MAX
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_makes_windows_small() {
        let given = |window, transfer| WindowArgs { window, transfer };
        let table = [
            // The user's window and transfer, bytes per second, those used.
            ((None, None), None, (None, None)),
            ((None, None), Some(80_000), (Some(2), Some(8192))),
            ((None, None), Some(1), (Some(2), Some(4096))),
            ((None, None), Some(1 << 40), (None, None)),
            ((Some(7), None), Some(80_000), (Some(7), Some(8192))),
            ((None, Some(65536)), Some(80_000), (Some(2), Some(65536))),
        ];
        for ((window, transfer), limit, expected) in table {
            let limited = given(window, transfer).limited(limit.and_then(NonZeroU64::new));
            assert_eq!((limited.window, limited.transfer), expected, "{limit:?}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(rate("20MiB").map(NonZeroU64::get), Ok(20 << 20));
        for text in ["", "0", "x", "-1", "1.5x"] {
            assert!(rate(text).is_err(), "{text} is taken");
        }
    }
}
