//! Who may mount an export, as `penstock check` tells it.

use nfs_server::exports::config::{Access, ClientConfig, ExportConfig, SquashKind, word_of};
use serde_json::json;

/// A line for each group of networks that may do the same, in the order in which they are tried.
pub(super) fn lines(export: &ExportConfig) -> Vec<String> {
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    for client in &export.clients {
        let may = may(client);
        match lines.last_mut().filter(|(_, last)| *last == may) {
            Some((nets, _)) => nets.push(client.net.to_string()),
            None => lines.push((vec![client.net.to_string()], may)),
        }
    }
    let lines = lines.into_iter();
    lines
        .map(|(nets, may)| format!("{}: {may}", nets.join(", ")))
        .collect()
}

/// What a client may do, in words.
fn may(client: &ClientConfig) -> String {
    let squash = match client.squash {
        SquashKind::Root => "root squashed",
        SquashKind::All => "all squashed",
        SquashKind::None => "no squash",
    };
    let mut words = vec![
        word_of(client.access, Access::WORDS).to_owned(),
        squash.to_owned(),
    ];
    if client.squash != SquashKind::None {
        words.push(format!("to {}:{}", client.anonuid, client.anongid));
    }
    if client.privileged_port {
        words.push("from ports below 1024".to_owned());
    }
    words.join(", ").replace(", to ", " to ")
}

/// The same as an object.
pub(super) fn json(client: &ClientConfig) -> serde_json::Value {
    json!({
        "net": client.net.to_string(),
        "access": word_of(client.access, Access::WORDS),
        "squash": word_of(client.squash, SquashKind::WORDS),
        "anonuid": client.anonuid,
        "anongid": client.anongid,
        "privileged_port": client.privileged_port,
    })
}
