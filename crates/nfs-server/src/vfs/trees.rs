//! The trees of all exports, exchanged as one when the configuration is reloaded.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::{Tree, Vfs};
use crate::exports::ExportTable;
use crate::limits;
use crate::vfs::handle_table::HandleTable;

/// The exports and their trees, swapped as one on reload.
pub(crate) struct Trees {
    pub(crate) table: Arc<ExportTable>,
    by_id: HashMap<u32, Arc<Tree>, RandomState>,
}

impl Trees {
    /// Opens the root of every export; those that `old` serves already from the same directory keep
    /// what is known of it.
    ///
    /// # Errors
    /// The first export whose directory cannot be opened, with the reason.
    pub(crate) fn open(
        table: Arc<ExportTable>,
        old: Option<&Self>,
    ) -> core::result::Result<Self, String> {
        let mut by_id = HashMap::default();
        for export in table.exports() {
            let before = old.and_then(|old| old.by_id(export.id));
            let tree = Tree::open(Arc::clone(export), before.map(AsRef::as_ref))
                .map_err(|error| format!("{} cannot be served: {error}", export.path.display()))?;
            let tree = Arc::new(tree);
            by_id.insert(export.id, tree);
        }
        Ok(Self { table, by_id })
    }

    /// Does any export need the handle table?
    pub(crate) fn need_table(&self) -> bool {
        self.by_id.values().any(|tree| tree.is_by_table())
    }

    /// Retires what is served by this and no more by `next`.
    fn retire_all_but(&self, next: &Self) {
        for (id, tree) in &self.by_id {
            let kept = next.by_id(*id).is_some_and(|next| next.shares_place(tree));
            if !kept {
                tree.retire();
            }
        }
    }

    pub(crate) fn by_id(&self, id: u32) -> Option<&Arc<Tree>> {
        self.by_id.get(&id)
    }
}

impl Vfs {
    /// Serves other trees from now on.
    ///
    /// # Errors
    /// When a handle table is needed for them and cannot be opened; then nothing has changed.
    pub(crate) fn serve(&self, next: Trees) -> core::result::Result<(), String> {
        self.open_table_for(&next)?;
        // First, so that no call meets a new tree with an object of the old.
        self.trees.load().retire_all_but(&next);
        self.trace
            .set_exports(next.table.exports().iter().map(AsRef::as_ref));
        self.trees.store(Arc::new(next));
        Ok(())
    }

    /// Opens the handle table if one of the trees needs it.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(crate) fn open_table_for(&self, trees: &Trees) -> core::result::Result<(), String> {
        if !trees.need_table() || self.table.get().is_some() {
            return Ok(());
        }
        let path = &self.table_path;
        let table = HandleTable::open(path, limits::HANDLE_TABLE_OBJECTS_MAX)
            .map_err(|error| format!("the handle table {}: {error}", path.display()))?;
        self.table.get_or_init(|| table);
        Ok(())
    }
}
