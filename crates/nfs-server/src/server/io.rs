//! The operator's side of how bytes travel: shows an export's policy and puts another in its place.

use std::path::Path;
use std::sync::Arc;

use super::Server;
use crate::exports::{Export, ExportTable};
use crate::operate::control::{Asker, IoChanged, IoOrder, IoQuery, IoState, IoView};

/// How long a live change of a policy holds, in words for the operator.
const LASTS: &str = "until the next reload or restart, which go back to the configuration";

impl Server {
    /// How bytes travel in the exports that the query names: what `penstock ctl io` shows.
    ///
    /// # Errors
    /// The sentence to show: there is no such export.
    pub fn io_policies(&self, query: &IoQuery) -> Result<Vec<IoState>, String> {
        let trees = self.service.vfs.trees.load();
        let chosen = match &query.export {
            Some(name) => vec![find(&trees.table, Some(name))?],
            None => trees.table.exports().iter().collect(),
        };
        let state =
            |export: &&Arc<Export>| IoState::of(&export.pseudo, export.path.clone(), &export.io);
        Ok(chosen.iter().map(state).collect())
    }

    /// Changes the I/O policy of an export, as `penstock ctl io` asks for. The change is one step: every call
    /// is decided by what held before or by what holds then. It is logged once.
    ///
    /// # Errors
    /// The sentence to show; then nothing has changed.
    pub fn set_io_policy(&self, order: &IoOrder, asker: Asker) -> Result<IoChanged, String> {
        let change = order.change()?;
        // A reload that came between would leave the change to an export that nobody uses any more.
        let _turn = self.settings_turn.lock();
        let trees = self.service.vfs.trees.load_full();
        let export = find(&trees.table, order.export.as_deref())?;
        let (before, now) = export.io.change(|before| change.applied_to(before));
        tracing::info!(
            export = %export.pseudo, by = %asker, %before, %now,
            "I/O modes changed, {LASTS}"
        );
        let idle = now.idle_rules().into_iter();
        Ok(IoChanged {
            export: export.pseudo.clone(),
            before: IoView::of(&before),
            now: IoView::of(&now),
            warnings: idle
                .map(|(index, why)| format!("rule {} {why}", index + 1))
                .collect(),
            lasts: LASTS.to_owned(),
        })
    }
}

/// The export called `name`: the path that clients mount or, if none has that, its directory. Without a
/// name the only one there is.
pub(super) fn find<'t>(
    table: &'t ExportTable,
    name: Option<&str>,
) -> Result<&'t Arc<Export>, String> {
    let exports = table.exports();
    let listed = || {
        let pseudos: Vec<&str> = exports
            .iter()
            .map(|export| export.pseudo.as_str())
            .collect();
        pseudos.join(" ")
    };
    let Some(name) = name else {
        return match exports {
            [only] => Ok(only),
            _ => Err(format!(
                "there are several exports; name one of: {}",
                listed()
            )),
        };
    };
    let by_pseudo = exports.iter().find(|export| export.pseudo == name);
    let by_path = || exports.iter().find(|export| export.path == Path::new(name));
    by_pseudo
        .or_else(by_path)
        .ok_or_else(|| format!("there is no export \"{name}\"; there are: {}", listed()))
}
