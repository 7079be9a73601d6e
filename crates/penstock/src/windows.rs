//! How much is on its way at once: the options that the commands which move data share.

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

/// Transfers that there is memory for beyond a window of a given depth: what is being handed on.
const MORE_TRANSFERS: u64 = 8;

impl WindowArgs {
    /// Mounts with these windows.
    pub(crate) fn mount_options(&self, common: &Common) -> MountOptions {
        MountOptions {
            windows: self.windows(),
            ..common.mount_options()
        }
    }

    /// These windows, with memory for a depth that was given.
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

fn transfer_size(text: &str) -> Result<u32, String> {
    let bytes = nfs_server::config::parse_size(text)?;
    match u32::try_from(bytes) {
        Ok(bytes) if (512..=limits::READ_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!(
            "give a size from 512 to {}, such as 64KiB",
            limits::READ_BYTES_MAX
        )),
    }
}
