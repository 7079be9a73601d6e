//! `penstock chown`: changes owners and groups.

use std::process::ExitCode;

use nfs_client::UrlPattern;
use nfs_client::nfs3::Sattr3;

use crate::attributes::{self, Scope};
use crate::session::Common;
use crate::show;
use crate::values::owner::Owner;

/// Change the owners and groups of files on an NFS server
///
/// OWNER is UID, UID:GID or :GID; names are looked up in this machine's
/// /etc/passwd and /etc/group, for the server knows numbers only, and NAME: is
/// the group that NAME logs in with. Most servers let only root change owners,
/// and squash root unless they are told not to. A symbolic link is followed,
/// unless -h is given; with -R links are changed themselves and never followed.
///
/// Examples:
///
///   penstock chown 1000:1000 'nfs://localhost:20049/notes.txt?uid=0'
///
///   penstock chown -R :100 nfs://server/export/photos
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP, disable_help_flag = true)]
pub(crate) struct Args {
    /// Change everything below directories too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Change symbolic links themselves
    #[arg(short = 'h', long)]
    no_dereference: bool,

    /// Print the URL of each thing that was changed
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    common: Common,

    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,

    /// The new owner
    owner: Owner,

    /// What to change: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<UrlPattern>,
}

impl Args {
    /// Changes owner and group of everything that the URLs name.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let new = Sattr3 {
            uid: self.owner.uid,
            gid: self.owner.gid,
            ..Sattr3::default()
        };
        let scope = Scope {
            recursive: self.recursive,
            follow: !self.no_dereference && !self.recursive,
            links: true,
            verbose: self.verbose,
        };
        attributes::run(&self.common, &self.urls, scope, |_| new)
    }
}
