//! `penstock df`: space and inodes of exports.

use std::io::Write as _;
use std::process::ExitCode;

use nfs_client::nfs3::FsstatOk;
use nfs_client::{ClientError, NfsUrl, UrlPattern};
use serde_json::json;

use crate::session::{self, Common, Session};
use crate::show;
use crate::values::size::human;

/// Show the space of the file systems behind exports of an NFS server
///
/// In KiB, unless -h is given. "avail" is what the caller may use; some is often
/// kept for root.
///
/// Examples:
///
///   penstock df -h nfs://localhost:20049/
///
///   penstock df --json nfs://server/export | jq .available
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP, disable_help_flag = true)]
pub(crate) struct Args {
    /// Print sizes for people: 1.5G
    #[arg(short = 'h', long, conflicts_with = "json")]
    human_readable: bool,

    /// Show inodes, not space
    #[arg(short, long, conflicts_with = "json")]
    inodes: bool,

    #[command(flatten)]
    common: Common,

    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,

    /// The exports, or anything in them: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<UrlPattern>,
}

impl Args {
    /// Shows all file systems that are named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            let mut rows = Vec::new();
            for url in &session.expand(&self.urls).await {
                match ask(session, url).await {
                    Ok(found) if self.common.json => {
                        writeln!(std::io::stdout(), "{}", object(url, &found))?;
                    }
                    Ok(found) => rows.push(self.row(url, &found)),
                    Err(error) => session.failed(url, error),
                }
            }
            if !rows.is_empty() {
                let what = if self.inodes { "inodes" } else { "size" };
                let head = [what, "used", "avail", "use%", "URL"].map(str::to_owned);
                rows.insert(0, head);
                show::table(&mut std::io::stdout().lock(), &rows)?;
            }
            Ok(())
        })
    }

    fn row(&self, url: &NfsUrl, found: &FsstatOk) -> [String; 5] {
        let (all, free, available) = match self.inodes {
            true => (found.tfiles, found.ffiles, found.afiles),
            false => (found.tbytes, found.fbytes, found.abytes),
        };
        let used = all.saturating_sub(free);
        let number = |number: u64| match (self.human_readable, self.inodes) {
            (true, _) => human(number),
            (false, true) => number.to_string(),
            (false, false) => number.div_ceil(1024).to_string(),
        };
        [
            number(all),
            number(used),
            number(available),
            percent(used, available),
            url.to_string(),
        ]
    }
}

async fn ask(session: &mut Session, url: &NfsUrl) -> Result<FsstatOk, ClientError> {
    let (client, node) = session.resolve(url).await?;
    client.statfs(&node.handle).await
}

/// How full a file system is for the caller, rounded up as df(1) does: what is kept for root counts neither
/// as used nor as free.
fn percent(used: u64, available: u64) -> String {
    let (used, available) = (u128::from(used), u128::from(available));
    match (used * 100).checked_div(used + available) {
        None => "-".to_owned(),
        Some(_) => format!("{}%", (used * 100).div_ceil(used + available)),
    }
}

fn object(url: &NfsUrl, found: &FsstatOk) -> serde_json::Value {
    json!({
        "url": url.to_string(),
        "size": found.tbytes,
        "used": found.tbytes.saturating_sub(found.fbytes),
        "free": found.fbytes,
        "available": found.abytes,
        "inodes": found.tfiles,
        "inodes_free": found.ffiles,
        "inodes_available": found.afiles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_rounded_up() {
        let table = [
            ((0, 0), "-"),
            ((0, 10), "0%"),
            ((1, 999), "1%"),
            ((50, 50), "50%"),
            ((10, 0), "100%"),
            ((u64::MAX, u64::MAX), "50%"),
        ];
        for ((used, available), expected) in table {
            assert_eq!(percent(used, available), expected);
        }
    }
}
