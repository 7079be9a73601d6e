//! `penstock ctl cache`: what is in the open-file cache, and dropping a file from it.

use std::io::{self, Write};
use std::path::Path;

use nfs_server::operate::control::{
    CacheDropped, CachePage, CacheQuery, CacheRow, CacheTarget, Command, Listed,
};

use super::ask;
use super::figures::bytes as show_bytes;

#[derive(clap::Subcommand, Debug, Clone)]
pub(super) enum Action {
    /// Show what is in the open-file cache
    ///
    /// With each object: what it is open for, how many times clients of NFSv4 have it open, how often and how lately it
    /// was used, and what the page cache holds of it (- where the kernel does not say, or nobody read or wrote it).
    List {
        /// Only what is in this export: the path that clients mount, or its directory
        #[arg(long, value_name = "EXPORT")]
        export: Option<String>,
        /// Leave so many rows out
        #[arg(long, value_name = "N", default_value_t = 0)]
        skip: usize,
        /// Show no more rows than this, 10000 at most
        #[arg(long, value_name = "N", default_value_t = 1000)]
        limit: usize,
    },
    /// Close what the server has open of a file and does not use; nothing is lost by it
    ///
    /// What clients wrote and have not committed is put on stable storage first. The file leaves the cache if no
    /// call uses it and no client of NFSv4 has it open, and is opened again when a client comes to it.
    Drop {
        /// The file by its path on the server's host, or as clients see it
        #[arg(value_name = "FILE", required_unless_present = "handle")]
        file: Option<String>,
        /// The file by its handle, as `penstock ctl cache list` shows it where no path is known
        #[arg(long, value_name = "HEX", conflicts_with = "file")]
        handle: Option<String>,
        /// Drop what the page cache holds of it as well (POSIX_FADV_DONTNEED); what is not on disk, or mapped by a
        /// local program, stays
        #[arg(long)]
        pages: bool,
    },
}

impl Action {
    pub(super) fn query(&self) -> CacheQuery {
        match self.clone() {
            Self::List {
                export,
                skip,
                limit,
            } => CacheQuery::List(CachePage {
                export,
                skip,
                limit,
            }),
            Self::Drop {
                file,
                handle,
                pages,
            } => CacheQuery::Drop {
                target: match handle {
                    Some(handle) => CacheTarget::Handle(handle),
                    None => CacheTarget::Path(file.unwrap_or_default()),
                },
                pages,
            },
        }
    }
}

/// Asks, and prints the answer.
pub(super) fn run(out: &mut impl Write, directory: &Path, query: CacheQuery) -> anyhow::Result<()> {
    let command = Command::Cache(query.clone());
    match query {
        CacheQuery::List(page) => print_rows(out, &ask(directory, command)?, page.skip)?,
        CacheQuery::Drop { .. } => print_dropped(out, &ask(directory, command)?)?,
    }
    Ok(())
}

fn print_rows(out: &mut impl Write, listed: &Listed<CacheRow>, skip: usize) -> io::Result<()> {
    if listed.rows.is_empty() {
        return writeln!(out, "nothing is in the open-file cache");
    }
    writeln!(
        out,
        "{:<10}{:<24}{:>6}{:>10}{:>9}{:>11}{:>11}  FILE",
        "KIND", "OPEN", "NFSV4", "USES", "IDLE", "CACHED", "DIRTY"
    )?;
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), show_bytes);
    for row in &listed.rows {
        let open = match row.open.is_empty() {
            true => "-".to_owned(),
            false => row.open.join(","),
        };
        writeln!(
            out,
            "{:<10}{open:<24}{:>6}{:>10}{:>9}{:>11}{:>11}  {}{}",
            row.kind,
            row.client_opens,
            row.uses,
            format!("{} s", row.idle_seconds),
            bytes(row.page_cache_bytes),
            bytes(row.dirty_bytes),
            row.file,
            if row.must_stay {
                "  (to be synced)"
            } else {
                ""
            },
        )?;
    }
    let shown = listed.rows.len();
    if shown < listed.total {
        let next = skip.saturating_add(shown);
        writeln!(
            out,
            "{shown} of {} rows; go on with --skip {next}",
            listed.total
        )?;
    }
    Ok(())
}

fn print_dropped(out: &mut impl Write, dropped: &CacheDropped) -> io::Result<()> {
    let file = &dropped.file;
    if dropped.has_left {
        writeln!(out, "{file} has left the open-file cache")?;
    } else if dropped.was_cached {
        let why = if dropped.client_opens > 0 {
            "clients of NFSv4 have it open (`penstock ctl opens` shows who)"
        } else if dropped.must_stay {
            "it has data that could not be put on stable storage now; see the server's log, and try again"
        } else {
            "a call uses it now, or it is the root of an export"
        };
        let closed = dropped.closed;
        writeln!(
            out,
            "{file} stays in the open-file cache: {why}; unused descriptors that were closed: {closed}"
        )?;
    } else {
        writeln!(out, "{file} was not in the open-file cache")?;
    }
    if let (Some(before), Some(after)) = (dropped.page_cache_bytes_before, dropped.page_cache_bytes)
    {
        let gone = show_bytes(before.saturating_sub(after));
        write!(out, "{gone} left the page cache")?;
        if after > 0 {
            let left = show_bytes(after);
            write!(
                out,
                "; {left} stay: not on disk yet, mapped by a local program, or in use"
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
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
    fn rows_are_shown_with_what_is_not_known_and_what_was_left_out() {
        let row = CacheRow {
            file: "/a/f".to_owned(),
            kind: "file".to_owned(),
            open: vec!["read".to_owned(), "direct-write".to_owned()],
            uses: 12,
            page_cache_bytes: Some(3 << 20),
            dirty_bytes: Some(0),
            must_stay: true,
            ..CacheRow::default()
        };
        let mut listed = Listed {
            total: 7,
            rows: vec![row, CacheRow::default()],
        };
        let text = shown(|out| print_rows(out, &listed, 2));
        for part in [
            "read,direct-write",
            "3.0 MiB",
            "/a/f  (to be synced)",
            "0 s          -          -",
            "2 of 7 rows; go on with --skip 4",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        listed.rows.clear();
        let text = shown(|out| print_rows(out, &listed, 0));
        assert_eq!(text, "nothing is in the open-file cache\n");
    }

    #[test]
    fn what_came_of_dropping_a_file_is_said() {
        let dropped = |change: fn(&mut CacheDropped)| {
            let mut dropped = CacheDropped {
                file: "/a/f".to_owned(),
                was_cached: true,
                ..CacheDropped::default()
            };
            change(&mut dropped);
            shown(|out| print_dropped(out, &dropped))
        };
        let text = dropped(|it| it.has_left = true);
        assert_eq!(text, "/a/f has left the open-file cache\n");
        let text = dropped(|it| it.client_opens = 1);
        assert!(text.contains("`penstock ctl opens`"), "{text}");
        let text = dropped(|it| it.must_stay = true);
        assert!(text.contains("the server's log"), "{text}");
        let text = dropped(|it| it.closed = 2);
        assert!(text.contains("that were closed: 2"), "{text}");
        let text = dropped(|it| {
            it.was_cached = false;
            it.page_cache_bytes_before = Some(3 << 20);
            it.page_cache_bytes = Some(1 << 20);
        });
        assert!(text.contains("was not in the open-file cache"), "{text}");
        assert!(
            text.contains("2.0 MiB left the page cache; 1.0 MiB stay"),
            "{text}"
        );
    }
}
