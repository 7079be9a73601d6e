//! What is served: shown to the operator, and exchanged while the server runs.

use std::sync::Arc;

use super::Server;
use crate::exports::ExportTable;
use crate::host::confinement;
use crate::operate::control::ExportStatus;
use crate::vfs::Trees;

impl Server {
    /// The exports as they are served, for `penstock ctl exports`.
    #[must_use]
    pub fn exports(&self) -> Vec<ExportStatus> {
        let trees = self.service.vfs.trees.load();
        trees
            .table
            .exports()
            .iter()
            .map(|export| ExportStatus::of(export))
            .collect()
    }

    /// Serves another table from now on, all of it or, on error, the old one.
    ///
    /// # Errors
    /// Which export cannot be served, and why.
    pub fn apply(&self, table: ExportTable) -> Result<(), String> {
        self.serve_table(table, false)
    }

    /// Serves another table from now on, as [`Server::apply`] does, and leaves live changes of I/O policies as they are where
    /// an export's settings are those of before.
    ///
    /// # Errors
    /// Which export cannot be served, and why.
    pub fn apply_keeping_modes(&self, table: ExportTable) -> Result<(), String> {
        self.serve_table(table, true)
    }

    fn serve_table(&self, table: ExportTable, keeps_modes: bool) -> Result<(), String> {
        let _turn = self.settings_turn.lock();
        confinement::admits(table.exports().iter().map(|export| export.path.as_path()))?;
        let old = self.service.vfs.trees.load_full();
        table.go_on_from(&old.table);
        if keeps_modes {
            table.keep_modes(&old.table);
        }
        let trees = Trees::open(Arc::new(table), Some(&old))?;
        self.service.vfs.serve(trees)?;
        let served = self.service.vfs.trees.load_full();
        let exports = served.table.exports().iter();
        self.service.audit.set_exports(exports.map(AsRef::as_ref));
        self.names.ask_anew();
        for export in old.table.exports() {
            if export.io.is_changed() && !keeps_modes {
                tracing::info!(export = %export.pseudo, "I/O modes as configured again");
            }
        }
        Ok(())
    }
}
