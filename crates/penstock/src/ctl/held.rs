//! `penstock ctl grace`, `opens`, `locks`, `expire`, and NFSv4's part of `penstock ctl clients`.

use std::io::{self, Write};
use std::path::Path;

use nfs_server::operate::control::{
    Command, Expired, GraceReport, HeldQuery, Listed, LockRow, Nfs4ClientStatus, OpenRow, Page,
};

use super::ask;

#[derive(clap::Subcommand, Debug, Clone, Copy)]
pub(super) enum GraceAction {
    /// End it now: clients that have not come back lose what they held
    End,
}

/// Which part of a list is shown.
#[derive(clap::Args, Debug, Clone)]
pub(super) struct Part {
    /// Only of this client: its id or name as `penstock ctl clients nfs4` shows it
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// Leave so many rows out
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Show no more rows than this, 10000 at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

impl Part {
    pub(super) fn page(&self) -> Page {
        Page {
            client: self.client.clone(),
            skip: self.skip,
            limit: self.limit,
        }
    }
}

pub(super) fn grace_query(action: Option<GraceAction>) -> HeldQuery {
    match action {
        None => HeldQuery::Grace,
        Some(GraceAction::End) => HeldQuery::EndGrace,
    }
}

/// Asks, and prints the answer.
pub(super) fn run(out: &mut impl Write, directory: &Path, query: HeldQuery) -> anyhow::Result<()> {
    let command = Command::Held(query.clone());
    match query {
        HeldQuery::Grace | HeldQuery::EndGrace => print_grace(out, &ask(directory, command)?)?,
        HeldQuery::Clients(page) => {
            print_clients(out, &ask(directory, command)?, &page)?;
        }
        HeldQuery::Opens(page) => print_opens(out, &ask(directory, command)?, &page)?,
        HeldQuery::Locks(page) => print_locks(out, &ask(directory, command)?, &page)?,
        HeldQuery::Expire(_) => {
            let expired: Expired = ask(directory, command)?;
            writeln!(
                out,
                "{} ({}) is expired; it had {} opens and {} lock stateids",
                expired.id, expired.name, expired.opens, expired.lock_states
            )?;
        }
    }
    Ok(())
}

fn print_grace(out: &mut impl Write, report: &GraceReport) -> io::Result<()> {
    if !report.running {
        return writeln!(out, "no grace period is running");
    }
    writeln!(
        out,
        "a grace period runs for {} more seconds at most; clients that have not come back: {}",
        report.seconds_left, report.waiting
    )?;
    for name in &report.names {
        writeln!(out, "  {name}")?;
    }
    let more = report.waiting.saturating_sub(report.names.len());
    if more > 0 {
        writeln!(out, "  and {more} more")?;
    }
    Ok(())
}

/// NFSv4's clients, a table that may be empty.
pub(super) fn print_clients(
    out: &mut impl Write,
    listed: &Listed<Nfs4ClientStatus>,
    page: &Page,
) -> io::Result<()> {
    if listed.rows.is_empty() {
        return writeln!(out, "no NFSv4 client");
    }
    writeln!(
        out,
        "{:<18}{:<24}{:>5}{:>10}{:>9}{:>9}{:>9}  NAME",
        "NFSV4 CLIENT", "ADDRESS", "NFS", "LEASE", "SESSIONS", "OPENS", "LOCKS"
    )?;
    for row in &listed.rows {
        let lease = match row.courtesy {
            true => "courtesy".to_owned(),
            false => format!("{} s", row.lease_seconds_left),
        };
        writeln!(
            out,
            "{:<18}{:<24}{:>5}{lease:>10}{:>9}{:>9}{:>9}  {}",
            row.id, row.address, row.version, row.sessions, row.opens, row.lock_states, row.name
        )?;
        if let [one, other] = row.name_shared_by.as_slice() {
            writeln!(
                out,
                "  two machines have this name, at {one} and {other}, and throw each other out: give each a name of \
                 its own (the parameter nfs.nfs4_unique_id of Linux's nfs module)"
            )?;
        }
    }
    print_rest(out, listed, page)
}

fn print_opens(out: &mut impl Write, listed: &Listed<OpenRow>, page: &Page) -> io::Result<()> {
    if listed.rows.is_empty() {
        return writeln!(out, "nothing is open");
    }
    writeln!(out, "{:<18}{:<7}{:<7}FILE", "NFSV4 CLIENT", "FOR", "DENIES")?;
    for row in &listed.rows {
        let OpenRow {
            client,
            access,
            deny,
            file,
            ..
        } = row;
        writeln!(out, "{client:<18}{access:<7}{deny:<7}{file}")?;
    }
    print_rest(out, listed, page)
}

fn print_locks(out: &mut impl Write, listed: &Listed<LockRow>, page: &Page) -> io::Result<()> {
    if listed.rows.is_empty() {
        return writeln!(out, "nothing is locked");
    }
    writeln!(
        out,
        "{:<8}{:<18}{:<7}{:>20}{:>21}  FILE",
        "HOLDER", "CLIENT", "TYPE", "OFFSET", "BYTES"
    )?;
    for row in &listed.rows {
        let length = row
            .length
            .map_or_else(|| "to the end".to_owned(), |length| length.to_string());
        writeln!(
            out,
            "{:<8}{:<18}{:<7}{:>20}{length:>21}  {}",
            row.holder, row.client, row.kind, row.offset, row.file
        )?;
    }
    print_rest(out, listed, page)
}

/// Says how much was left out.
fn print_rest<T>(out: &mut impl Write, listed: &Listed<T>, page: &Page) -> io::Result<()> {
    let shown = listed.rows.len();
    if shown == listed.total {
        return Ok(());
    }
    let next = page.skip.saturating_add(shown);
    writeln!(
        out,
        "{shown} of {} rows; go on with --skip {next}",
        listed.total
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(print: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_client_is_shown_with_its_lease_and_with_who_shares_its_name() {
        let client = Nfs4ClientStatus {
            id: "00000001".to_owned(),
            name: "Linux \\x1b[2J".to_owned(),
            version: "4.2".to_owned(),
            lease_seconds_left: 42,
            ..Nfs4ClientStatus::default()
        };
        let away = Nfs4ClientStatus {
            courtesy: true,
            name_shared_by: vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()],
            ..client.clone()
        };
        let listed = Listed {
            total: 5,
            rows: vec![client, away],
        };
        let page = Page {
            skip: 1,
            ..Page::default()
        };
        let text = shown(|out| print_clients(out, &listed, &page));
        for expected in [
            "42 s",
            "courtesy",
            "at 10.0.0.1 and 10.0.0.2, and throw each other out",
            "nfs4_unique_id",
            "2 of 5 rows; go on with --skip 3",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn a_grace_period_says_who_is_waited_for() {
        let mut report = GraceReport::default();
        assert_eq!(
            shown(|out| print_grace(out, &report)),
            "no grace period is running\n"
        );
        report = GraceReport {
            running: true,
            seconds_left: 9,
            waiting: 3,
            names: vec!["one".to_owned(), "two".to_owned()],
        };
        let text = shown(|out| print_grace(out, &report));
        assert!(text.contains("9 more seconds"), "{text}");
        assert!(text.ends_with("  one\n  two\n  and 1 more\n"), "{text}");
    }
}
