//! Which server is meant where no state directory is named.

use std::path::{Path, PathBuf};

use nfs_server::host::state_dir;

use crate::exit::UsageError;

/// The state directory of the only server that runs under the default base.
///
/// # Errors
/// None runs, or several do, which the error lists.
pub(crate) fn only_one() -> anyhow::Result<PathBuf> {
    only_one_below(&[state_dir::default_base()?])
}

/// The state directory of the only server that runs under the default base, or under root's.
///
/// # Errors
/// None runs that may be looked at, or several do, which the error lists.
pub(crate) fn only_one_to_look_at() -> anyhow::Result<PathBuf> {
    let mut bases = vec![state_dir::default_base()?];
    if !bases
        .iter()
        .any(|base| base == Path::new(state_dir::BASE_OF_ROOT))
    {
        bases.push(PathBuf::from(state_dir::BASE_OF_ROOT));
    }
    only_one_below(&bases)
}

fn only_one_below(bases: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let running = bases.iter().flat_map(|base| state_dir::running_below(base));
    let mut running: Vec<_> = running.collect();
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
    let shown: Vec<String> = bases
        .iter()
        .map(|base| base.display().to_string())
        .collect();
    let found = running.pop().map(|(path, _)| path);
    found.ok_or_else(|| {
        let message = format!(
            "no server runs under {} that you may ask; start one with `penstock serve`, or name its state \
             directory with --state-dir",
            shown.join(" or ")
        );
        anyhow::Error::msg(message)
    })
}
