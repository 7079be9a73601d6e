//! Whole runs: on this host's file system, and against the responder that touches no file.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use nfs_client::{MountOptions, NfsUrl};
use nfs_io::BusyPoll;
use nfs_load::compare::{Change, compare};
use nfs_load::error::LoadError;
use nfs_load::load::{self, Amount, Around, Load, Names, Work};
use nfs_load::noise::Noise;
use nfs_load::own::Own;
use nfs_load::pace::Stop;
use nfs_load::place::{Place, Way};
use nfs_load::report::Report;
use nfs_load::report::page::Page;
use nfs_load::respond::{self, Answers};
use nfs_load::run::{self, Plan};
use nfs_load::target::Target;
use nfs_load::unpack::{self, Entry};
use nfs_load::workload::Workload;

fn own(words: &str) -> Target {
    Target::Own(Own::parse(words).unwrap())
}

fn plan(workload: Workload, directory: &Path, targets: Vec<Target>) -> Plan {
    let mut settings = workload.defaults();
    settings.size_bytes = settings.size_bytes.min(2 << 20);
    settings.seconds = 0.05;
    settings.names = settings.names.min(30);
    Plan {
        workload,
        settings,
        targets,
        repetitions: 2,
        directory: directory.to_owned(),
        program: "penstock".into(),
        options: MountOptions::default(),
        memory_bytes: None,
        command: "penstock bench".to_owned(),
        began: String::new(),
        version: "0".to_owned(),
        commit: None,
    }
}

fn run(plan: &Plan) -> Result<Report, LoadError> {
    run::run(plan, &Stop::default(), &mut |_event| {})
}

/// Runs a plan until each of its samples has calls, for twice as long each time: where this machine stands still, none
/// ends in a moment.
fn run_until_all_have_calls(mut plan: Plan) -> Report {
    loop {
        let report = run(&plan).unwrap();
        let samples = report.rows.iter().flat_map(|row| &row.samples);
        if samples.into_iter().all(|sample| sample.calls > 0) || plan.settings.seconds > 5.0 {
            return report;
        }
        plan.settings.seconds *= 2.0;
    }
}

#[test]
fn every_workload_of_files_runs_on_this_host_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for workload in Workload::ALL {
        if matches!(
            workload,
            Workload::SmallCalls | Workload::Connections | Workload::Ceiling
        ) {
            // They are of calls and connections, and of the generator alone: this host's file system has none of that.
            continue;
        }
        let plan = plan(
            workload,
            directory.path(),
            vec![Target::Local(Way::Buffered)],
        );
        let steps = workload.steps(&plan.settings).unwrap();
        let report = run_until_all_have_calls(plan);
        for step in &steps {
            let row = report.row(&step.name, "local buffered").unwrap();
            assert_eq!(row.samples.len(), 2, "{}: {}", workload.name(), step.name);
            let has_calls = row.samples.iter().all(|sample| sample.calls > 0);
            assert!(has_calls, "{}: {}", workload.name(), step.name);
            let beside = step.beside.as_ref().map(|(name, _)| name);
            let row = beside.map(|name| report.row(name, "local buffered").unwrap());
            assert!(row.is_none_or(|row| row.samples.iter().all(|sample| sample.bytes > 0)));
        }
        assert_eq!(report.missing, Vec::<String>::new(), "{}", workload.name());
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 0, "{}", workload.name());
    }
}

#[test]
fn whole_files_and_directories_are_counted_whole() {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan(
        Workload::IorEasy,
        directory.path(),
        vec![Target::Local(Way::Buffered)],
    );
    (plan.settings.connections, plan.settings.depth) = (3, 2);
    let report = run(&plan).unwrap();
    for row in &report.rows {
        assert!(
            row.samples
                .iter()
                .all(|sample| sample.bytes == 3 * (2 << 20)),
            "{}",
            row.step
        );
    }
    let mut plan = self::plan(
        Workload::IorHard,
        directory.path(),
        vec![Target::Local(Way::Buffered)],
    );
    (plan.settings.connections, plan.settings.depth) = (3, 2);
    let whole = (2 << 20) / 47_008 * 47_008;
    for row in &run(&plan).unwrap().rows {
        assert!(
            row.samples.iter().all(|sample| sample.bytes == whole),
            "{}",
            row.step
        );
    }
}

#[test]
fn a_tree_is_unpacked_as_it_was_packed() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::Local {
        directory: directory.path().to_owned(),
        way: Way::Buffered,
    };
    std::fs::create_dir(directory.path().join("names")).unwrap();
    let load = Load {
        work: Work::Unpack(Names {
            directory: "names".to_owned(),
            count: 40,
        }),
        connections: 2,
        depth: 2,
        rate: None,
        amount: Amount::Once,
    };
    let around = Around {
        noise: Noise::new(1 << 20),
        stop: Stop::default(),
        busy_poll: BusyPoll::OFF,
    };
    let (sample, _) = load::run(&place, &load, None, &around, || None).unwrap();
    let (mut found, mut bytes) = (0, 0);
    for number in 0..3 {
        let path = directory.path().join(format!("names/dir-{number}"));
        for (entry, index) in unpack::directory(number, 40).zip(0..) {
            found += 1;
            let Entry::File(len) = entry else {
                let target = std::fs::read_link(path.join("link")).unwrap();
                assert_eq!(target, Path::new("file-0"));
                continue;
            };
            let metadata = path.join(format!("file-{index}")).metadata().unwrap();
            assert_eq!(
                (metadata.len(), metadata.mtime()),
                (len.into(), 1_000_000_000)
            );
            bytes += u64::from(len);
        }
        assert_eq!(
            std::fs::read_dir(&path).unwrap().count(),
            if number < 2 { 16 } else { 8 }
        );
    }
    assert_eq!((found, sample.calls, sample.bytes), (40, 40, bytes));
    let plan = plan(
        Workload::Untar,
        directory.path(),
        vec![Target::Local(Way::Direct)],
    );
    assert!(matches!(plan.check(), Err(LoadError::Setting(_))));
}

#[test]
fn names_that_are_not_synced_are_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let told = |ways: &[Way]| {
        let targets = ways.iter().copied().map(Target::Local).collect();
        let report = run(&plan(Workload::Metadata, directory.path(), targets)).unwrap();
        for way in ways {
            let row = report.row("create", &format!("local {}", way.word()));
            assert!(row.unwrap().samples.iter().all(|sample| sample.calls > 0));
        }
        let notes = Page::of(&report).notes;
        let are_of_names = |note: &&String| note.contains("not brought to stable storage");
        notes.iter().find(are_of_names).cloned()
    };
    assert_eq!(told(&[Way::Synced]), None);
    let note = told(&[Way::Synced, Way::Buffered]).unwrap();
    assert!(note.starts_with("local buffered: "), "{note}");
}

#[test]
fn calls_by_the_clock_are_as_many_as_were_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan(
        Workload::Random4k,
        directory.path(),
        vec![Target::Local(Way::Buffered)],
    );
    (
        plan.settings.rate,
        plan.settings.seconds,
        plan.settings.depth,
    ) = (Some(100.0), 0.2, 1);
    let report = run(&plan).unwrap();
    for row in &report.rows {
        // At 0, 10, 20 ms and so on until 190 ms, if they can begin by the end.
        assert!(
            row.samples
                .iter()
                .all(|sample| sample.calls + sample.calls_left == 20),
            "{}",
            row.step
        );
        assert!(row.figures.late_p99_us.is_some());
    }
}

#[test]
fn a_rate_that_a_server_cannot_keep_ends_in_time_and_is_told() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = Answers {
        file_bytes: 2 << 20,
        delay: Duration::from_millis(50),
        copied: false,
        busy_poll: BusyPoll::OFF,
    };
    std::thread::spawn(move || respond::accept(&listener, answers));
    let url = format!("nfs://127.0.0.1:{port}/export?mountport={port}");
    let directory = tempfile::tempdir().unwrap();
    let targets = vec![Target::Server(url.parse().unwrap())];
    let mut plan = plan(Workload::Random4k, directory.path(), targets);
    let settings = &mut plan.settings;
    (settings.rate, settings.seconds, settings.depth) = (Some(1000.0), 0.2, 1);
    let report = run(&plan).unwrap();
    // Its bytes are not those of files, so nothing is read; one call after the other takes 50 ms.
    let row = &report.rows[0];
    assert_eq!(row.step, "write and COMMIT");
    for sample in &row.samples {
        assert_eq!(sample.calls + sample.calls_left, 200);
        assert!(sample.calls <= 5, "{sample:?}");
    }
    let page = Page::of(&report);
    assert!(page.markdown().contains("not begun %"));
    assert!(
        page.notes
            .iter()
            .any(|note| note.contains("write and COMMIT"))
    );
}

#[test]
fn a_run_that_is_told_to_stop_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(
        Workload::SeqWrite,
        directory.path(),
        vec![Target::Local(Way::Buffered)],
    );
    let stop = Stop::default();
    let told = stop.clone();
    let ended = run::run(&plan, &stop, &mut |event| {
        if matches!(event, run::Event::Measuring { .. }) {
            told.set();
        }
    });
    assert!(matches!(ended, Err(LoadError::Interrupted)), "{ended:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_server_that_became_slower_is_a_regression() {
    let report = |delay| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = Answers {
            file_bytes: 1 << 20,
            delay,
            copied: false,
            busy_poll: BusyPoll::OFF,
        };
        std::thread::spawn(move || respond::accept(&listener, answers));
        let url = format!("nfs://127.0.0.1:{port}/export?mountport={port}");
        let url: NfsUrl = url.parse().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut plan = plan(
            Workload::SeqWrite,
            directory.path(),
            vec![Target::Server(url)],
        );
        (plan.settings.size_bytes, plan.settings.record_bytes) = (256 << 10, 64 << 10);
        plan.settings.depth = 1;
        let mut report = run(&plan).unwrap();
        // Each of the two has a port of its own.
        report
            .rows
            .iter_mut()
            .for_each(|row| row.target = "the server".to_owned());
        report
    };
    let (fast, slow) = (report(Duration::ZERO), report(Duration::from_millis(50)));
    assert!(
        slow.rows[0].figures.p50_us.min >= 50_000.0,
        "{:?}",
        slow.rows
    );
    let found = compare(&fast, &slow, 0.05).unwrap();
    let worse = |figure: &str| {
        let found = found
            .figures
            .iter()
            .find(|one| one.figure == figure)
            .unwrap();
        found.change == Change::Worse
    };
    assert!(worse("MiB/s") && worse("p50 µs"), "{}", found.text());
    assert!(!compare(&slow, &fast, 0.05).unwrap().is_worse());
    // Against itself the generator was measured, too.
    assert!(fast.ceiling(&fast.rows[0]).unwrap() > 0.0);
}

#[test]
fn a_server_that_gives_other_bytes_is_found_out() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = Answers {
        file_bytes: 2 << 20,
        delay: Duration::ZERO,
        copied: false,
        busy_poll: BusyPoll::OFF,
    };
    std::thread::spawn(move || respond::accept(&listener, answers));
    let url = format!("nfs://127.0.0.1:{port}/export?mountport={port}");
    let directory = tempfile::tempdir().unwrap();
    let targets = vec![Target::Server(url.parse().unwrap())];
    let error = run(&plan(Workload::SeqRead, directory.path(), targets)).unwrap_err();
    assert!(matches!(error, LoadError::WrongBytes { .. }), "{error}");
}

#[test]
fn a_server_that_ends_is_told_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = Answers {
        file_bytes: 2 << 20,
        delay: Duration::ZERO,
        copied: false,
        busy_poll: BusyPoll::OFF,
    };
    std::thread::spawn(move || respond::accept(&listener, answers));
    // What it says it serves is served by somebody else, and it ends when it is told to by a file.
    let end = directory.path().join("end");
    let program = directory.path().join("server");
    let text = format!(
        "#!/bin/sh\necho listening 127.0.0.1:{port}\nuntil [ -e '{}' ]; do sleep 0.05; done; sleep 0.5\n",
        end.display()
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut plan = plan(Workload::Random4k, directory.path(), vec![own("direct")]);
    // Longer than anybody waits: only the end of the server ends it.
    (plan.program, plan.settings.seconds) = (program, 3600.0);
    (plan.settings.depth, plan.settings.cached) = (1, true);
    let mut failed = Vec::new();
    let ended = run::run(&plan, &Stop::default(), &mut |event| match event {
        run::Event::Measuring {
            step: "write and COMMIT",
            ..
        } => {
            std::fs::write(&end, "").unwrap();
        }
        run::Event::Failed { step, error, .. } => failed.push((step.to_owned(), error.to_string())),
        _ => {}
    });
    // The first step is refused for its bytes.
    assert!(
        matches!(ended, Err(LoadError::WrongBytes { .. })),
        "{ended:?}"
    );
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert!(
        failed[1..]
            .iter()
            .all(|(_, error)| error.contains("the server ended")),
        "{failed:?}"
    );
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan(
        Workload::SeqWrite,
        directory.path(),
        vec![Target::Local(Way::Buffered)],
    );
    plan.settings.size_bytes = 15 << 40;
    let error = plan.check().unwrap_err();
    assert!(matches!(error, LoadError::NoRoom { .. }), "{error}");
    plan.settings.size_bytes = 1 << 20;
    plan.targets.clear();
    assert!(matches!(plan.check(), Err(LoadError::Setting(_))));
    plan.targets.push(own("direct"));
    plan.program = "/nowhere/penstock".into();
    let error = run(&plan).unwrap_err();
    assert!(matches!(error, LoadError::Start { .. }), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
