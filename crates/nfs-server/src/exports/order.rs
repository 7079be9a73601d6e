//! Exports that are added and removed while the server runs, by order of its operator: `penstock ctl exports add`.
//!
//! An order has the words of an `[[export]]` section and becomes one, which the reader of configuration files judges: what a
//! file may not say, an order may not either, and the complaints are the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config::{Config, ConfigErrors, ExportConfig, Problem, check_beneath};
use crate::limits;

/// An export to be served: each field as the key of an `[[export]]` section has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportOrder {
    /// The directory, absolute.
    pub path: PathBuf,
    /// The path that clients mount; the directory's own path unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pseudo: Option<String>,
    /// Networks, hosts and netgroups that may mount it; this machine alone unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<String>>,
    /// `rw` or `ro`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// `root`, `all` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squash: Option<String>,
}

/// What came of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportsChanged {
    /// The export, by the path that clients mount.
    pub pseudo: String,
    /// Its directory.
    pub path: PathBuf,
    /// The configuration file, which is the truth again with the next reload or start; `None` for a server without one,
    /// where it is what the server is started with.
    pub file: Option<PathBuf>,
    /// How many exports are served now.
    pub exports: usize,
    /// What is allowed and yet worth a second look.
    pub warnings: Vec<String>,
}

impl ExportOrder {
    /// The export that is meant.
    ///
    /// # Errors
    /// What an `[[export]]` section may not say either.
    pub(super) fn export(&self) -> Result<ExportConfig, ConfigErrors> {
        // A path that is no text is in no file either.
        let path = self.path.to_str().ok_or_else(|| {
            let shown = self.path.display();
            refused(format!(
                "path \"{shown}\" is not UTF-8 text; serve a link to it, or a directory above it"
            ))
        })?;
        let mut section = toml::Table::new();
        let text = |text: &str| toml::Value::String(text.to_owned());
        section.insert("path".to_owned(), text(path));
        let words = [
            ("pseudo", &self.pseudo),
            ("access", &self.access),
            ("squash", &self.squash),
        ];
        for (key, word) in words {
            if let Some(word) = word {
                section.insert(key.to_owned(), text(word));
            }
        }
        if let Some(clients) = &self.clients {
            let clients = clients.iter().map(|client| text(client));
            section.insert("clients".to_owned(), toml::Value::Array(clients.collect()));
        }
        let exports = toml::Value::Array(vec![toml::Value::Table(section)]);
        let file = toml::Table::from_iter([("export".to_owned(), exports)]);
        let parsed = Config::parse(Path::new("the order"), &file.to_string());
        let mut config = parsed.map_err(|errors| ConfigErrors {
            file: None,
            problems: errors.problems.into_iter().map(without_line).collect(),
        })?;
        // A section makes an export, or a problem.
        config
            .exports
            .pop()
            .ok_or_else(|| refused("nothing to serve".to_owned()))
    }
}

/// The configuration with one export more.
///
/// # Errors
/// What is wrong with the export, or with it beside the others.
pub(super) fn with(config: &Config, order: &ExportOrder) -> Result<Config, ConfigErrors> {
    let export = order.export()?;
    let pseudo = &export.pseudo;
    if config.exports.iter().any(|other| other.pseudo == *pseudo) {
        return Err(refused(format!(
            "pseudo path \"{pseudo}\" is taken; choose another (--pseudo), or remove that export first"
        )));
    }
    if config.exports.len() >= limits::EXPORTS_MAX {
        let most = limits::EXPORTS_MAX;
        return Err(refused(format!(
            "at most {most} exports are served; remove one first"
        )));
    }
    check_beneath(&export.path, &config.server.confine_beneath).map_err(refused)?;
    let mut next = config.clone();
    next.exports.push(export);
    let clients = next.exports.iter().flat_map(|export| &export.clients);
    let names: BTreeSet<_> = clients.filter_map(|client| client.net.name()).collect();
    if names.len() > limits::CLIENT_NAMES_MAX {
        let most = limits::CLIENT_NAMES_MAX;
        return Err(refused(format!(
            "at most {most} names of hosts and netgroups are looked up; use a netgroup or networks"
        )));
    }
    Ok(next)
}

/// The configuration with one export less, and that export.
///
/// # Errors
/// There is no such export, or no other.
pub(super) fn without(
    config: &Config,
    pseudo: &str,
) -> Result<(Config, ExportConfig), ConfigErrors> {
    let mut next = config.clone();
    let Some(at) = next
        .exports
        .iter()
        .position(|export| export.pseudo == pseudo)
    else {
        let pseudos = config.exports.iter().map(|export| export.pseudo.as_str());
        let pseudos: Vec<&str> = pseudos.collect();
        return Err(refused(format!(
            "there is no export \"{pseudo}\"; there are: {}",
            pseudos.join(" ")
        )));
    };
    if next.exports.len() == 1 {
        return Err(refused(format!(
            "\"{pseudo}\" is the only export; add another first, or end the server with `penstock ctl drain`"
        )));
    }
    let export = next.exports.remove(at);
    Ok((next, export))
}

fn refused(message: String) -> ConfigErrors {
    ConfigErrors {
        file: None,
        problems: vec![Problem {
            line: None,
            message,
        }],
    }
}

/// The lines are those of a text that nobody wrote.
fn without_line(problem: Problem) -> Problem {
    Problem {
        line: None,
        ..problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::config::{Access, ServerConfig, SquashKind};

    fn order(path: &Path, pseudo: &str) -> ExportOrder {
        ExportOrder {
            path: path.to_owned(),
            pseudo: Some(pseudo.to_owned()),
            ..ExportOrder::default()
        }
    }

    fn config(beneath: &[&Path]) -> Config {
        let server = ServerConfig {
            confine_beneath: beneath.iter().map(|&path| path.to_owned()).collect(),
            ..ServerConfig::default()
        };
        Config::from_flags(server, vec![ExportConfig::new("/", "/")])
    }

    fn complaint(outcome: Result<Config, ConfigErrors>) -> String {
        outcome.expect_err("the order is wrong").to_string()
    }

    #[test]
    fn an_order_is_what_a_section_of_the_same_words_is() {
        let directory = tempfile::tempdir().unwrap();
        let mut order = order(directory.path(), "/a \"b\"");
        order.clients = Some(vec!["10.0.0.0/8".to_owned(), "build7".to_owned()]);
        order.access = Some("ro".to_owned());
        order.squash = Some("all".to_owned());
        let next = with(&config(&[]), &order).unwrap();
        let added = &next.exports[1];
        assert_eq!(added.pseudo, "/a \"b\"");
        let rule = &added.clients[1];
        assert_eq!(
            (rule.net.to_string().as_str(), rule.access, rule.squash),
            ("build7", Access::ReadOnly, SquashKind::All)
        );
        let (back, removed) = without(&next, "/a \"b\"").unwrap();
        assert_eq!(back, config(&[]));
        assert_eq!(removed.path, directory.path());
    }

    #[test]
    fn what_a_file_may_not_say_an_order_may_not_either() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        let wrong = |change: fn(&mut ExportOrder)| {
            let mut order = order(here, "/a");
            change(&mut order);
            complaint(with(&config(&[]), &order))
        };
        assert!(wrong(|it| it.path = "srv".into()).starts_with("path \"srv\" is relative; write"));
        assert!(wrong(|it| it.pseudo = Some("a".to_owned())).contains("is not absolute; write"));
        assert!(wrong(|it| it.access = Some("w".to_owned())).contains("\"w\" is not a choice"));
        assert!(wrong(|it| it.clients = Some(Vec::new())).contains("nobody could mount this"));
        assert!(wrong(|it| it.pseudo = Some("/".to_owned())).contains("\"/\" is taken"));
        let at_most = (0..limits::EXPORTS_MAX).map(|at| ExportConfig::new("/", format!("/{at}")));
        let full = Config::from_flags(ServerConfig::default(), at_most.collect());
        assert!(complaint(with(&full, &order(here, "/a"))).contains("at most 1024 exports"));
    }

    #[test]
    fn an_export_lies_beneath_what_the_server_confines_itself_to() {
        let directory = tempfile::tempdir().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        });
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        let config = config(&[&inside]);
        assert!(with(&config, &order(&inside, "/a")).is_ok());
        for path in [outside, inside.join("link")] {
            let found = complaint(with(&config, &order(&path, "/a")));
            assert!(found.contains("is not beneath confine_beneath"), "{found}");
        }
    }

    #[test]
    fn the_only_export_and_one_that_is_not_there_are_not_removed() {
        let only = config(&[]);
        assert!(
            without(&only, "/")
                .unwrap_err()
                .to_string()
                .contains("the only export")
        );
        let found = without(&only, "/x").unwrap_err().to_string();
        assert_eq!(found, "there is no export \"/x\"; there are: /");
    }
}
