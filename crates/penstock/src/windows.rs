//! The options that size the client's windows: the same for every command that moves data.

use nfs_client::client::MountOptions;
use nfs_client::{Depth, Windows};
use nfs_server::config::parse_size;

/// How much may be on its way. The default finds it by measuring.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct WindowArgs {
    /// READs or WRITEs on their way at once; found by measuring unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=WINDOW_MAX))]
    window: Option<u32>,
    /// The most bytes of one READ or WRITE: 64KiB, 1MiB; the server's own limit holds as well
    #[arg(long, value_name = "SIZE", value_parser = transfer_size)]
    transfer: Option<u32>,
}

/// Largest window that can be asked for.
const WINDOW_MAX: i64 = 1024;

/// Transfers that a window of a given depth has memory for beyond that: what is being written out, and
/// the next files.
const MORE_TRANSFERS: u64 = 8;

impl WindowArgs {
    /// Puts them into the options that a server is mounted with.
    pub(crate) fn apply(&self, options: &mut MountOptions) {
        let windows = &mut options.windows;
        if let Some(transfer) = self.transfer {
            windows.transfer_bytes_max = transfer;
        }
        if let Some(depth) = self.window {
            (windows.read, windows.write) = (Depth::Fixed(depth), Depth::Fixed(depth));
            let transfers = u64::from(depth) + MORE_TRANSFERS;
            let wanted = transfers * u64::from(windows.transfer_bytes_max);
            windows.memory_bytes_max = Windows::default().memory_bytes_max.max(wanted);
        }
    }
}

fn transfer_size(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    let max = nfs_client::limits::READ_BYTES_MAX;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| (512..=max).contains(bytes))
        .ok_or_else(|| "give a size from 512 to 4MiB".to_owned())
}
