//! `penstock ctl cache`: shows what is in the open-file cache, and drops files from it.

use super::Server;
use super::io::find;
use crate::limits;
use crate::operate::control::{
    Asker, CacheAnswer, CacheDropped, CachePage, CacheQuery, CacheRow, CacheTarget, Listed,
};
use crate::vfs::fh::{Handle, claimed_export};
use crate::vfs::{CachedFile, Dropped, FileKind};

impl Server {
    /// Shows the open-file cache or drops a file from it, as `penstock ctl cache` asks. May wait for the disk; to be
    /// called from a thread that may block.
    ///
    /// # Errors
    /// The sentence to show: there is no such export, no such file, or it is not in the cache.
    pub fn file_cache(&self, query: &CacheQuery, asker: Asker) -> Result<CacheAnswer, String> {
        match query {
            CacheQuery::List(page) => self.list_cached(page).map(CacheAnswer::Listed),
            CacheQuery::Drop { target, pages } => {
                let dropped = self.drop_cached(target, *pages)?;
                let CacheDropped { file, export, .. } = &dropped;
                tracing::info!(%export, %file, pages, "dropped from the open-file cache by {asker}");
                Ok(CacheAnswer::Dropped(dropped))
            }
        }
    }

    fn list_cached(&self, page: &CachePage) -> Result<Listed<CacheRow>, String> {
        let trees = self.service.vfs.trees.load();
        let export = match &page.export {
            Some(name) => Some(find(&trees.table, Some(name))?.id),
            None => None,
        };
        let most = page.limit.min(limits::CONTROL_CACHE_ROWS_MAX);
        let (total, objects) = self.service.vfs.cached(export, page.skip, most);
        let rows = objects.into_iter().map(|object| {
            let cached = self.service.vfs.look_at_cached(object);
            self.cache_row(&cached)
        });
        let rows = rows.collect();
        Ok(Listed { total, rows })
    }

    fn cache_row(&self, cached: &CachedFile) -> CacheRow {
        let object = &cached.object;
        CacheRow {
            export: self.export_of(&object.handle),
            file: self.shown(object),
            kind: word(object.kind).to_owned(),
            open: cached.open.iter().map(|&word| word.to_owned()).collect(),
            client_opens: cached.client_opens,
            uses: cached.uses,
            idle_seconds: cached.idle_seconds.into(),
            must_stay: cached.must_stay,
            page_cache_bytes: cached.page_cache.map(|held| held.bytes),
            dirty_bytes: cached.page_cache.map(|held| held.dirty_bytes),
        }
    }

    /// The path of the export that a handle says it is of; empty where that is served no more.
    fn export_of(&self, handle: &Handle) -> String {
        let trees = self.service.vfs.trees.load();
        let id = claimed_export(handle.as_ref());
        let tree = id.and_then(|id| trees.by_id(id));
        tree.map_or_else(String::new, |tree| tree.export.pseudo.clone())
    }

    fn drop_cached(&self, target: &CacheTarget, pages: bool) -> Result<CacheDropped, String> {
        let vfs = &self.service.vfs;
        let (export, file, dropped) = match target {
            CacheTarget::Path(path) => {
                let drop = |tree: &_, below: &[u8]| vfs.drop_file(tree, below, pages);
                let (tree, dropped) = self.find_file(path, drop)?;
                (tree.export.pseudo.clone(), path.clone(), dropped)
            }
            CacheTarget::Handle(digits) => {
                let handle = parsed(digits)?;
                let dropped = vfs.drop_object(&handle, pages);
                let dropped = dropped.map_err(|error| format!("handle {digits}: {error}"))?;
                (self.export_of(&handle), format!("handle {digits}"), dropped)
            }
        };
        let Dropped { pages, .. } = dropped;
        if !dropped.was_cached && pages.is_none() {
            return Err(format!(
                "{file} is not in the open-file cache: the server holds nothing open of it (`penstock ctl cache list` \
                 shows what it does); --pages drops what the page cache has of a file in any case, by its path"
            ));
        }
        Ok(CacheDropped {
            export,
            file,
            was_cached: dropped.was_cached,
            has_left: dropped.has_left,
            closed: dropped.closed,
            client_opens: dropped.client_opens,
            must_stay: dropped.must_stay,
            page_cache_bytes_before: pages.map(|(before, _)| before.bytes),
            page_cache_bytes: pages.map(|(_, after)| after.bytes),
        })
    }
}

/// A handle as `penstock ctl cache list` shows it.
fn parsed(digits: &str) -> Result<Handle, String> {
    let wrong = || {
        format!(
            "\"{digits}\" is no handle: write the hexadecimal digits that `penstock ctl cache list` shows"
        )
    };
    let digits = digits.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        let is_digits = pair.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digits.then(|| u8::from_str_radix(pair, 16).ok())?
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    Handle::new(&bytes.ok_or_else(wrong)?).map_err(|_| wrong())
}

const fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::BlockDevice => "block-device",
        FileKind::CharDevice => "char-device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::Unknown => "unknown",
    }
}
