use nfs_io::auto::{Around, Direction, History};
use nfs_io::plan::Alignment;

use super::*;
use crate::exports::policy::{Hint, Way, parse_rule};

/// 1 MiB, with direct I/O in blocks of 4096 bytes, nothing refused.
fn facts() -> FileFacts {
    let file = tempfile::tempfile().unwrap();
    let mut stat = nfs_io::fs::statx(std::os::fd::AsFd::as_fd(&file)).unwrap();
    stat.size = 1 << 20;
    FileFacts {
        path: "/srv/a.ckpt".into(),
        stat,
        alignment: Alignment {
            memory: 512,
            offset: 512,
            read_offset: 0,
            block: 4096,
        },
        name: KnownName::Remembered(b"a.ckpt".to_vec()),
        refused: Refused::default(),
        would_refuse: Refused::default(),
        cached_bytes: Some((8192, 4096)),
        history: History::default(),
        around: Around {
            memory_bytes: 1 << 30,
            pressure: 250,
            ..Around::default()
        },
    }
}

fn asked(io: Io, offset: u64, bytes: usize) -> IoCall {
    IoCall {
        io,
        offset,
        bytes,
        client: "10.0.0.7".parse().unwrap(),
        open: OpenAs::default(),
        stable: Stability::Unstable,
        memory: memory_of(io, offset),
    }
}

fn moved(why: &Why) -> Vec<(u64, u64, &str)> {
    let segments = why.segments.iter();
    segments
        .map(|segment| (segment.file.start, segment.file.end, segment.mode.as_str()))
        .collect()
}

const fn direct() -> IoPolicy {
    IoPolicy {
        staging: false,
        read: Way::Fixed(Mode::Direct),
        write: Way::Fixed(Mode::Direct),
        auto: AutoUse::On,
        hint: Hint::Normal,
        stable: StableFloor::Asked,
        read_ahead: 1 << 20,
        reserve: false,
        order: false,
        splice: true,
        rules: Vec::new(),
    }
}

#[test]
fn what_is_chosen_is_said_with_what_it_rests_on() {
    let mut facts = facts();
    facts.stat.size = 1 << 40;
    let call = asked(Io::Read, 0, 1 << 20);
    let mut policy = IoPolicy {
        read: Way::Auto,
        ..direct()
    };
    let why = explain(&call, &policy, &facts).unwrap();
    let auto = why.auto.unwrap();
    assert_eq!((&*why.mode, &*auto.mode), ("direct", "direct"));
    assert_eq!((&*auto.state, &*auto.reason), ("on", "stream"));
    assert_eq!(auto.evidence["calls"], 0, "nobody has called yet");
    assert_eq!(auto.evidence["memory-bytes"], 1 << 30);
    assert_eq!(auto.evidence["pressure-percent"], 2);
    assert!(
        !auto.evidence.contains_key("reused-percent"),
        "not known yet"
    );
    assert!(!auto.evidence.contains_key("stable-percent"), "of WRITEs");
    policy.auto = AutoUse::DryRun;
    let known = IoFacts {
        size: 1 << 40,
        alignment: facts.alignment,
        ..IoFacts::default()
    };
    let seen = call_of(&choose(&policy, &call, &known), &call, &known);
    for _ in 0..20 {
        facts.history.judge(&seen, &facts.around);
    }
    assert_eq!(facts.history.mode(Direction::Read), Some(Mode::Direct));
    let why = explain(&call, &policy, &facts).unwrap();
    let auto = why.auto.unwrap();
    assert_eq!((&*why.mode, &*auto.mode), ("buffered", "direct"));
    assert_eq!((&*auto.state, auto.evidence["calls"]), ("dry-run", 20));
    policy.auto = AutoUse::On;
    policy.read = Mode::Direct.into();
    assert_eq!(explain(&call, &policy, &facts).unwrap().auto, None);
}

#[test]
fn a_direct_write_has_its_edges_in_the_cache_and_a_read_is_rounded_out() {
    let why = explain(&asked(Io::Write, 100, 12288), &direct(), &facts()).unwrap();
    assert_eq!(
        moved(&why),
        [
            (100, 4096, "buffered"),
            (4096, 12288, "direct"),
            (12288, 12388, "buffered"),
        ]
    );
    assert_eq!((why.mode.as_str(), why.fallbacks.len()), ("direct", 0));
    assert_eq!(why.because, "the export's \"write\"; it has no rules");
    let why = explain(&asked(Io::Read, 100, 1000), &direct(), &facts()).unwrap();
    assert_eq!(moved(&why), [(0, 1536, "direct")]);
    assert_eq!(why.read_ahead_bytes, Some(1 << 20));
    assert!(why.notes[0].starts_with("rounded out"), "{:?}", why.notes);
    assert_eq!(why.stable, None);
}

#[test]
fn what_is_not_direct_says_why() {
    let short = explain(&asked(Io::Write, 0, 100), &direct(), &facts()).unwrap();
    assert_eq!(moved(&short), [(0, 100, "buffered")]);
    assert!(
        short.fallbacks[0].contains("shorter"),
        "{:?}",
        short.fallbacks
    );
    let unknown = FileFacts {
        alignment: Alignment::default(),
        ..facts()
    };
    let unknown = explain(&asked(Io::Read, 0, 4096), &direct(), &unknown).unwrap();
    assert_eq!(moved(&unknown), [(0, 4096, "buffered")]);
    assert!(
        unknown.fallbacks[0].contains("does not say"),
        "{:?}",
        unknown.fallbacks
    );
}

#[test]
fn a_remembered_refusal_is_not_tried_again_and_a_new_one_is_found_by_the_next_call() {
    let mut refused = facts();
    refused.refused.direct = Some(Reason::RefusedDirect);
    let write = asked(Io::Write, 100, 12288);
    let why = explain(&write, &direct(), &refused).unwrap();
    assert_eq!(
        moved(&why),
        [(100, 12388, "buffered")],
        "planned without it"
    );
    assert!(why.fallbacks[0].ends_with("as the server remembers of this file"));
    refused.refused = Refused::default();
    refused.would_refuse.direct = Some(Reason::OpenRefused);
    let why = explain(&write, &direct(), &refused).unwrap();
    assert_eq!(
        moved(&why),
        [
            (100, 4096, "buffered"),
            (4096, 12288, "buffered"),
            (12288, 12388, "buffered"),
        ],
        "found out in the middle"
    );
    assert!(why.fallbacks[0].ends_with("as the next call will find"));
    let why = explain(&asked(Io::Read, 100, 1000), &direct(), &refused).unwrap();
    assert_eq!(moved(&why), [(100, 1100, "buffered")]);
    let buffered = explain(&write, &IoPolicy::default(), &refused).unwrap();
    assert_eq!(
        buffered.fallbacks, [""; 0],
        "nothing was asked that is refused"
    );
}

#[test]
fn the_end_of_the_file_bounds_a_read() {
    let read = |offset, bytes| {
        explain(
            &asked(Io::Read, offset, bytes),
            &IoPolicy::default(),
            &facts(),
        )
    };
    let size = 1 << 20;
    assert_eq!(
        moved(&read(size - 10, 100).unwrap()),
        [(size - 10, size, "buffered")]
    );
    assert_eq!(moved(&read(size, 100).unwrap()), []);
    assert!(read(size, 100).unwrap().notes[0].contains("the reply is empty"));
    assert!(read(u64::MAX, 1).unwrap_err().contains("ask for less"));
    let write = explain(&asked(Io::Write, u64::MAX, 100), &direct(), &facts());
    assert!(write.unwrap_err().contains("2^63 - 1"));
}

#[test]
fn rules_and_floor_are_told_one_by_one() {
    let rules = [
        "op=read,mode=buffered",
        "max=1KiB,mode=buffered",
        "client=::1,mode=buffered",
        "name=*.db,mode=buffered",
        "op=write,name=*.ckpt,mode=3",
        "mode=dontcache",
    ];
    let policy = IoPolicy {
        rules: rules.iter().map(|rule| parse_rule(rule).unwrap()).collect(),
        ..IoPolicy::default()
    };
    let write = asked(Io::Write, 0, 1 << 20);
    let why = explain(&write, &policy, &facts()).unwrap();
    let verdicts = |why: &Why| {
        let rules = why.rules.iter();
        rules.map(|rule| rule.verdict.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        verdicts(&why),
        [
            "is for the other operation",
            "not its size: 1MiB",
            "not its client: 10.0.0.7",
            "another name",
            "decides",
            "not reached",
        ]
    );
    assert_eq!(why.because, "rule 5 is the first that matches");
    let stable = why.stable.unwrap();
    assert_eq!(
        (
            stable.asked.as_str(),
            stable.floor.as_str(),
            stable.committed.as_str()
        ),
        ("unstable", "data-sync", "data-sync")
    );
    assert_eq!(
        why.reserve.as_deref(),
        Some("off: the export's \"reserve\"")
    );
    let nameless = FileFacts {
        name: KnownName::Unknown,
        ..facts()
    };
    let why = explain(&write, &policy, &nameless).unwrap();
    assert_eq!(verdicts(&why)[4], "asks for a name, and none is known");
    assert_eq!((why.mode.as_str(), why.name), ("dontcache", None));
}

#[test]
fn space_ahead_is_told_with_who_says_so_and_what_speaks_against_it() {
    let told = |rules: &[&str], stable| {
        let policy = IoPolicy {
            reserve: true,
            rules: rules.iter().map(|rule| parse_rule(rule).unwrap()).collect(),
            ..IoPolicy::default()
        };
        let call = IoCall {
            stable,
            ..asked(Io::Write, 0, 1 << 20)
        };
        explain(&call, &policy, &facts()).unwrap().reserve.unwrap()
    };
    assert_eq!(
        told(&[], Stability::Unstable),
        "on: the export's \"reserve\""
    );
    let off = told(&["reserve=off,mode=direct"], Stability::Unstable);
    assert_eq!(off, "off: the rule's \"reserve\"");
    let stable = told(&["mode=direct"], Stability::FileSync);
    assert!(
        stable.starts_with("off: the export's \"reserve\" is on, and only"),
        "{stable}"
    );
    let order = |rules: &[&str]| {
        let policy = IoPolicy {
            rules: rules.iter().map(|rule| parse_rule(rule).unwrap()).collect(),
            ..IoPolicy::default()
        };
        let write = asked(Io::Write, 0, 1 << 20);
        explain(&write, &policy, &facts()).unwrap().order.unwrap()
    };
    assert_eq!(order(&[]), "off: the export's \"order\"");
    assert_eq!(order(&["order=on,mode=direct"]), "on: the rule's \"order\"");
    let read = explain(&asked(Io::Read, 0, 1), &direct(), &facts()).unwrap();
    assert_eq!((read.reserve, read.order), (None, None));
}

#[test]
fn reads_without_a_copy_are_told_with_who_says_so_and_what_speaks_against_it() {
    let told = |rules: &[&str], io| {
        let policy = IoPolicy {
            read: Mode::Buffered.into(),
            rules: rules.iter().map(|rule| parse_rule(rule).unwrap()).collect(),
            ..IoPolicy::default()
        };
        explain(&asked(io, 0, 1 << 20), &policy, &facts())
            .unwrap()
            .splice
    };
    let read = |rules: &[&str]| told(rules, Io::Read).unwrap();
    assert_eq!(read(&[]), "off: the export's \"splice\"");
    assert_eq!(
        read(&["splice=on,mode=buffered"]),
        "on: the rule's \"splice\""
    );
    let direct = read(&["splice=on,mode=direct"]);
    assert!(
        direct.starts_with("off: the rule's \"splice\" is on, and only buffered"),
        "{direct}"
    );
    assert_eq!(told(&[], Io::Write), None);
}
