//! `mount -t fuse.penstock` and fstab(5): this program under the names that mount(8) looks for.
//!
//! mount(8) starts `/sbin/mount.fuse.penstock SOURCE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`, where there is
//! such a program: a link to this one. Where there is none it starts `mount.fuse3`, which starts
//! `penstock SOURCE DIR -o OPTIONS` by way of a shell. Both come here, and end with the exit codes of mount(8).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use nfs_client::NfsUrl;

use super::words::Words;
use super::{Args, background};
use crate::exit::{self, UsageError};
use crate::message;

/// Names that this program mounts under.
const NAMES: [&str; 2] = ["mount.fuse.penstock", "mount.penstock"];

/// mount(8): wrong usage.
const WRONG_USAGE: u8 = 1;

/// mount(8): it could not be mounted.
const FAILED: u8 = 32;

/// Mount an NFS export through FUSE, for mount(8): mount -t fuse.penstock, and fstab(5)
#[derive(Parser, Debug)]
#[command(name = "mount.fuse.penstock", disable_version_flag = true)]
struct Helper {
    /// What to mount: nfs://HOST[:PORT]/EXPORT/DIRECTORY, or HOST:/EXPORT/DIRECTORY
    source: NfsUrl,
    /// Where to mount it: an existing directory
    dir: PathBuf,
    /// Options, separated by commas: those of penstock mount
    #[arg(short = 'o', value_name = "OPTION,...")]
    options: Vec<String>,
    /// Leave out options that are not known
    #[arg(short = 's')]
    sloppy: bool,
    /// Check the command line only
    #[arg(short = 'f')]
    fake: bool,
    /// Say that it is mounted
    #[arg(short = 'v')]
    verbose: bool,
    /// For /etc/mtab, which there is no more
    #[arg(short = 'n')]
    no_mtab: bool,
    /// The type, as mount(8) says it
    #[arg(short = 't', value_name = "TYPE")]
    fs_type: Option<String>,
}

/// Mounts, if mount(8) has started this program; `None` if it was not.
pub(crate) fn run() -> Option<ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    if !is_meant(&words) {
        return None;
    }
    let helper = match Helper::try_parse_from(&words) {
        Ok(helper) => helper,
        Err(error) => {
            // Nobody may be there to read it.
            let _unread = error.print();
            return Some(match error.use_stderr() {
                true => ExitCode::from(WRONG_USAGE),
                false => ExitCode::SUCCESS,
            });
        }
    };
    let code = exit::code(helper.mount());
    // The process in the background tells this one by its own codes.
    Some(match background::is_child() {
        true => code,
        false if code == ExitCode::SUCCESS => code,
        false if code == ExitCode::from(exit::USAGE) => ExitCode::from(WRONG_USAGE),
        false => ExitCode::from(FAILED),
    })
}

/// Whether the command line is one of mount(8)'s: by the program's name, or an address and a directory where a command
/// would stand.
fn is_meant(words: &[OsString]) -> bool {
    let name = words.first().and_then(|word| Path::new(word).file_name());
    let by_name = name.is_some_and(|name| NAMES.iter().any(|known| name == *known));
    let address = words.get(1).and_then(|word| word.to_str());
    let by_address = words.len() > 2 && address.is_some_and(NfsUrl::is_meant_by);
    by_name || by_address
}

impl Helper {
    fn mount(self) -> anyhow::Result<ExitCode> {
        let mut options = Vec::new();
        for text in &self.options {
            if self.sloppy {
                let (known, wrong) = Words::known(text);
                wrong.iter().for_each(message::warn);
                options.push(known);
            } else {
                options.push(text.parse().map_err(UsageError)?);
            }
        }
        if self.fake {
            return Ok(ExitCode::SUCCESS);
        }
        let args = Args {
            options,
            cached: false,
            background: true,
            log: None,
            json: false,
            url: self.source,
            dir: self.dir,
        };
        args.mount(self.verbose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_mount() {
        let meant = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            is_meant(&words)
        };
        assert!(meant(&[
            "/sbin/mount.fuse.penstock",
            "h:/x",
            "/mnt",
            "-o",
            "rw"
        ]));
        assert!(meant(&["mount.penstock", "--help"]));
        assert!(meant(&[
            "penstock",
            "nfs://h/x",
            "/mnt",
            "-o",
            "rw,dev,suid"
        ]));
        assert!(meant(&["/usr/bin/penstock", "h:/x", "/mnt"]));
        assert!(!meant(&["penstock", "mount", "nfs://h/x", "/mnt"]));
        assert!(!meant(&["penstock", "nfs://h/x"]));
        assert!(!meant(&[]));
        let words = [
            "m",
            "h:/x",
            "/mnt",
            "-o",
            "rw",
            "-sfnv",
            "-t",
            "fuse.penstock",
        ];
        let helper = Helper::try_parse_from(words).unwrap();
        assert!(helper.sloppy && helper.fake && helper.no_mtab && helper.verbose);
    }
}
