//! What a client tells about itself: as JSON ([`figures`]), as a page ([`page`]), and over the socket of a mount
//! ([`socket`]).
//!
//! Owns no counters: they are the client library's ([`nfs_client::Statistics`]). Both ends of the socket are here, so
//! that the form of what goes over it stands once.

pub(crate) mod figures;
pub(crate) mod page;
pub(crate) mod socket;

use std::time::SystemTime;

use nfs_client::Client;
use serde_json::Map;

use self::figures::{About, Figures};
use crate::message;

/// What this client has done so far.
pub(crate) fn of(client: &Client, about: About) -> Figures {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let at_unix_ms = since_1970.map_or(0, |since| since.as_millis());
    let at_unix_ms = u64::try_from(at_unix_ms).unwrap_or(u64::MAX);
    Figures::new(about, at_unix_ms, &client.statistics())
}

/// Prints the page of a command that has ended its work, on standard error.
pub(crate) fn say(figures: &Figures) {
    let page = page::page(&figures.about, &figures.statistics(), true);
    // All of it are numbers and texts.
    let members = serde_json::to_value(figures).unwrap_or_default();
    let members = Map::from_iter([("statistics".to_owned(), members)]);
    message::page(&page, "statistics", members);
}
