use nfs_client::NfsUrl;

use super::*;
use crate::own::Own;
use crate::place::Way;
use crate::report::tests::sample;

fn plan(workload: Workload, targets: Vec<Target>) -> Plan {
    Plan {
        workload,
        settings: workload.defaults(),
        targets,
        repetitions: 1,
        directory: std::env::temp_dir(),
        program: PathBuf::from("/nowhere"),
        options: MountOptions::default(),
        command: String::new(),
        memory_bytes: None,
        began: String::new(),
        version: String::new(),
        commit: None,
    }
}

fn own(words: &str) -> Target {
    Target::Own(Own::parse(words).unwrap())
}

/// What a plan is refused with, changed as `change` says.
fn refusal(workload: Workload, targets: &[Target], change: impl FnOnce(&mut Plan)) -> String {
    let mut plan = plan(workload, targets.to_vec());
    change(&mut plan);
    let error = plan.check().unwrap_err();
    assert!(matches!(error, LoadError::Setting(_)), "{error}");
    error.to_string()
}

#[test]
fn what_cannot_be_compared_or_measured_is_refused_with_the_cure() {
    let ours = [own("auto")];
    let none = |_: &mut Plan| {};
    let told = |text: String, words: &str| assert!(text.contains(words), "{text}");
    told(refusal(Workload::SeqRead, &[], none), "name 1 to 16");
    let many = vec![own("auto"); limits::TARGETS_MAX + 1];
    told(refusal(Workload::SeqRead, &many, none), "name 1 to 16");
    let never = refusal(Workload::SeqRead, &ours, |plan| plan.repetitions = 0);
    told(never, "--repetitions: give 1 to 99");
    let untar = refusal(Workload::Untar, &[Target::Local(Way::Direct)], none);
    told(untar, "give --local=buffered");
    let synced = refusal(Workload::SeqRead, &[Target::Local(Way::Synced)], none);
    told(synced, "it makes no names");
    let little = |plan: &mut Plan| plan.memory_bytes = Some(1 << 20);
    told(refusal(Workload::SeqRead, &ours, little), "at least 64 MiB");
    let limited = |plan: &mut Plan| plan.memory_bytes = Some(512 << 20);
    for free in [
        Target::Mounted(PathBuf::from("/mnt")),
        Target::Server(NfsUrl::default()),
        Target::Local(Way::Buffered),
    ] {
        let both = [own("auto"), free];
        let text = refusal(Workload::SeqRead, &both, limited);
        told(text, "would have all there is");
    }
    let beside = [own("auto"), Target::Local(Way::Direct)];
    let mut both = plan(Workload::SeqRead, beside.to_vec());
    both.memory_bytes = Some(512 << 20);
    assert!(!matches!(both.check(), Err(LoadError::Setting(_))));
}

#[test]
fn files_that_do_not_fit_are_not_begun() {
    let mut large = plan(Workload::SeqRead, vec![own("auto")]);
    large.settings.size_bytes = limits::FILE_BYTES_MAX;
    let error = large.check().unwrap_err();
    assert!(matches!(error, LoadError::NoRoom { .. }), "{error}");
    assert!(error.to_string().contains("give --size or --directory"));
}

#[test]
fn what_was_measured_while_the_cores_were_far_apart_is_used_where_nothing_else_is() {
    let taken = |rates: &[(u64, bool)]| -> Vec<Taken> {
        let one = |&(mib, is_near): &(u64, bool)| Taken {
            done: load::Done {
                own: sample(mib, 1.0),
                beside: None,
                series: None,
            },
            is_near,
        };
        rates.iter().map(one).collect()
    };
    let mut cores = Cores::choose();
    let mut used = |rates: &[(u64, bool)]| {
        let cell = Cell::of(taken(rates), 2, &mut cores);
        let mib = cell.own.iter().map(|sample| sample.bytes >> 20);
        mib.collect::<Vec<_>>()
    };
    assert_eq!(used(&[(1, true), (2, true)]), [1, 2]);
    assert_eq!(used(&[(1, false), (2, true), (3, true), (4, true)]), [2, 3]);
    assert_eq!(
        used(&[(1, false), (2, false), (3, true), (4, false)]),
        [3, 1]
    );
    assert_eq!(used(&[(1, false)]), [1]);
    if let Some(apart) = cores.apart() {
        assert_eq!((apart.left_out, apart.used), (1 + 2, 1 + 1));
    }
    let mut measured = Measured::new(&[], &[], 2, 0);
    measured.cells = vec![Ok(taken(&[(1, true), (2, true)])), Err(LoadError::Silent)];
    assert!(!measured.lacks());
    measured.cells.push(Ok(taken(&[(1, true), (2, false)])));
    assert!(measured.lacks());
}
