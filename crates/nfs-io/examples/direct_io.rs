//! What moving a file costs, without a network: processor time for each GiB, and memory.
//!
//! ```text
//! cargo run --release -p nfs-io --example direct_io -- \
//!     FILE read|write buffered|dontcache|direct uring|threads OP_KIB IN_FLIGHT TOTAL_MIB BUDGET_MIB
//! ```
//!
//! Operations go through the file in order, again from its start where it ends; `write` fills it
//! with zeros up to its present size. As in a server, the bytes read are copied once, as to a
//! socket, and the bytes to write come by a copy. With a budget of 64 MiB and more, buffers are cut
//! from huge pages.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use nfs_io::engine::{Engine, UringLimits};
use nfs_io::fs::{self, OFlags};
use nfs_io::identity::ServerIdentity;
use nfs_io::{Budget, Buf, BufferPool, Creds, Keep, Lane, Mode, Op, Pool, PoolLimits, WriteSync};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// Bytes moved at most between a buffer and a stand-in for the socket at a time: as much as a socket takes at
/// once.
const SCRATCH_BYTES: usize = 256 << 10;

/// One measured run: what is moved how, and the engine and buffers that do it.
struct Job {
    file: Arc<OwnedFd>,
    file_bytes: u64,
    write: bool,
    mode: Mode,
    op_bytes: usize,
    total_bytes: u64,
    engine: Engine,
    pool: BufferPool,
    creds: Creds,
    /// Where the next operation begins, in bytes from the start of the run, which goes through the file as
    /// often as it must.
    next: Cell<u64>,
    scratch: RefCell<Vec<u8>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [
        path,
        what,
        mode,
        engine,
        op_kib,
        in_flight,
        total_mib,
        budget_mib,
    ] = <[String; 8]>::try_from(arguments).map_err(|_| "eight arguments: see the source")?;
    let mode = [Mode::Buffered, Mode::DontCache, Mode::Direct]
        .into_iter()
        .find(|known| known.word() == mode)
        .ok_or("no such mode")?;
    let direct = if mode == Mode::Direct {
        OFlags::DIRECT
    } else {
        OFlags::empty()
    };
    let cached = std::fs::File::options().read(true).write(true).open(path)?;
    let file = fs::reopen(cached.as_fd(), OFlags::RDWR | direct)?;
    let engine = match engine.as_str() {
        "uring" => Engine::new_uring(UringLimits::default())?,
        _ => Engine::threads(Pool::new(PoolLimits::default())),
    };
    let job = Job {
        file: Arc::new(file),
        file_bytes: cached.metadata()?.len(),
        write: what == "write",
        mode,
        op_bytes: op_kib.parse::<usize>()? << 10,
        total_bytes: total_mib.parse::<u64>()? << 20,
        engine,
        pool: BufferPool::new(Budget::new(budget_mib.parse::<u64>()? << 20)),
        creds: ServerIdentity::current().creds().clone(),
        next: Cell::new(0),
        scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
    };
    // The first round makes the buffers; it is not counted.
    let gib = (job.total_bytes as f64) / f64::from(1 << 30);
    let in_flight = in_flight.parse()?;
    let job = run(job, in_flight)?;
    let (before, begun) = (processor_seconds()?, Instant::now());
    let job = run(job, in_flight)?;
    let (busy, took) = (processor_seconds()? - before, begun.elapsed().as_secs_f64());
    println!(
        "{:.3} CPU s/GiB  {:.2} s  {:.2} GiB/s  peak {} KiB  huge {} KiB  budget peak {} KiB",
        busy / gib,
        took,
        gib / took,
        status("/proc/self/status", "VmHWM:")?,
        status("/proc/self/smaps_rollup", "AnonHugePages:")?,
        job.pool.budget().peak() >> 10,
    );
    Ok(())
}

/// Moves all bytes once, with `in_flight` operations at once.
fn run(job: Job, in_flight: usize) -> Result<Job, Box<dyn Error>> {
    job.next.set(0);
    let job = Rc::new(job);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let driven = job.clone();
        let driver = tokio::task::spawn_local(async move { driven.engine.drive().await });
        let workers: Vec<_> = (0..in_flight)
            .map(|_| tokio::task::spawn_local(work(job.clone())))
            .collect();
        for worker in workers {
            worker.await??;
        }
        driver.abort();
        Ok::<(), Box<dyn Error>>(())
    })?;
    drop(local);
    Rc::into_inner(job).ok_or_else(|| "a worker is left".into())
}

async fn work(job: Rc<Job>) -> nfs_io::Result<()> {
    loop {
        let at = job.next.get();
        if at >= job.total_bytes {
            return Ok(());
        }
        job.next.set(at + job.op_bytes as u64);
        let whole = job.file_bytes - job.file_bytes % job.op_bytes as u64;
        let mut buf = job
            .pool
            .take(job.op_bytes)
            .await
            .ok_or(nfs_io::Errno::NOMEM)?;
        if job.write {
            fill(&job, &mut buf);
        }
        let op = op(&job, at % whole.max(1), buf);
        let done = job.engine.submit(op, &job.creds, Lane(1)).await;
        let moved = done.result?;
        assert_eq!(moved, job.op_bytes);
        if let (false, Some(buf)) = (job.write, done.buf) {
            copy_out(&job, &buf);
        }
    }
}

fn op(job: &Job, offset: u64, buf: Buf) -> Op {
    let (file, range, mode, keep) = (job.file.clone(), 0..job.op_bytes, job.mode, Keep::none());
    if job.write {
        let sync = WriteSync::None;
        Op::Write {
            file,
            offset,
            buf,
            range,
            sync,
            mode,
            may_wait: false,
            keep,
        }
    } else {
        Op::Read {
            file,
            offset,
            buf,
            range,
            mode,
            may_wait: false,
            keep,
        }
    }
}

fn fill(job: &Job, buf: &mut Buf) {
    let scratch = job.scratch.borrow();
    for part in buf.chunks_mut(SCRATCH_BYTES) {
        part.copy_from_slice(&scratch[..part.len()]);
    }
}

fn copy_out(job: &Job, buf: &Buf) {
    let mut scratch = job.scratch.borrow_mut();
    for part in buf.chunks(SCRATCH_BYTES) {
        scratch[..part.len()].copy_from_slice(part);
        std::hint::black_box(&mut *scratch);
    }
}

/// Time that all threads of the process, the ring's and ended ones too, were on a processor.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name before may hold anything; user and system time are the 12th and 13th behind it.
    let (_, behind_name) = stat.rsplit_once(')').ok_or("no name")?;
    let times = behind_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.map(str::parse::<u64>).sum::<Result<_, _>>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn first_number(text: &str) -> Result<u64, Box<dyn Error>> {
    Ok(text.split_whitespace().next().ok_or("empty")?.parse()?)
}

/// A number of KiB in one of the kernel's tables.
fn status(path: &str, name: &str) -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find(|line| line.starts_with(name));
    first_number(line.ok_or("no such line")?.trim_start_matches(name))
}
