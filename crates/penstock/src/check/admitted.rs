//! Who may mount an export, as `penstock check` tells it.

use std::sync::Arc;

use nfs_server::exports::config::{Access, ClientConfig, ExportConfig, SquashKind, word_of};
use nfs_server::exports::{ExportTable, LiveName, NameState};
use nfs_server::operate::control::NameStatus;
use serde_json::json;

/// A line for each group of clients that may do the same, in the order in which they are tried; names with the
/// addresses that they have now.
pub(super) fn lines(export: &ExportConfig, table: &ExportTable) -> Vec<String> {
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    for client in &export.clients {
        let may = may(client);
        let shown = match status(client, table) {
            Some(status) => format!("{} ({})", client.net, status.in_words()),
            None => client.net.to_string(),
        };
        match lines.last_mut().filter(|(_, last)| *last == may) {
            Some((nets, _)) => nets.push(shown),
            None => lines.push((vec![shown], may)),
        }
    }
    let lines = lines.into_iter();
    lines
        .map(|(nets, may)| format!("{}: {may}", nets.join(", ")))
        .collect()
}

/// What the name of a client stands for, where it has one.
fn status(client: &ClientConfig, table: &ExportTable) -> Option<NameStatus> {
    let name = client.net.name()?;
    let live = table.names().iter().find(|live| live.name == *name)?;
    Some(NameStatus::of(live))
}

/// A sentence for each name that has no address, or not all that it should have.
pub(super) fn unresolved(table: &ExportTable) -> Vec<String> {
    let names = table.names().iter();
    let warning = |live: &Arc<LiveName>| {
        let now = live.resolved();
        let what = match now.state {
            NameState::Known => return None,
            NameState::Partly => "not all that it should have is known".to_owned(),
            NameState::Asked | NameState::Kept | NameState::Nobody => {
                "it matches nobody until it can be resolved".to_owned()
            }
        };
        let why = match now.trouble.as_str() {
            "" => "it was not looked up in time",
            trouble => trouble,
        };
        Some(format!(
            "client {}: {what}: {why}; see to it that `getent hosts` or `getent netgroup` knows it on the server's \
             machine, or list addresses",
            live.name
        ))
    };
    names.filter_map(warning).collect()
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
pub(super) fn json(client: &ClientConfig, table: Option<&ExportTable>) -> serde_json::Value {
    let mut object = json!({
        "net": client.net.to_string(),
        "access": word_of(client.access, Access::WORDS),
        "squash": word_of(client.squash, SquashKind::WORDS),
        "anonuid": client.anonuid,
        "anongid": client.anongid,
        "privileged_port": client.privileged_port,
    });
    if let Some(status) = table.and_then(|table| status(client, table)) {
        let members = object.as_object_mut();
        members.map(|members| members.insert("name".to_owned(), json!(status)));
    }
    object
}
