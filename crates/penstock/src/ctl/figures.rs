//! How the figures of procedures, and of the bytes of READ and WRITE, are shown.

use std::collections::BTreeMap;
use std::io::{self, Write};

use nfs_server::operate::control::{
    AheadStatus, AutoStatus, IoStatus, ProcedureStatus, reason_sentence,
};

/// Prints a table with a row for each procedure that was called, with how long its calls took. `what` is the title of
/// their names.
pub(super) fn print_procedures(
    out: &mut impl Write,
    what: &str,
    procedures: &[ProcedureStatus],
) -> io::Result<()> {
    if procedures.is_empty() {
        return Ok(());
    }
    let names = procedures.iter().map(|row| row.procedure.len());
    let width = names.max().unwrap_or(0).max("READDIRPLUS".len());
    writeln!(
        out,
        "{:<width$}  {:>10}  {:>11}  {:>11}  {:>11}",
        what, "CALLS", "P50 BELOW", "P99 BELOW", "LONGEST"
    )?;
    for row in procedures {
        writeln!(
            out,
            "{:<width$}  {:>10}  {:>11}  {:>11}  {:>11}",
            row.procedure,
            row.calls,
            time(row.p50_below_us),
            time(row.p99_below_us),
            time(row.max_us)
        )?;
    }
    Ok(())
}

/// A time in the largest unit that leaves at least one, with one decimal: exact ones are in the JSON.
fn time(microseconds: u64) -> String {
    match microseconds {
        0..1_000 => format!("{microseconds} us"),
        1_000..1_000_000 => format!("{:.1} ms", microseconds as f64 / 1e3),
        _ => format!("{:.1} s", microseconds as f64 / 1e6),
    }
}

/// Prints a table with a row for each export, operation and mode, and below it the reasons of calls that went
/// another way.
pub(super) fn print(out: &mut impl Write, rows: &[IoStatus]) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "nothing was read or written yet");
    }
    let width = rows
        .iter()
        .map(|row| row.export.len())
        .max()
        .unwrap_or(0)
        .max("EXPORT".len());
    writeln!(
        out,
        "{:<width$}  {:<5}  {:<9}  {:>10}  {:>10}  {:>10}  {:>10}  MOVED AS",
        "EXPORT", "CALL", "MODE", "CALLS", "BYTES", "SEGMENTS", "COPIED"
    )?;
    for row in rows {
        writeln!(
            out,
            "{:<width$}  {:<5}  {:<9}  {:>10}  {:>10}  {:>10}  {:>10}  {}",
            row.export,
            row.operation.to_uppercase(),
            row.mode,
            row.calls,
            bytes(row.bytes),
            row.segments,
            bytes(row.copied_bytes),
            moved_as(&row.moved_bytes)
        )?;
        for (word, calls) in &row.fallbacks {
            let sentence = reason_sentence(word);
            writeln!(
                out,
                "{:<width$}    {calls} fell back: {sentence} ({word})",
                ""
            )?;
        }
        if row.spliced_bytes > 0 {
            let spliced = bytes(row.spliced_bytes);
            writeln!(out, "{:<width$}    {spliced} sent without a copy", "")?;
        }
        if let Some(ahead) = &row.ahead {
            print_ahead(out, width, ahead)?;
        }
        if let Some(auto) = &row.auto {
            print_auto(out, width, auto)?;
        }
    }
    Ok(())
}

/// What was read ahead, in a line or three.
fn print_ahead(out: &mut impl Write, width: usize, ahead: &AheadStatus) -> io::Result<()> {
    writeln!(
        out,
        "{:<width$}    {} READs answered from {} pieces read ahead ({} of {})",
        "",
        ahead.answered,
        ahead.pieces,
        bytes(ahead.answered_bytes),
        bytes(ahead.bytes)
    )?;
    if !ahead.dropped_bytes.is_empty() {
        let dropped = moved_as(&ahead.dropped_bytes);
        writeln!(out, "{:<width$}    read ahead and dropped: {dropped}", "")?;
    }
    for (word, reads) in &ahead.held_back {
        writeln!(
            out,
            "{:<width$}    {reads} READs not read ahead of ({word})",
            ""
        )?;
    }
    Ok(())
}

fn print_auto(out: &mut impl Write, width: usize, auto: &AutoStatus) -> io::Result<()> {
    if auto.taken > 0 {
        writeln!(out, "{:<width$}    chosen by auto for {}", "", auto.taken)?;
    }
    if auto.told > 0 {
        writeln!(
            out,
            "{:<width$}    auto, in a dry run, would choose it for {}",
            "", auto.told
        )?;
    }
    if !auto.changes.is_empty() {
        let changes = auto.changes.iter();
        let changes = changes.map(|(word, times)| format!("{word} {times}"));
        let changes = changes.collect::<Vec<_>>().join(", ");
        writeln!(out, "{:<width$}    changes to it: {changes}", "")?;
    }
    Ok(())
}

fn moved_as(moved: &BTreeMap<String, u64>) -> String {
    if moved.is_empty() {
        return "-".to_owned();
    }
    let kinds = moved
        .iter()
        .map(|(kind, count)| format!("{kind} {}", bytes(*count)));
    kinds.collect::<Vec<_>>().join(", ")
}

/// A number of bytes in the largest unit that leaves at least one, with one decimal: the exact ones
/// are in the JSON.
pub(super) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (63 - count.max(1).leading_zeros()) / 10;
    match units.get((unit as usize).wrapping_sub(1)) {
        None => format!("{count} B"),
        Some(name) => format!("{:.1} {name}", count as f64 / (1_u64 << (10 * unit)) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (count, expected) in cases {
            assert_eq!(bytes(count), expected);
        }
    }

    #[test]
    fn a_procedure_is_shown_with_its_times() {
        let read = ProcedureStatus {
            procedure: "READ".to_owned(),
            calls: 7,
            p50_below_us: 112,
            p99_below_us: 5_120,
            max_us: 3_000_000,
        };
        let mut out = Vec::new();
        print_procedures(&mut out, "PROCEDURE", &[read]).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let words: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words, ["READ", "7", "112", "us", "5.1", "ms", "3.0", "s"]);
        let mut out = Vec::new();
        print_procedures(&mut out, "PROCEDURE", &[]).unwrap();
        assert_eq!(out, b"", "no title over nothing");
    }

    #[test]
    fn a_row_says_why_calls_fell_back() {
        let row = IoStatus {
            export: "/a".to_owned(),
            operation: "write".to_owned(),
            mode: "direct".to_owned(),
            calls: 3,
            bytes: 300,
            segments: 3,
            moved_bytes: BTreeMap::from([("buffered".to_owned(), 300)]),
            fallbacks: BTreeMap::from([("shorter-than-alignment".to_owned(), 3)]),
            copied_bytes: 300,
            spliced_bytes: 2048,
            ahead: Some(AheadStatus {
                pieces: 4,
                bytes: 4096,
                answered: 3,
                answered_bytes: 3072,
                dropped_bytes: BTreeMap::from([("left".to_owned(), 1024)]),
                held_back: BTreeMap::from([("no-memory".to_owned(), 2)]),
            }),
            auto: Some(AutoStatus {
                taken: 3,
                told: 1,
                changes: BTreeMap::from([("stream".to_owned(), 2)]),
            }),
        };
        let mut out = Vec::new();
        print(&mut out, &[row]).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].starts_with("/a      WRITE  direct"), "{shown}");
        assert!(lines[1].ends_with("buffered 300 B"), "{shown}");
        assert!(
            lines[2].contains("3 fell back: shorter than the alignment"),
            "{shown}"
        );
        assert_eq!(lines[3].trim(), "2.0 KiB sent without a copy");
        let ahead = [
            "3 READs answered from 4 pieces read ahead (3.0 KiB of 4.0 KiB)",
            "read ahead and dropped: left 1.0 KiB",
            "2 READs not read ahead of (no-memory)",
        ];
        assert_eq!([lines[4], lines[5], lines[6]].map(str::trim), ahead);
        let auto = [
            "chosen by auto for 3",
            "auto, in a dry run, would choose it for 1",
            "changes to it: stream 2",
        ];
        assert_eq!([lines[7], lines[8], lines[9]].map(str::trim), auto);
        let mut out = Vec::new();
        print(&mut out, &[]).unwrap();
        assert_eq!(out, b"nothing was read or written yet\n");
    }
}
