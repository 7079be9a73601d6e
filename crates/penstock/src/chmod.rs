//! `penstock chmod`: changes permission bits.

use std::process::ExitCode;

use nfs_client::UrlPattern;
use nfs_client::nfs3::{Ftype3, Sattr3};

use crate::attributes::{self, Scope};
use crate::session::Common;
use crate::show;
use crate::values::mode::{ModeChange, umask};

/// Change the modes of files on an NFS server
///
/// MODE is octal (644), or changes such as u+rwX,g-w,o=: who (u, g, o, a), what
/// to do (+, -, =), and the permissions (r, w, x, s, t; X is x for directories
/// and for what somebody may execute already; or u, g, o for what these have). As
/// chmod(1) does, an octal mode of up to four digits leaves the set-ID bits of
/// directories alone. A symbolic link is followed; with -R, links below
/// directories are left alone.
///
/// Examples:
///
///   penstock chmod 640 nfs://localhost:20049/notes.txt
///
///   penstock chmod -R u+rwX,go-w nfs://server/export/photos
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Change everything below directories too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Print the URL of each thing that was changed
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    common: Common,

    /// The new mode, or a change of the present one
    #[arg(allow_hyphen_values = true)]
    mode: ModeChange,

    /// What to change: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<UrlPattern>,
}

impl Args {
    /// Changes the permission bits of everything that the URLs name.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let umask = umask();
        let scope = Scope {
            recursive: self.recursive,
            follow: true,
            links: false,
            verbose: self.verbose,
        };
        attributes::run(&self.common, &self.urls, scope, |old| Sattr3 {
            mode: Some(self.mode.apply(old.mode, old.ftype == Ftype3::Dir, umask)),
            ..Sattr3::default()
        })
    }
}
