//! Reload: a valid configuration is swapped in, an invalid one changes nothing and is logged.
//!
//! Exports and the log level change under running requests. What belongs to the whole server
//! (addresses, engine, memory, ...) needs a restart; a reload that finds it changed says so.

use std::path::PathBuf;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::exports::ExportTable;
use crate::exports::config::{Config, ConfigErrors, ExportConfig, LogLevel, ServerConfig};
use crate::exports::order::{self, ExportOrder, ExportsChanged};

/// Reads the configuration again and puts it into effect.
pub struct Reloader {
    current: Mutex<Config>,
    apply: Apply,
}

/// Makes the exports of a new configuration the served ones, all or none; `Err` says why not.
type Apply = Box<dyn Fn(ExportTable, Occasion) -> Result<(), String> + Send + Sync>;

/// Why other exports are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The configuration was read again. The log level is there only if the file's has changed, so that one set by `ctl`
    /// or a flag stays.
    Reload(Option<LogLevel>),
    /// One export was added or removed: with the others everything stays as it is.
    Order,
}

/// What a reload changed, by pseudo path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// The file; `None` for a server without one, where a reload changes nothing.
    pub file: Option<PathBuf>,
    /// Exports that were not served before.
    pub added: Vec<String>,
    /// Exports that are gone: their handles are stale.
    pub removed: Vec<String>,
    /// Exports that go on with other settings.
    pub changed: Vec<String>,
    /// Keys of `[server]` that were changed and need a restart.
    pub needs_restart: Vec<String>,
    /// Sentences about what is allowed and yet deserves a second look.
    pub warnings: Vec<String>,
}

/// The reason for which a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration file has mistakes, each told with its line and cure.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// The configuration is sound, but its exports cannot be served.
    #[error("{0}")]
    Apply(String),
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloader")
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl Reloader {
    /// Makes one for a server that runs on `config` (as the file says, without what flags changed) and puts a
    /// new configuration into effect with `apply`.
    pub fn new(
        config: Config,
        apply: impl Fn(ExportTable, Occasion) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            current: Mutex::new(config),
            apply: Box::new(apply),
        }
    }

    /// Reads the configuration again; logs what came of it, with line and cure where it is wrong.
    /// One at a time: a second caller waits.
    ///
    /// # Errors
    /// What is wrong; then everything stays as it was.
    pub fn reload(&self) -> Result<ReloadReport, ReloadError> {
        let mut current = self.current.lock();
        let Some(file) = current.file.clone() else {
            tracing::info!("nothing to reload: this server was started from flags alone");
            return Ok(ReloadReport::default());
        };
        let outcome = Config::load(&file)
            .map_err(ReloadError::from)
            .and_then(|new| {
                let table = ExportTable::new(&new)?;
                let level = (new.server.log != current.server.log).then_some(new.server.log);
                (self.apply)(table, Occasion::Reload(level)).map_err(ReloadError::Apply)?;
                Ok(new)
            });
        match outcome {
            Ok(new) => {
                let report = ReloadReport::between(&current, &new);
                report.log();
                *current = new;
                Ok(report)
            }
            Err(error) => {
                for line in error.to_string().lines() {
                    tracing::error!("reload refused, the old configuration stays: {line}");
                }
                Err(error)
            }
        }
    }
}

impl Reloader {
    /// Serves one export more, until the configuration is read again or the server ends.
    ///
    /// # Errors
    /// What is wrong; then everything stays as it was.
    pub fn add(&self, order: &ExportOrder) -> Result<ExportsChanged, ReloadError> {
        let mut current = self.current.lock();
        let next = order::with(&current, order)?;
        (self.apply)(ExportTable::new(&next)?, Occasion::Order).map_err(ReloadError::Apply)?;
        let added = next.exports.last().map(changed_export).unwrap_or_default();
        let before = current.warnings();
        let mut warnings = next.warnings();
        warnings.retain(|warning| !before.contains(warning));
        *current = next;
        Ok(ExportsChanged {
            file: current.file.clone(),
            exports: current.exports.len(),
            warnings,
            ..added
        })
    }

    /// Serves one export less, until the configuration is read again or the server ends: its handles are stale.
    ///
    /// # Errors
    /// What is wrong; then everything stays as it was.
    pub fn remove(&self, pseudo: &str) -> Result<ExportsChanged, ReloadError> {
        let mut current = self.current.lock();
        let (next, removed) = order::without(&current, pseudo)?;
        (self.apply)(ExportTable::new(&next)?, Occasion::Order).map_err(ReloadError::Apply)?;
        *current = next;
        Ok(ExportsChanged {
            file: current.file.clone(),
            exports: current.exports.len(),
            ..changed_export(&removed)
        })
    }
}

fn changed_export(export: &ExportConfig) -> ExportsChanged {
    ExportsChanged {
        pseudo: export.pseudo.clone(),
        path: export.path.clone(),
        ..ExportsChanged::default()
    }
}

impl ReloadReport {
    fn between(old: &Config, new: &Config) -> Self {
        let pseudos = |from: &Config, in_other: &dyn Fn(&str) -> bool| {
            let pseudos = from.exports.iter().map(|export| export.pseudo.clone());
            pseudos
                .filter(|pseudo| in_other(pseudo))
                .collect::<Vec<_>>()
        };
        let lacks = |config: &Config, pseudo: &str| {
            config.exports.iter().all(|export| export.pseudo != pseudo)
        };
        let differs = |pseudo: &str| {
            let old = old.exports.iter().find(|export| export.pseudo == pseudo);
            old.is_some() && !new.exports.iter().any(|export| Some(export) == old)
        };
        Self {
            file: new.file.clone(),
            added: pseudos(new, &|pseudo| lacks(old, pseudo)),
            removed: pseudos(old, &|pseudo| lacks(new, pseudo)),
            changed: pseudos(new, &differs),
            needs_restart: needs_restart(&old.server, &new.server),
            warnings: new.warnings(),
        }
    }

    fn log(&self) {
        tracing::info!(
            added = ?self.added, removed = ?self.removed, changed = ?self.changed,
            "configuration reloaded"
        );
        if !self.needs_restart.is_empty() {
            let keys = self.needs_restart.join(", ");
            tracing::warn!("changed in [server], but in effect only after a restart: {keys}");
        }
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
    }
}

/// The keys of `[server]` that differ, but for `log`.
fn needs_restart(old: &ServerConfig, new: &ServerConfig) -> Vec<String> {
    let keys = [
        ("listen", old.listen != new.listen),
        ("state_dir", old.state_dir != new.state_dir),
        ("versions", old.versions != new.versions),
        ("lease_seconds", old.lease_seconds != new.lease_seconds),
        ("grace_seconds", old.grace_seconds != new.grace_seconds),
        ("engine", old.engine != new.engine),
        ("memory", old.memory_bytes != new.memory_bytes),
        ("shards", old.shards != new.shards),
        ("busy_poll", old.busy_poll != new.busy_poll),
        (
            "congestion_control",
            old.congestion_control != new.congestion_control,
        ),
        ("helper_threads", old.helper_threads != new.helper_threads),
        ("portmap", old.portmap != new.portmap),
        ("rpcbind", old.rpcbind != new.rpcbind),
        ("server_groups", old.server_groups != new.server_groups),
        ("idmap_domain", old.idmap_domain != new.idmap_domain),
        ("trust_loopback", old.trust_loopback != new.trust_loopback),
        ("log_json", old.log_json != new.log_json),
        ("audit_to", old.audit_to != new.audit_to),
        ("metrics", old.metrics != new.metrics),
        ("web", old.web != new.web),
        ("http_names", old.http_names != new.http_names),
        ("status_group", old.status_group != new.status_group),
        ("confine", old.confine != new.confine),
        (
            "confine_beneath",
            old.confine_beneath != new.confine_beneath,
        ),
    ];
    keys.into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(key, _)| key.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use arc_swap::ArcSwap;

    use super::*;

    /// An `apply` that swaps the export table and nothing else.
    fn swap_into(
        table: Arc<ArcSwap<ExportTable>>,
    ) -> impl Fn(ExportTable, Occasion) -> Result<(), String> + Send + Sync + 'static {
        move |new, _| {
            table.store(Arc::new(new));
            Ok(())
        }
    }

    struct Fixture {
        directory: tempfile::TempDir,
        table: Arc<ArcSwap<ExportTable>>,
        reloader: Reloader,
    }

    impl Fixture {
        fn new(text: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            write(&directory, text);
            let config = Config::load(&directory.path().join("p.toml")).unwrap();
            let table = ExportTable::new(&config).unwrap();
            let table = Arc::new(ArcSwap::from_pointee(table));
            let reloader = Reloader::new(config, swap_into(Arc::clone(&table)));
            Self {
                directory,
                table,
                reloader,
            }
        }

        fn pseudos(&self) -> Vec<String> {
            self.table
                .load()
                .exports()
                .iter()
                .map(|export| export.pseudo.clone())
                .collect()
        }
    }

    fn write(directory: &tempfile::TempDir, text: &str) {
        let mut file = std::fs::File::create(directory.path().join("p.toml")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn export(pseudo: &str) -> String {
        format!("[[export]]\npath = \"/\"\npseudo = \"{pseudo}\"\n")
    }

    #[test]
    fn a_valid_configuration_is_swapped_in_and_told_apart() {
        let fixture = Fixture::new(&(export("/a") + &export("/b") + &export("/c")));
        let before = fixture.table.load_full();
        let new = String::from("[server]\nmemory = \"64MiB\"\nlog = \"debug\"\n")
            + &export("/b")
            + "access = \"ro\"\n"
            + &export("/c")
            + &export("/d");
        write(&fixture.directory, &new);
        let report = fixture.reloader.reload().unwrap();
        assert_eq!(
            (report.added, report.removed),
            (vec!["/d".into()], vec!["/a".into()])
        );
        assert_eq!(
            (report.changed, report.needs_restart),
            (vec!["/b".into()], vec!["memory".into()])
        );
        assert_eq!(fixture.pseudos(), ["/b", "/c", "/d"]);
        // Who held the old table still does.
        assert!(before.find_by_pseudo(b"/a").is_some());
    }

    #[test]
    fn an_invalid_configuration_leaves_the_old_one_and_names_the_line() {
        let fixture = Fixture::new(&export("/a"));
        write(&fixture.directory, &(export("/b") + "squash = \"non\"\n"));
        let error = fixture.reloader.reload().unwrap_err().to_string();
        assert!(
            error.contains("p.toml:4: squash: \"non\" is not a choice"),
            "{error}"
        );
        assert_eq!(fixture.pseudos(), ["/a"]);
        write(&fixture.directory, &export("/b"));
        assert_eq!(fixture.reloader.reload().unwrap().added, ["/b"]);
    }

    #[test]
    fn what_cannot_be_applied_leaves_the_old_one() {
        let fixture = Fixture::new(&export("/a"));
        let config = Config::load(&fixture.directory.path().join("p.toml")).unwrap();
        let reloader = Reloader::new(config, |_, _| Err("no such disk".to_owned()));
        write(&fixture.directory, &export("/b"));
        assert!(matches!(reloader.reload(), Err(ReloadError::Apply(_))));
        assert_eq!(reloader.current.lock().exports[0].pseudo, "/a");
    }

    #[test]
    fn an_export_that_was_added_or_removed_lasts_until_the_file_is_read_again() {
        let fixture = Fixture::new(&(export("/a") + &export("/b")));
        let order = ExportOrder {
            path: "/".into(),
            pseudo: Some("/c".to_owned()),
            ..ExportOrder::default()
        };
        let added = fixture.reloader.add(&order).unwrap();
        assert_eq!((added.pseudo.as_str(), added.exports), ("/c", 3));
        assert!(added.file.unwrap().ends_with("p.toml"));
        assert!(matches!(
            fixture.reloader.add(&order),
            Err(ReloadError::Config(_))
        ));
        let removed = fixture.reloader.remove("/a").unwrap();
        assert_eq!((removed.pseudo.as_str(), removed.exports), ("/a", 2));
        assert_eq!(fixture.pseudos(), ["/b", "/c"]);
        let report = fixture.reloader.reload().unwrap();
        assert_eq!(
            (report.added, report.removed),
            (vec!["/a".to_owned()], vec!["/c".to_owned()])
        );
        assert_eq!(fixture.pseudos(), ["/a", "/b"]);
    }

    #[test]
    fn a_server_of_flags_has_nothing_to_reload() {
        let config = Config::from_flags(ServerConfig::default(), Vec::new());
        let reloader = Reloader::new(config, |_, _| Err("never called".to_owned()));
        assert_eq!(reloader.reload().unwrap(), ReloadReport::default());
    }
}
