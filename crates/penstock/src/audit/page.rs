//! The audit as lines for people, in columns, or as JSON.

use anstyle::AnsiColor;
use std::io::{self, Write};
use std::net::SocketAddr;

use nfs_server::operate::control::{AuditEvent, AuditLine};

/// How lines look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// One JSON object each, as in the log.
    pub(crate) json: bool,
    pub(crate) coloured: bool,
}

/// Lines as they are printed, the first below a heading.
pub(super) struct Page<W> {
    out: W,
    look: Look,
    is_empty: bool,
}

impl<W: Write> Page<W> {
    pub(super) const fn new(out: W, look: Look) -> Self {
        Self {
            out,
            look,
            is_empty: true,
        }
    }

    /// Has nothing been printed?
    pub(super) const fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(super) fn line(&mut self, line: &AuditLine) -> io::Result<()> {
        let is_first = std::mem::replace(&mut self.is_empty, false);
        if self.look.json {
            serde_json::to_writer(&mut self.out, line)?;
            return writeln!(self.out);
        }
        if is_first {
            let heading = row(["TIME (UTC)", "CLIENT", "UID", "PROCEDURE", "STATUS", "WHAT"]);
            writeln!(self.out, "{heading}")?;
        }
        let (text, colour) = match line {
            AuditLine::Event(event) => {
                let has_failed = event.status.as_deref() != Some(DONE);
                (text(event), has_failed.then_some(AnsiColor::Red))
            }
            AuditLine::Lost { lost } => {
                let text =
                    format!("{lost} calls are not told of: they came faster than they were read");
                (text, Some(AnsiColor::Yellow))
            }
        };
        match colour.filter(|_| self.look.coloured) {
            Some(colour) => {
                let style = colour.on_default();
                writeln!(self.out, "{style}{text}{style:#}")
            }
            None => writeln!(self.out, "{text}"),
        }
    }

    /// Nothing more comes for now.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The status of a call that did what was asked.
const DONE: &str = "NFS3_OK";

fn text(event: &AuditEvent) -> String {
    let time = event.time.split('.').next().unwrap_or_default();
    let client = event.client.parse::<SocketAddr>();
    let client = client.map_or_else(|_| event.client.clone(), |peer| peer.ip().to_string());
    let uid = event
        .uid
        .map_or_else(|| "-".to_owned(), |uid| uid.to_string());
    let status = match event.status.as_deref() {
        Some(DONE) => "ok",
        Some(other) => other,
        None => "unanswered",
    };
    row([
        &time.replace('T', " "),
        &client,
        &uid,
        &event.operation,
        status,
        &what(event),
    ])
}

fn row([time, client, uid, procedure, status, what]: [&str; 6]) -> String {
    format!("{time:<19}  {client:<15}  {uid:<5}  {procedure:<9}  {status:<16}  {what}")
}

/// The object, where it goes, and what is set of it.
fn what(event: &AuditEvent) -> String {
    let mut text = place(
        event,
        event.path.as_deref(),
        &event.handle,
        event.name.as_deref(),
    );
    if let Some(handle) = &event.to_handle {
        text.push_str(" -> ");
        let (path, name) = (event.to_path.as_deref(), event.to_name.as_deref());
        text.push_str(&place(event, path, handle, name));
    }
    let numbers = [
        ("owner", event.owner.map(u64::from)),
        ("group", event.group.map(u64::from)),
        ("size", event.size),
    ];
    if let Some(mode) = &event.mode {
        text.push_str(&format!(" mode={mode}"));
    }
    for (name, number) in numbers {
        if let Some(number) = number {
            text.push_str(&format!(" {name}={number}"));
        }
    }
    text
}

/// A place as clients see it: the export, the path in it or, where that is not known, the handle, and the
/// name. In quotation marks where it could be taken for more than one word.
fn place(event: &AuditEvent, path: Option<&str>, handle: &str, name: Option<&str>) -> String {
    let of_handle = format!("[{handle}]");
    let parts = [
        event.export.as_str(),
        path.unwrap_or(&of_handle),
        name.unwrap_or_default(),
    ];
    let mut whole = String::new();
    for part in parts {
        let part = part.trim_matches('/');
        if !part.is_empty() {
            whole.push('/');
            whole.push_str(part);
        }
    }
    if whole.is_empty() {
        whole.push('/');
    }
    if whole.contains([' ', '"']) {
        // A backslash of a name is written as two, so that this one is no name's.
        whole = format!("\"{}\"", whole.replace('"', "\\\""));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rename() -> AuditEvent {
        let owned = |text: &str| Some(text.to_owned());
        AuditEvent {
            time: "2026-05-04T09:12:33.120031Z".to_owned(),
            operation: "rename".to_owned(),
            client: "10.0.0.7:873".to_owned(),
            uid: Some(1000),
            export: "/data".to_owned(),
            handle: "01".to_owned(),
            path: owned("/a"),
            name: owned("x -> y"),
            to_handle: owned("02"),
            to_path: owned("/"),
            to_name: owned("new"),
            status: owned("NFS3_OK"),
            ..AuditEvent::default()
        }
    }

    fn printed(look: Look, lines: &[AuditLine]) -> String {
        let mut page = Page::new(Vec::new(), look);
        for line in lines {
            page.line(line).unwrap();
        }
        String::from_utf8(page.out).unwrap()
    }

    const PLAIN: Look = Look {
        json: false,
        coloured: false,
    };

    #[test]
    fn calls_are_rows_below_one_heading() {
        let set = AuditEvent {
            operation: "setattr".to_owned(),
            client: "[fd00::7]:873".to_owned(),
            uid: None,
            export: "/".to_owned(),
            path: None,
            name: None,
            to_handle: None,
            to_name: None,
            mode: Some("0644".to_owned()),
            owner: Some(7),
            size: Some(0),
            status: Some("NFS3ERR_PERM".to_owned()),
            ..rename()
        };
        let lines = [rename(), set].map(|event| AuditLine::Event(Box::new(event)));
        let expected = "\
TIME (UTC)           CLIENT           UID    PROCEDURE  STATUS            WHAT
2026-05-04 09:12:33  10.0.0.7         1000   rename     ok                \"/data/a/x -> y\" -> /data/new
2026-05-04 09:12:33  fd00::7          -      setattr    NFS3ERR_PERM      /[01] mode=0644 owner=7 size=0
";
        assert_eq!(printed(PLAIN, &lines), expected);
        let coloured = Look {
            coloured: true,
            ..PLAIN
        };
        let shown = printed(coloured, &lines);
        assert!(
            shown.contains("\n\x1b[31m2026-05-04 09:12:33  fd00::7"),
            "{shown}"
        );
        assert_eq!(shown.matches('\x1b').count(), 2, "{shown}");
    }

    #[test]
    fn a_place_is_shown_as_clients_see_it() {
        let at = |export: &str, path: Option<&str>, name: Option<&str>| {
            let event = AuditEvent {
                export: export.to_owned(),
                ..AuditEvent::default()
            };
            place(&event, path, "0a", name)
        };
        assert_eq!(at("/", Some("/"), None), "/");
        assert_eq!(at("/", Some("/"), Some("f")), "/f");
        assert_eq!(at("/e", Some("/a/b"), Some("f")), "/e/a/b/f");
        assert_eq!(at("/e", None, Some("f")), "/e/[0a]/f");
        assert_eq!(at("/e", Some("/a b\""), None), "\"/e/a b\\\"\"");
    }

    #[test]
    fn json_is_as_it_was_kept() {
        let json = Look {
            json: true,
            coloured: true,
        };
        let lines = [
            AuditLine::Event(Box::new(rename())),
            AuditLine::Lost { lost: 3 },
        ];
        let shown = printed(json, &lines);
        let read: Vec<AuditLine> = shown
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read, lines);
    }
}
