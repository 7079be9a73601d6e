//! How much is on its way at once: the options that the commands which move data share.

use nfs_client::{Depth, MountOptions, Windows, limits};

/// The windows of a command.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Args {
    /// READs or WRITEs in flight for one file; found from what is measured unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window: Option<u32>,

    /// Bytes of one READ or WRITE, such as 256KiB; the server's own maximum unless given
    #[arg(long, value_name = "SIZE", value_parser = transfer_size)]
    pub(crate) transfer: Option<u32>,
}

impl Args {
    /// Mounts with these windows.
    pub(crate) fn mount_options(&self) -> MountOptions {
        let mut windows = Windows::default();
        if let Some(depth) = self.window {
            windows.read = Depth::Fixed(depth);
            windows.write = Depth::Fixed(depth);
        }
        if let Some(transfer) = self.transfer {
            windows.transfer_bytes_max = transfer;
        }
        MountOptions {
            windows,
            ..MountOptions::default()
        }
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
        Ok(bytes) if (512..=limits::TRANSFER_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!(
            "give a size from 512 to {}, such as 64KiB",
            limits::TRANSFER_BYTES_MAX
        )),
    }
}
