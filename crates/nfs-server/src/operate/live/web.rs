//! The web page, and what it is told: the live picture of the last minutes as JSON.
//!
//! Nothing is asked of the page's reader and nothing can be changed by it. Names of exports and clients are sent as JSON
//! strings, and the page shows them as text; its policy lets no other script run than its own.

use std::fmt::Write as _;

use parking_lot::Mutex;
use serde::Serialize;

use super::{
    CallRow, ClientRow, ExportRow, Group, Moment, Watch, call_rows, client_rows, export_rows,
};
use crate::limits::{LIVE_LATEST_MAX, LIVE_MOMENTS_MAX, LIVE_ROWS_MAX};
use crate::operate::control::IoState;
use crate::operate::http::Page;
use crate::operate::metrics::Snapshot;

/// The page, with a mark where the number goes that its script and style are known by.
const PAGE: &str = include_str!("page.html");
const MARK: &str = "{{NONCE}}";

/// The picture of one server that its page is told.
#[derive(Debug, Default)]
pub struct Web {
    watch: Mutex<Watch>,
}

/// Which of the moments that are kept are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All moments that are kept.
    All,
    /// The last few, for a page that has those before them.
    Latest,
}

/// What the page is told.
#[derive(Serialize)]
struct Told<'w> {
    version: &'static str,
    moments_kept: usize,
    moments: Vec<&'w Moment>,
    exports: Vec<ExportRow>,
    exports_left_out: usize,
    modes: Vec<CallRow>,
    modes_left_out: usize,
    procedures: Vec<CallRow>,
    procedures_left_out: usize,
    clients: Vec<ClientRow>,
    clients_left_out: usize,
}

impl Web {
    /// Takes the next look at the server in.
    pub fn add(&self, snapshot: &Snapshot) {
        self.watch.lock().add(snapshot);
    }

    /// The page itself. Each time with another number for its script, so that a script that somebody smuggled in would
    /// not know it.
    #[must_use]
    pub fn page() -> Page {
        let mut random = [0; 16];
        if let Err(error) = getrandom::fill(&mut random) {
            tracing::error!(%error, "no random numbers for the web page");
            return Page {
                content_type: "text/plain; charset=utf-8",
                body: "the server has no random numbers; see its log\n".into(),
                security_policy: None,
            };
        }
        let nonce = random.iter().fold(String::new(), |mut text, byte| {
            let _never_fails = write!(text, "{byte:02x}");
            text
        });
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Page {
            content_type: "text/html; charset=utf-8",
            body: PAGE.replace(MARK, &nonce).into(),
            security_policy: Some(policy),
        }
    }

    /// What the page is told now, as JSON. `policies` says how the exports' bytes are to travel.
    #[must_use]
    pub fn told(&self, part: Part, policies: &[IoState]) -> Page {
        let watch = self.watch.lock();
        let skipped = match part {
            Part::All => 0,
            Part::Latest => watch.moments().len().saturating_sub(LIVE_LATEST_MAX),
        };
        let (mut exports, mut modes, mut procedures, mut clients) = Default::default();
        if let Some(now) = watch.now() {
            exports = export_rows(now, policies);
            modes = call_rows(now, Group::Mode);
            procedures = call_rows(now, Group::Procedure);
            clients = client_rows(now);
        }
        let told = Told {
            version: concat!("penstock ", env!("CARGO_PKG_VERSION")),
            moments_kept: LIVE_MOMENTS_MAX,
            moments: watch.moments().skip(skipped).collect(),
            exports_left_out: keep_busiest(&mut exports, |row| row.flow.operations),
            exports,
            modes_left_out: keep_busiest(&mut modes, |row| row.operations),
            modes,
            procedures_left_out: keep_busiest(&mut procedures, |row| row.operations),
            procedures,
            clients_left_out: keep_busiest(&mut clients, |row| row.operations),
            clients,
        };
        let body = serde_json::to_vec(&told).unwrap_or_else(|error| {
            tracing::error!(%error, "the live picture cannot be told");
            b"null".to_vec()
        });
        Page {
            content_type: "application/json",
            body: body.into(),
            security_policy: None,
        }
    }
}

/// Keeps the rows with the most calls, and says how many are left out.
fn keep_busiest<T>(rows: &mut Vec<T>, operations: impl Fn(&T) -> f64) -> usize {
    let left_out = rows.len().saturating_sub(LIVE_ROWS_MAX);
    if left_out > 0 {
        rows.sort_by(|a, b| operations(b).total_cmp(&operations(a)));
        rows.truncate(LIVE_ROWS_MAX);
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_resources_and_lets_no_other_script_run() {
        let (one, other) = (Web::page(), Web::page());
        let policy = one.security_policy.unwrap();
        assert_ne!(
            Some(&policy),
            other.security_policy.as_ref(),
            "a number for each"
        );
        let nonce = policy
            .split("'nonce-")
            .nth(1)
            .and_then(|rest| rest.split('\'').next());
        let nonce = nonce.unwrap();
        assert_eq!(nonce.len(), 32);
        let text = std::str::from_utf8(&one.body).unwrap();
        assert_eq!(text.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        assert!(!text.contains(MARK));
        // What would make markup of a name, or fetch something from elsewhere.
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "src=",
            "href=",
            "@import",
            "url(",
        ] {
            assert!(!text.contains(word), "{word}");
        }
        let namespaces = text.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(
            text.matches("http").count(),
            namespaces,
            "no address of elsewhere"
        );
    }

    #[test]
    fn a_server_without_figures_tells_an_empty_picture() {
        let told = Web::default().told(Part::All, &[]);
        let told: serde_json::Value = serde_json::from_slice(&told.body).unwrap();
        assert_eq!(told["moments"], serde_json::json!([]));
        assert_eq!(told["exports_left_out"], 0);
    }

    #[test]
    fn the_busiest_rows_are_kept() {
        let mut rows: Vec<f64> = (0..250).map(f64::from).collect();
        assert_eq!(keep_busiest(&mut rows, |row| *row), 250 - LIVE_ROWS_MAX);
        assert_eq!((rows.len(), rows[0]), (LIVE_ROWS_MAX, 249.0));
    }
}
