//! Which server is meant where no state directory is named.

use std::path::PathBuf;

use nfs_server::host::state_dir;

use crate::exit::UsageError;

/// The state directory of the only server that runs under the default base.
///
/// # Errors
/// None runs, or several do, which the error lists.
pub(crate) fn only_one() -> anyhow::Result<PathBuf> {
    let base = state_dir::default_base()?;
    let mut running = state_dir::running_below(&base);
    if running.len() > 1 {
        let mut message = String::from("several servers run; choose one with --state-dir:");
        for (path, record) in &running {
            message.push_str(&format!("\n  --state-dir {}", path.display()));
            for (pseudo, served) in record.iter().flat_map(|record| &record.exports) {
                message.push_str(&format!("   {pseudo} is {}", served.display()));
            }
        }
        return Err(UsageError(message).into());
    }
    let found = running.pop().map(|(path, _)| path);
    found.ok_or_else(|| {
        let message = format!(
            "no server runs under {}; start one with `penstock serve`, or name its state \
             directory with --state-dir",
            base.display()
        );
        anyhow::Error::msg(message)
    })
}
