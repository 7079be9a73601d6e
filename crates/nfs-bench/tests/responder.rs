//! The measured loop against the responder that touches no file.

use nfs_bench::modes::stream::{self, Checked, Job};
use nfs_bench::modes::work::{Direction, Work};
use nfs_bench::servers::Place;
use nfs_load::respond;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

fn place(copied: bool) -> Place {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let answers = respond::Answers {
        file_bytes: 96 << 20,
        delay: Duration::ZERO,
        copied,
        busy_poll: Default::default(),
    };
    std::thread::spawn(move || respond::accept(&listener, answers));
    Place {
        nfs: address,
        mount: address,
        export: "/".to_owned(),
    }
}

fn job(work: Work) -> Job {
    Job {
        work,
        clients: 1,
        depth: 32,
        name: "file".to_owned(),
        file_bytes: 96 << 20,
        at_most: None,
        seed: 1,
        shuffled: 1,
        data: nfs_bench::content::Data::Noise,
        checked: Checked::Nothing,
    }
}

#[test]
fn every_workload_moves_what_it_says() {
    let place = place(false);
    for work in Work::ALL.into_iter().filter(|work| !work.is_random()) {
        let progress = AtomicU64::new(0);
        let outcome = stream::run(&place, &job(work), &progress).unwrap();
        let calls = (96 << 20) / u64::from(work.call_bytes());
        assert_eq!(outcome.calls, calls, "{}", work.name());
        assert_eq!(outcome.bytes, calls * u64::from(work.call_bytes()));
        assert_eq!(progress.into_inner(), outcome.bytes);
        assert!(outcome.p50_us <= outcome.p99_us && outcome.p99_us <= outcome.max_us);
        if work.direction() == Direction::Write {
            assert!(outcome.commit_seconds > 0.0);
        }
    }
}

#[test]
fn clients_that_take_turns_move_the_file_together() {
    let calls = (96 << 20) / 47_008;
    for work in [Work::Write47008, Work::Read47008] {
        let (mut job, progress) = (job(work), AtomicU64::new(0));
        job.clients = 4;
        let outcome = stream::run(&place(false), &job, &progress).unwrap();
        assert_eq!(outcome.calls, calls, "{}", work.name());
        assert_eq!(outcome.bytes, calls * 47_008);
        assert_eq!(progress.into_inner(), outcome.bytes);
    }
}

#[test]
fn wrong_bytes_end_a_read() {
    let mut job = job(Work::SeqRead1m);
    job.checked = Checked::Some;
    let error = stream::run(&place(true), &job, &AtomicU64::new(0)).unwrap_err();
    assert!(format!("{error:#}").contains("wrong bytes"), "{error:#}");
}
