use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

fn of_call(io: Io, bytes: u64, client: IpAddr, name: Option<&[u8]>) -> Asked<'_> {
    Asked {
        io,
        bytes,
        client,
        name,
        open: OpenAs::default(),
    }
}

fn policy(rules: &[&str]) -> IoPolicy {
    IoPolicy {
        rules: rules.iter().map(|rule| parse_rule(rule).unwrap()).collect(),
        ..IoPolicy::default()
    }
}

#[test]
fn the_first_match_wins_and_else_the_setting() {
    let policy = IoPolicy {
        read: Mode::DontCache.into(),
        ..policy(&[
            "op=read,min=64KiB,name=*.ckpt,mode=direct",
            "min=1MiB,client=10.0.0.0/8,mode=buffered",
            "op=write,mode=3",
        ])
    };
    let choose = |io, bytes, client: &str, name: &[u8]| {
        policy.choose(&of_call(io, bytes, client.parse().unwrap(), Some(name)))
    };
    let (read, write) = (Io::Read, Io::Write);
    let first = choose(read, 64 << 10, "::1", b"a.ckpt");
    assert_eq!(
        (first.mode, first.because),
        (Mode::Direct, Because::Rule(0))
    );
    let short = choose(read, (64 << 10) - 1, "::1", b"a.ckpt");
    assert_eq!(
        (short.mode, short.because),
        (Mode::DontCache, Because::Setting)
    );
    let mapped = choose(write, 1 << 20, "::ffff:10.1.2.3", b"x");
    assert_eq!(
        (mapped.mode, mapped.because),
        (Mode::Buffered, Because::Rule(1))
    );
    let third = choose(write, 1 << 20, "::1", b"a.ckpt");
    assert_eq!(
        (third.mode, third.because),
        (Mode::Direct, Because::Rule(2))
    );
    assert_eq!(third.stable, StableFloor::DataSync);
    let nameless = policy.choose(&of_call(read, 1 << 20, "::1".parse().unwrap(), None));
    assert_eq!(nameless.because, Because::Setting, "no name, no match");
}

#[test]
fn the_floor_raises_and_never_lowers() {
    use Stability as S;
    let floors = [
        StableFloor::Asked,
        StableFloor::DataSync,
        StableFloor::FileSync,
    ];
    let asked = [S::Unstable, S::DataSync, S::FileSync];
    let raised = floors.map(|floor| asked.map(|asked| floor.raise(asked)));
    assert_eq!(
        raised,
        [
            [S::Unstable, S::DataSync, S::FileSync],
            [S::DataSync, S::DataSync, S::FileSync],
            [S::FileSync, S::FileSync, S::FileSync],
        ]
    );
    let strict = IoPolicy {
        stable: StableFloor::FileSync,
        ..policy(&["op=write,mode=3"])
    };
    let choice = strict.choose(&of_call(Io::Write, 1, CLIENT, None));
    assert_eq!(
        choice.stable,
        StableFloor::FileSync,
        "the export's floor holds for every rule"
    );
}

#[test]
fn the_kernels_numbers_are_its_words() {
    for (number, word) in [("0", "buffered"), ("1", "dontcache"), ("2", "direct")] {
        assert_eq!(parse_mode(number), parse_mode(word));
        assert_eq!(number.parse::<WriteMode>(), word.parse::<WriteMode>());
    }
    for (number, floor) in [("3", StableFloor::DataSync), ("4", StableFloor::FileSync)] {
        let expected = WriteMode {
            way: Mode::Direct.into(),
            stable: Some(floor),
        };
        assert_eq!(number.parse::<WriteMode>(), Ok(expected));
        assert!(parse_mode(number).unwrap_err().contains("of WRITE alone"));
    }
    for word in ["5", "-1", "Direct", "Auto", ""] {
        assert!(parse_mode(word).unwrap_err().contains("write \"buffered\""));
        assert!(word.parse::<WriteMode>().is_err());
    }
}

#[test]
fn a_mode_that_is_left_to_what_is_seen_is_buffered_until_it_is_chosen() {
    assert_eq!(parse_mode("auto"), Ok(Way::Auto));
    let mut policy = policy(&["op=write,mode=direct", "max=4KiB,mode=auto,hint=random"]);
    policy.hint = Hint::NoReuse;
    let write = policy.choose(&of_call(Io::Write, 1, CLIENT, None));
    assert!(!write.is_judged() && !write.takes_verdict());
    let small = policy.choose(&of_call(Io::Read, 4096, CLIENT, None));
    assert_eq!(
        (small.mode, small.way, small.hint),
        (Mode::Buffered, Way::Auto, Hint::Random)
    );
    assert!(small.is_judged() && small.takes_verdict());
    let large = policy.choose(&of_call(Io::Read, 4097, CLIENT, None));
    assert_eq!(large.hint, Hint::NoReuse, "the policy's own");
    policy.auto = AutoUse::DryRun;
    for (io, bytes) in [(Io::Write, 1), (Io::Read, 4096)] {
        let choice = policy.choose(&of_call(io, bytes, CLIENT, None));
        assert!(choice.is_judged() && !choice.takes_verdict());
        let unchosen = [Mode::Direct, Mode::Buffered];
        assert_eq!(choice.mode, unchosen[usize::from(io == Io::Read)]);
    }
}

#[test]
fn a_wrong_rule_is_refused_with_its_cure() {
    for (text, expected) in [
        ("", "is not KEY=VALUE; write for example"),
        ("op=read", "has no mode; add"),
        ("op=append,mode=direct", "write \"read\" or \"write\""),
        (
            "min=2MiB,max=1MiB,mode=direct",
            "min 2MiB is more than max 1MiB",
        ),
        ("min=lots,mode=direct", "is not a size"),
        ("op=read,mode=3", "mode 3 is of WRITE alone"),
        ("mode=4", "add op = \"write\""),
        ("mode=direct,mode=direct", "\"mode\" is there twice"),
        (
            "size=1,mode=direct",
            "unknown key \"size\"; known keys are op,",
        ),
        ("client=host,mode=direct", "names are not looked up"),
        ("name=[,mode=direct", "without its \"]\""),
        ("mode=auto,hint=often", "write \"normal\""),
    ] {
        let refusal = parse_rule(text).unwrap_err();
        assert!(refusal.contains(expected), "{text}: {refusal}");
        assert!(refusal.contains(&format!("\"{text}\"")), "{refusal}");
    }
    let many = format!(
        "{}mode=direct",
        "client=::1,".repeat(limits::IO_RULE_CLIENTS_MAX + 1)
    );
    assert!(
        parse_rule(&many)
            .unwrap_err()
            .contains("use wider networks")
    );
}

#[test]
fn a_rule_that_can_never_match_is_found() {
    let idle = |rules: &[&str]| {
        let idle = policy(rules).idle_rules();
        idle.iter().map(|(index, _)| *index).collect::<Vec<_>>()
    };
    assert_eq!(
        idle(&[
            "op=read,min=4KiB,mode=direct",
            "op=read,min=8KiB,mode=dontcache"
        ]),
        [1]
    );
    assert_eq!(
        idle(&[
            "op=read,min=8KiB,mode=direct",
            "op=read,min=4KiB,mode=dontcache"
        ]),
        [0; 0]
    );
    assert_eq!(
        idle(&["op=read,mode=direct", "mode=dontcache"]),
        [0; 0],
        "WRITEs are left"
    );
    assert_eq!(
        idle(&[
            "op=read,mode=direct",
            "op=write,mode=direct",
            "min=1,mode=dontcache"
        ]),
        [2]
    );
    assert_eq!(
        idle(&[
            "client=10.0.0.0/8,mode=direct",
            "client=10.1.0.0/16,mode=direct"
        ]),
        [1]
    );
    assert_eq!(
        idle(&["client=10.0.0.0/8,mode=direct", "mode=buffered"]),
        [0; 0]
    );
    assert_eq!(
        idle(&["name=*,mode=direct", "name=a*,mode=buffered", "mode=direct"]),
        [1]
    );
    assert_eq!(idle(&["min=5MiB,mode=direct"]), [0]);
    let why = &policy(&["mode=direct", "mode=buffered"]).idle_rules()[0].1;
    assert!(
        why.contains("rule 1 before it takes all its calls; put it before rule 1"),
        "{why}"
    );
}

#[test]
fn a_change_leaves_what_it_does_not_name() {
    let before = IoPolicy {
        stable: StableFloor::FileSync,
        ..policy(&["mode=direct"])
    };
    let change = IoChange {
        read: Some(Mode::Direct.into()),
        hint: Some(Hint::Random),
        ..IoChange::default()
    };
    let after = change.applied_to(&before);
    assert_eq!((after.read, after.write), (Mode::Direct.into(), Way::Auto));
    assert_eq!((after.hint, after.auto), (Hint::Random, AutoUse::On));
    assert_eq!(
        (after.stable, after.rules.len()),
        (StableFloor::FileSync, 1)
    );
    let number = IoChange {
        write: Some("3".parse().unwrap()),
        rules: Some(Vec::new()),
        ..IoChange::default()
    };
    let after = number.applied_to(&before);
    assert_eq!(
        (after.write, after.stable),
        (Mode::Direct.into(), StableFloor::DataSync)
    );
    assert!(after.rules.is_empty());
    let contradiction = IoChange {
        stable: Some(StableFloor::Asked),
        ..number.clone()
    };
    assert!(
        contradiction
            .check()
            .unwrap_err()
            .contains("contradicts WRITE mode 3")
    );
    let stricter = IoChange {
        stable: Some(StableFloor::FileSync),
        ..number
    };
    assert_eq!(stricter.check(), Ok(()));
    assert_eq!(stricter.applied_to(&before).stable, StableFloor::FileSync);
    let many = IoChange {
        rules: Some(vec![
            Rule::all(Mode::Direct.into());
            limits::IO_RULES_PER_EXPORT_MAX + 1
        ]),
        ..IoChange::default()
    };
    assert!(many.check().unwrap_err().contains("join some"));
}

#[test]
fn what_is_read_ahead_is_said_for_all_and_by_rule() {
    let live = policy(&[
        "op=read,max=64KiB,read_ahead=1MiB,mode=direct",
        "min=1GiB,mode=0",
    ]);
    let ahead = |policy: &IoPolicy, bytes| {
        policy
            .choose(&of_call(Io::Read, bytes, CLIENT, None))
            .read_ahead
    };
    let default = limits::READ_AHEAD_BYTES_DEFAULT;
    assert_eq!(
        (ahead(&live, 4096), ahead(&live, 1 << 20)),
        (1 << 20, default)
    );
    let change = IoChange {
        read_ahead: Some(8 << 20),
        ..IoChange::default()
    };
    assert_eq!(change.check(), Ok(()));
    let after = change.applied_to(&live);
    assert_eq!(
        (ahead(&after, 4096), ahead(&after, 1 << 20)),
        (1 << 20, 8 << 20)
    );
    assert!(after.to_string().contains(" read_ahead=8MiB rules="));
    let off = IoChange {
        read_ahead: Some(0),
        ..IoChange::default()
    };
    assert_eq!(ahead(&off.applied_to(&live), 1 << 20), 0);
    for wrong in ["1KiB", "1GiB"] {
        let refusal = parse_read_ahead(wrong).unwrap_err();
        assert!(
            refusal.contains("write 0 for nothing, or \"64KiB\""),
            "{refusal}"
        );
        assert!(parse_rule(&format!("op=read,read_ahead={wrong},mode=2")).is_err());
    }
    assert_eq!(parse_read_ahead("0"), Ok(0));
    for wrong in [
        "op=write,read_ahead=1MiB,mode=2",
        "read_ahead=1MiB,mode=dontcache",
    ] {
        let refusal = parse_rule(wrong).unwrap_err();
        assert!(
            refusal.contains("read_ahead is of direct READs alone"),
            "{refusal}"
        );
    }
}

#[test]
fn space_ahead_is_said_for_all_and_by_rule() {
    let before = policy(&[
        "op=write,max=64KiB,reserve=on,mode=direct",
        "reserve=off,min=1GiB,mode=0",
    ]);
    let reserves = |policy: &IoPolicy, bytes| {
        policy
            .choose(&of_call(Io::Write, bytes, CLIENT, None))
            .reserve
    };
    assert_eq!(
        (reserves(&before, 4096), reserves(&before, 1 << 20)),
        (true, false)
    );
    let change = IoChange {
        reserve: Some(true),
        ..IoChange::default()
    };
    let after = change.applied_to(&before);
    assert!(reserves(&after, 1 << 20) && !reserves(&after, 1 << 30));
    assert!(
        after
            .to_string()
            .contains(" stable=asked reserve=on rules=")
    );
    assert!(IoChange::default().applied_to(&after).reserve);
    let refusal = parse_rule("op=read,reserve=on,mode=direct").unwrap_err();
    assert!(refusal.contains("reserve is of WRITEs alone"), "{refusal}");
    assert!(parse_rule("reserve=maybe,mode=direct").is_err());
    let ordered = policy(&["order=on,mode=direct"]).choose(&of_call(Io::Write, 1, CLIENT, None));
    assert!(ordered.order && !ordered.reserve);
    assert!(parse_rule("op=read,order=on,mode=direct").is_err());
}

#[test]
fn reads_are_spliced_where_the_policy_or_a_rule_says_so() {
    let splices = |policy: &IoPolicy, bytes| {
        policy
            .choose(&of_call(Io::Read, bytes, CLIENT, None))
            .splice
    };
    assert!(!splices(&IoPolicy::default(), 1));
    let before = policy(&["op=read,min=64KiB,splice=on,mode=buffered"]);
    assert_eq!(
        (splices(&before, 4096), splices(&before, 1 << 20)),
        (false, true)
    );
    assert!(!before.to_string().contains(" splice="), "{before}");
    let change = IoChange {
        splice: Some(true),
        rules: Some(vec![
            parse_rule("max=64KiB,splice=off,mode=buffered").unwrap(),
        ]),
        ..IoChange::default()
    };
    let after = change.applied_to(&before);
    assert_eq!(
        (splices(&after, 4096), splices(&after, 1 << 20)),
        (false, true)
    );
    let shown = after.to_string();
    assert!(
        shown.contains(" splice=on rules=[max=64KiB,splice=off,mode=buffered]"),
        "{shown}"
    );
    assert!(IoChange::default().applied_to(&after).splice);
    let refusal = parse_rule("op=write,splice=off,mode=buffered").unwrap_err();
    assert!(refusal.contains("splice is of READs alone"), "{refusal}");
    assert!(parse_rule("splice=maybe,mode=buffered").is_err());
    let again = parse_rule("splice=on,splice=on,mode=buffered").unwrap_err();
    assert!(again.contains("\"splice\" is there twice"), "{again}");
}

#[test]
fn changes_at_once_follow_each_other() {
    let live = LivePolicy::new(IoPolicy::default());
    let add = |rule: &'static str| {
        move |before: &IoPolicy| {
            let mut after = before.clone();
            after.rules.push(parse_rule(rule).unwrap());
            // Lets the others come between: each must see what they did.
            std::thread::yield_now();
            after
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| drop(live.change(add("mode=direct")))));
        }
    });
    assert_eq!(live.now().rules.len(), 200, "none was lost");
    assert!(live.is_changed());
    let held = live.now();
    let (before, after) = live.change(|_| IoPolicy::default());
    assert_eq!((before.rules.len(), after.rules.len()), (200, 0));
    assert_eq!(
        held.rules.len(),
        200,
        "who decides by the old one still does"
    );
    assert!(!live.is_changed());
}

fn any_way() -> impl Strategy<Value = Way> {
    prop_oneof![
        Just(Mode::Buffered.into()),
        Just(Mode::DontCache.into()),
        Just(Mode::Direct.into()),
        Just(Way::Auto),
    ]
}

fn any_io() -> impl Strategy<Value = Io> {
    prop_oneof![Just(Io::Read), Just(Io::Write)]
}

fn any_open() -> impl Strategy<Value = Option<OpenCondition>> {
    let words = prop::sample::select(OpenCondition::WORDS).prop_map(|(_, condition)| condition);
    prop_oneof![2 => Just(None), 1 => words.prop_map(Some)]
}

fn any_share() -> impl Strategy<Value = OpenShare> {
    prop::sample::select(OpenShare::WORDS).prop_map(|(_, share)| share)
}

/// Few values each, so that rules often match, cover and miss.
fn any_rule() -> impl Strategy<Value = Rule> {
    let size = prop_oneof![Just(0_u64), Just(4096), Just(5000), Just(1 << 20)];
    let nets = prop::sample::subsequence(vec!["10.0.0.0/8", "10.0.0.0/24", "::/0"], 0..=2);
    let name = prop::option::of(prop::sample::select(vec!["*", "a*", "*.ckpt", "?", "[ab]"]));
    let op = prop::option::of(any_io());
    (
        op,
        size.clone(),
        prop::option::of(size),
        nets,
        name,
        any_way(),
        (0..3_usize, prop::option::of(any::<bool>())),
        (
            prop::option::of(any::<(bool, bool, bool)>()),
            any_open(),
            any_open(),
        ),
        prop::option::of(prop::sample::select(Hint::WORDS)),
    )
        .prop_map(
            |(op, min, max, nets, name, way, (floor, staging), (reserve, open, deny), hint)| {
                let direct_write = op == Some(Io::Write) && way == Mode::Direct.into();
                Rule {
                    op,
                    min_bytes: min,
                    max_bytes: max.map_or(u64::MAX, |max| max.max(min)),
                    clients: nets.iter().map(|net| net.parse().unwrap()).collect(),
                    name: name.map(|name| name.parse().unwrap()),
                    open,
                    deny,
                    way,
                    hint: hint.map(|(_, hint)| hint),
                    read_ahead: None,
                    stable: if direct_write {
                        StableFloor::WORDS[floor].1
                    } else {
                        StableFloor::Asked
                    },
                    // Of READ it is refused where it is read.
                    staging: staging.filter(|_| op != Some(Io::Read)),
                    reserve: reserve.map(|all| all.0).filter(|_| op != Some(Io::Read)),
                    order: reserve.map(|all| all.1).filter(|_| op != Some(Io::Read)),
                    // Of WRITE it is.
                    splice: reserve.map(|all| all.2).filter(|_| op != Some(Io::Write)),
                }
            },
        )
}

/// The definition in other words: go through the rules, drop those that an argument speaks against.
fn model(policy: &IoPolicy, asked: &Asked<'_>) -> (Way, Option<usize>) {
    let &Asked {
        io,
        bytes,
        client,
        name,
        open,
    } = asked;
    let mut left: Vec<usize> = (0..policy.rules.len()).collect();
    left.retain(|&index| {
        matches!(
            (policy.rules[index].op, io),
            (None, _) | (Some(Io::Read), Io::Read) | (Some(Io::Write), Io::Write)
        )
    });
    left.retain(|&index| {
        (policy.rules[index].min_bytes..=policy.rules[index].max_bytes).contains(&bytes)
    });
    left.retain(|&index| {
        let nets = &policy.rules[index].clients;
        nets.is_empty() || nets.iter().filter(|net| net.contains(&client)).count() > 0
    });
    let meets = |condition: Option<OpenCondition>, share| match condition {
        None => true,
        Some(OpenCondition::Any) => share != OpenShare::None,
        Some(OpenCondition::Is(this)) => share == this,
    };
    left.retain(|&index| meets(policy.rules[index].open, open.access));
    left.retain(|&index| meets(policy.rules[index].deny, open.deny));
    left.retain(|&index| match (&policy.rules[index].name, name) {
        (Some(pattern), Some(name)) => pattern.matches(name),
        (pattern, _) => pattern.is_none(),
    });
    match left.first() {
        Some(&index) => (policy.rules[index].way, Some(index)),
        None if io == Io::Read => (policy.read, None),
        None => (policy.write, None),
    }
}

proptest! {
    // Of few policies does a rule decide that another nearly hides.
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_choice_is_what_the_definition_says(
        (read, write) in (any_way(), any_way()), rules in prop::collection::vec(any_rule(), 0..8),
        io in any_io(), bytes in prop::sample::select(vec![0_u64, 1, 4095, 4096, 5000, 1 << 20, u64::MAX]),
        client in prop::sample::select(vec!["10.0.0.7", "10.9.0.1", "192.168.0.1", "::1"]),
        name in prop::option::of("(a|b|ab|x\\.ckpt)"), access in any_share(), deny in any_share(),
    ) {
        let policy = IoPolicy { read, write, rules, ..IoPolicy::default() };
        let client: IpAddr = client.parse().unwrap();
        let name = name.as_ref().map(String::as_bytes);
        let open = OpenAs { access, deny, hint: Hint::Normal };
        let asked = Asked { open, ..of_call(io, bytes, client, name) };
        let choice = policy.choose(&asked);
        let because = match choice.because {
            Because::Rule(index) => Some(index),
            Because::Setting => None,
        };
        prop_assert_eq!((choice.way, because), model(&policy, &asked));
        // What is said to be idle never decides.
        for (index, why) in policy.idle_rules() {
            prop_assert_ne!(because, Some(index), "{}", why);
        }
        if name.is_some() && !policy.uses_names() {
            prop_assert_eq!(policy.choose(&Asked { name: None, ..asked }), choice);
        }
        if !policy.uses_opens() {
            let unopened = OpenAs::default();
            prop_assert_eq!(policy.choose(&Asked { open: unopened, ..asked }), choice);
        }
    }

    #[test]
    fn a_rule_is_read_as_it_is_shown(rule in any_rule()) {
        prop_assert_eq!(parse_rule(&rule.to_string()), Ok(rule));
    }

    #[test]
    fn a_size_is_read_as_it_is_shown(bytes in prop_oneof![any::<u64>(), (0..64_u32).prop_map(|bit| 1 << bit)]) {
        prop_assert_eq!(crate::exports::config::parse_size(&show_size(bytes)), Ok(bytes));
    }

    #[test]
    fn no_text_makes_the_reader_of_rules_panic(text in "[a-z=,0-9*\\[\\]./:KMiB \u{e9}]{0,60}") {
        let _ = parse_rule(&text);
    }
}

#[test]
fn a_rule_may_ask_how_the_file_is_open() {
    let policy = policy(&[
        "open=none,mode=dontcache",
        "open=read,deny=any,mode=direct",
        "op=write,open=both,deny=none,mode=3",
    ]);
    assert!(policy.uses_opens());
    let because = |io, access, deny| {
        let open = OpenAs {
            access,
            deny,
            hint: Hint::Normal,
        };
        let asked = Asked {
            open,
            ..of_call(io, 4096, CLIENT, Option::None)
        };
        policy.choose(&asked).because
    };
    use OpenShare::{Both, None, Read, Write};
    assert_eq!(because(Io::Read, None, None), Because::Rule(0));
    assert_eq!(because(Io::Read, Read, Write), Because::Rule(1));
    assert_eq!(because(Io::Read, Read, Both), Because::Rule(1));
    assert_eq!(because(Io::Read, Read, None), Because::Setting);
    assert_eq!(because(Io::Write, Both, None), Because::Rule(2));
    assert_eq!(because(Io::Write, Both, Read), Because::Setting);
    assert_eq!(because(Io::Write, Write, None), Because::Setting);
}

#[test]
fn what_takes_every_open_leaves_none_to_a_later_rule() {
    let idle = |rules: &[&str]| policy(rules).idle_rules().len();
    assert_eq!(
        idle(&["open=any,mode=direct", "open=read,mode=buffered"]),
        1
    );
    assert_eq!(idle(&["mode=direct", "deny=write,mode=buffered"]), 1);
    assert_eq!(
        idle(&["open=any,mode=direct", "open=none,mode=buffered"]),
        0
    );
    assert_eq!(
        idle(&["open=read,mode=direct", "open=any,mode=buffered"]),
        0
    );
    assert_eq!(idle(&["open=read,mode=direct", "mode=buffered"]), 0);
}

#[test]
fn a_client_s_advice_counts_where_no_rule_says_something_else() {
    let hinted = |rules: &[&str], hint| {
        let policy = IoPolicy {
            hint: Hint::Sequential,
            ..policy(rules)
        };
        let open = OpenAs {
            hint,
            ..OpenAs::default()
        };
        let asked = Asked {
            open,
            ..of_call(Io::Read, 4096, CLIENT, None)
        };
        policy.choose(&asked).hint
    };
    assert_eq!(hinted(&[], Hint::Normal), Hint::Sequential);
    assert_eq!(hinted(&[], Hint::NoReuse), Hint::NoReuse);
    let rule = ["hint=willneed,mode=auto"];
    assert_eq!(hinted(&rule, Hint::NoReuse), Hint::WillNeed);
    assert_eq!(hinted(&["mode=auto"], Hint::Random), Hint::Random);
}
