//! A responder that touches no file: it reads calls, throws their data away and answers from one buffer.
//!
//! What a load reaches against it is what load generator, loopback and one server core can carry at most. A server's
//! figure near it says more about the load than about the server.

use std::io::{IoSlice, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, Result, bail};
use nfs_wire::mount3;
use nfs_wire::nfs3::Procedure;

use super::input::Input;

/// The longest READ it answers, in bytes.
const DATA_BYTES: usize = 1 << 20;
/// Larger than any record but a WRITE's.
const AHEAD_BYTES: usize = 256;

/// Answers connections on `port` of loopback, one after another, until the process is ended.
///
/// # Errors
/// The port is taken.
pub fn serve(port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).context("listening")?;
    for stream in listener.incoming() {
        // A connection at a time would starve MOUNT, which the load makes beside its own.
        let stream = stream?;
        std::thread::spawn(move || answer(stream));
    }
    Ok(())
}

fn answer(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Input::new(stream.try_clone()?, AHEAD_BYTES);
    let data = vec![0x5a; DATA_BYTES];
    let mut head = Vec::new();
    loop {
        head.clear();
        let len = reply(&mut input, &mut head)?;
        let mark = u32::try_from(head.len() - 4 + len)? | 1 << 31;
        head[..4].copy_from_slice(&mark.to_be_bytes());
        let mut slices: &mut [IoSlice<'_>] = &mut [IoSlice::new(&head), IoSlice::new(&data[..len])];
        while !slices.is_empty() {
            let written = stream.write_vectored(slices)?;
            IoSlice::advance_slices(&mut slices, written);
        }
    }
}

/// Takes one call and composes the head of its reply behind room for the record mark; gives the length of
/// the data that follows.
fn reply(input: &mut Input, out: &mut Vec<u8>) -> Result<usize> {
    let xid = input.word()?;
    let (_call, _rpc) = (input.word()?, input.word()?);
    let (program, _version, procedure) = (input.word()?, input.word()?, input.word()?);
    for _credential_and_verifier in 0..2 {
        let (_flavor, len) = (input.word()?, input.word()?);
        input.skip(usize::try_from(len.div_ceil(4) * 4)?)?;
    }
    let mut words = |words: &[u32]| {
        for word in words {
            out.extend_from_slice(&word.to_be_bytes());
        }
    };
    // The mark's place, then REPLY, MSG_ACCEPTED, AUTH_NONE, SUCCESS and a status of zero.
    words(&[0, xid, 1, 0, 0, 0, 0, 0]);
    let handle = [8, 0, 1];
    let mut data = 0;
    if program == mount3::PROGRAM {
        words(&handle);
        words(&[0]);
    } else if procedure == Procedure::Lookup as u32 {
        words(&handle);
        words(&[0, 0]);
    } else if procedure == Procedure::Create as u32 {
        words(&[1]);
        words(&handle);
        words(&[0, 0, 0]);
    } else if procedure == Procedure::Fsinfo as u32 {
        let most = u32::try_from(DATA_BYTES)?;
        // No attributes; READ and WRITE sizes; READDIR; the largest file; the clock's step; properties.
        words(&[
            0,
            most,
            most,
            1,
            most,
            most,
            1,
            4096,
            0,
            u32::MAX,
            0,
            1,
            0x1b,
        ]);
    } else if procedure == Procedure::Read as u32 {
        let count = arguments(input)?;
        data = usize::try_from(count)?;
        if data > DATA_BYTES {
            bail!("a READ of {count} bytes");
        }
        words(&[0, count, 0, count]);
    } else if procedure == Procedure::Write as u32 {
        let count = arguments(input)?;
        // No attributes; all of it, FILE_SYNC; the verifier.
        words(&[0, 0, count, 2, 0, 0]);
    } else if procedure == Procedure::Commit as u32 {
        words(&[0, 0, 0, 0]);
    } else {
        bail!("procedure {procedure} is not answered");
    }
    input.finish_record()?;
    Ok(data)
}

/// The count of a READ or WRITE.
fn arguments(input: &mut Input) -> Result<u32> {
    let handle = input.word()?;
    input.skip(usize::try_from(handle.div_ceil(4) * 4)?)?;
    let (_high, _low) = (input.word()?, input.word()?);
    input.word()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::modes::stream::{self, Job};
    use crate::modes::work::{Direction, Work};
    use crate::servers::Place;

    fn place() -> Place {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                std::thread::spawn(move || answer(stream));
            }
        });
        Place {
            nfs: address,
            mount: address,
            export: "/".to_owned(),
        }
    }

    fn job(work: Work) -> Job {
        Job {
            work,
            depth: 32,
            name: "file".to_owned(),
            file_bytes: 96 << 20,
            at_most: None,
            seed: 1,
            data: crate::modes::content::Data::Noise,
            checked: false,
        }
    }

    #[test]
    fn every_workload_moves_what_it_says() {
        let place = place();
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
    fn wrong_bytes_end_a_read() {
        let mut job = job(Work::SeqRead1m);
        job.checked = true;
        let error = stream::run(&place(), &job, &AtomicU64::new(0)).unwrap_err();
        assert!(format!("{error:#}").contains("wrong bytes"), "{error:#}");
    }
}
