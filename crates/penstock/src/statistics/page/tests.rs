use kinds::{LOOKUP, OPEN, READ, WRITE};
use nfs_client::connection::Stats;
use nfs_client::file::{CacheStatistics, WindowStatistics};

use super::*;
use crate::statistics::figures::{Figures, Mounted};

/// Kinds as the client library names them.
mod kinds {
    use nfs_client::connection::Kind;

    fn named(protocol: &str, name: &str) -> Kind {
        let is_it = |kind: &Kind| kind.protocol() == protocol && kind.name() == name;
        Kind::all().find(is_it).unwrap()
    }

    pub(super) const READ: fn() -> Kind = || named("NFSv3", "READ");
    pub(super) const WRITE: fn() -> Kind = || named("NFSv3", "WRITE");
    pub(super) const LOOKUP: fn() -> Kind = || named("NFSv3", "LOOKUP");
    pub(super) const OPEN: fn() -> Kind = || named("NFSv4", "RECLAIM_COMPLETE");
}

fn about() -> About {
    About {
        url: "nfs://server/a\u{1b}[2J".to_owned(),
        mount: Some(Mounted {
            dir: "/mnt/\u{202e}x".to_owned(),
            device: "0:59".to_owned(),
            pid: 7,
            cached: false,
        }),
    }
}

fn operation(kind: Kind, ops: u64, micros: u64) -> Operation {
    let times = || Latencies::from_classes([(micros, ops)], Duration::from_micros(micros) * 3);
    Operation {
        calls: ops,
        ops,
        transmissions: ops,
        bytes_sent: ops * 1024,
        bytes_received: ops * 1_048_576,
        queue: times(),
        rtt: times(),
        execute: times(),
        ..Operation::new(kind)
    }
}

fn statistics(operations: Vec<Operation>) -> Statistics {
    Statistics {
        age: Duration::from_secs(10),
        connections: 16,
        connections_up: 16,
        transport: Stats {
            calls: 12,
            jukebox_waits: 3,
            jukebox_waited: Duration::from_millis(700),
            ..Stats::default()
        },
        operations,
        windows: WindowStatistics {
            read: Depth::Measured,
            read_found: Some(1000),
            read_bytes: 1 << 20,
            write: Depth::Fixed(1000),
            write_found: None,
            write_bytes: 1 << 20,
            busy: 100_000,
            files: 1_000_000,
            memory_bytes: 1000 << 20,
            memory_bytes_peak: 1000 << 20,
            memory_bytes_max: 1000 << 20,
        },
        cache: CacheStatistics {
            data_ahead: 10_000_000,
            data_coming: 10_000_000,
            data_asked: 10_000_000,
            attributes_known: 1_000_000,
            attributes_asked: 1_000_000,
        },
    }
}

#[test]
fn a_page_of_a_busy_client_fits_80_columns_and_obeys_nobody() {
    let mut read = operation(READ(), 123_456_789, 64_000_000);
    read.resent = 1_234;
    read.errors = 1_234_567;
    let mut busy = statistics(vec![
        operation(LOOKUP(), 1, 1),
        operation(OPEN(), 12_345_678, 999_999),
        operation(WRITE(), 12_345_678, 99_999),
        read,
    ]);
    busy.age = Duration::from_secs(10_000);
    let page = page(&about(), &busy, true);
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    for line in page.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert_eq!(line, line.trim_end());
    }
    let first: Vec<_> = page
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let rows = ["READ", "WRITE", "RECLAIM_COMPLETE", "LOOKUP"];
    assert!(first.windows(4).any(|names| names == rows), "{page}");
}

#[test]
fn rates_and_sizes_are_nfsiostat_s() {
    let mut lookup = operation(LOOKUP(), 20, 1500);
    (lookup.bytes_sent, lookup.bytes_received) = (10 * 1024, 30 * 1024);
    (lookup.resent, lookup.errors, lookup.statuses) = (1, 5, vec![(2, 4), (77_777, 1)]);
    lookup.given_up = 2;
    let text = page(&about(), &statistics(vec![lookup]), false);
    let cells = |start: &str| {
        let lines = text.lines().filter(|line| line.starts_with(start));
        let cells = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        cells.collect::<Vec<_>>()
    };
    // 20 calls and 40 kB in 10 s; the classes of the histogram are a sixteenth wide.
    let expected = [
        "LOOKUP 20 2.000 4.000 2.000 1 (5.0%) 5 (25.0%)",
        "LOOKUP 0.225 1.535 1.535 1.535 0.225 1.535 0.225 1.535 1.535",
    ];
    assert_eq!(cells("LOOKUP"), expected);
    assert_eq!(
        cells("errors"),
        ["errors LOOKUP: NFS3ERR_NOENT 4, status 77777 1, given up 2"]
    );
    assert_eq!(cells("jukebox"), ["jukebox 3 waits, 0.7 s together"]);
    assert!(text.contains("\nthe last 10.0 s:\n"), "{text}");
}

#[test]
fn a_client_that_did_nothing_says_so() {
    let mut nothing = statistics(vec![Operation::new(READ())]);
    nothing.age = Duration::ZERO;
    let text = page(&about(), &nothing, true);
    assert!(text.contains("no calls"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn json_brings_back_what_it_was_made_of() {
    let mut open = operation(OPEN(), 7, 300);
    open.statuses = vec![(10008, 2)];
    let before = statistics(vec![operation(READ(), 40, 5_000_000), open]);
    let figures = Figures::new(about(), 5, &before);
    let text = serde_json::to_string(&figures).unwrap();
    let back: Figures = serde_json::from_str(&text).unwrap();
    assert_eq!(back, figures);
    assert_eq!(back.statistics(), before);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["v"], 1);
    assert_eq!(value["operations"][0]["rtt"]["histogram_us"][0][1], 40);
    assert_eq!(
        value["operations"][1]["statuses"][0]["name"],
        "NFS4ERR_DELAY"
    );
    assert_eq!(value["windows"]["write"]["given"], 1000);
    assert_eq!(value["mount"]["device"], "0:59");
    // Of a newer program: an operation that is not known here is left out, and what is counted beside.
    let newer = text
        .replace("\"READ\"", "\"TELEPORT\"")
        .replace("\"v\":1", "\"v\":1,\"new\":3");
    let newer: Figures = serde_json::from_str(&newer).unwrap();
    assert_eq!(newer.statistics().operations.len(), 1);
}
