//! Whole runs: on this host's file system, and against the responder that touches no file.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use nfs_client::{MountOptions, NfsUrl};
use nfs_load::compare::{Change, compare};
use nfs_load::error::LoadError;
use nfs_load::pace::Stop;
use nfs_load::report::Report;
use nfs_load::respond::{self, Answers};
use nfs_load::run::{self, Plan};
use nfs_load::target::Target;
use nfs_load::workload::Workload;

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
        command: "penstock bench".to_owned(),
        began: String::new(),
        version: "0".to_owned(),
    }
}

fn run(plan: &Plan) -> Result<Report, LoadError> {
    run::run(plan, &Stop::default(), &mut |_event| {})
}

#[test]
fn every_workload_runs_on_this_host_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for workload in Workload::ALL {
        let plan = plan(workload, directory.path(), vec![Target::Local(false)]);
        let report = run(&plan).unwrap();
        let steps = workload.steps(&plan.settings).unwrap();
        for step in &steps {
            let row = report.row(&step.name, "local buffered").unwrap();
            assert_eq!(row.samples.len(), 2, "{}: {}", workload.name(), step.name);
            assert!(row.samples.iter().all(|sample| sample.calls > 0));
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
        vec![Target::Local(false)],
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
        vec![Target::Local(false)],
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
fn calls_by_the_clock_are_as_many_as_were_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan(
        Workload::Random4k,
        directory.path(),
        vec![Target::Local(false)],
    );
    (
        plan.settings.rate,
        plan.settings.seconds,
        plan.settings.depth,
    ) = (Some(100.0), 0.2, 1);
    let report = run(&plan).unwrap();
    for row in &report.rows {
        // At 0, 10, 20 ms and so on until 190 ms, however long each takes.
        assert!(
            row.samples.iter().all(|sample| sample.calls == 20),
            "{}",
            row.step
        );
        assert!(row.figures.late_p99_us.is_some());
    }
}

#[test]
fn a_run_that_is_told_to_stop_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(
        Workload::SeqWrite,
        directory.path(),
        vec![Target::Local(false)],
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
    };
    std::thread::spawn(move || respond::accept(&listener, answers));
    let url = format!("nfs://127.0.0.1:{port}/export?mountport={port}");
    let directory = tempfile::tempdir().unwrap();
    let targets = vec![Target::Server(url.parse().unwrap())];
    let error = run(&plan(Workload::SeqRead, directory.path(), targets)).unwrap_err();
    assert!(matches!(error, LoadError::WrongBytes { .. }), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan(
        Workload::SeqWrite,
        directory.path(),
        vec![Target::Local(false)],
    );
    plan.settings.size_bytes = 15 << 40;
    let error = plan.check().unwrap_err();
    assert!(matches!(error, LoadError::NoRoom { .. }), "{error}");
    plan.settings.size_bytes = 1 << 20;
    plan.targets.clear();
    assert!(matches!(plan.check(), Err(LoadError::Setting(_))));
    plan.targets.push(Target::Own("direct"));
    plan.program = "/nowhere/penstock".into();
    let error = run(&plan).unwrap_err();
    assert!(matches!(error, LoadError::Start { .. }), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
