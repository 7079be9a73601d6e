//! Modes, floors and rules changed by `penstock ctl io` while calls are under way on one file: each
//! call is answered, each byte is right, and each call is counted once, in one mode.

use std::cell::{Cell as Shared, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::nfs3::{FileHandle, StableHow};
use serde::Deserialize;

use super::bed::{Bed, Client, DEPTH, Ground, Mode, pipelined};
use super::cells::{Cells, Owner};
use super::figures::{Control, Sum};
use crate::host::Context;
use crate::host::wire::{block_on, ok};

/// Size of the file in bytes.
const SIZE: u64 = 512 << 10;
/// The least number of changes and of WRITEs under them.
const CHANGES_MIN: u64 = 30;
const WRITES_MIN: u64 = 2000;
const NAME: &str = "changing.ckpt";

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let mut random = Rng::with_seed(context.seed);
    let mut bed = Bed::new(context, Ground::Xfs, 320)?;
    let control = Control::new(&context.lab.program, bed.state());
    let export = Mode::Direct.export();
    let cells = Arc::new(Cells::new(&mut random, SIZE, false));
    std::fs::write(bed.path(NAME), cells.initial())?;
    let operator = Operator::start(
        Control::new(&context.lab.program, bed.state()),
        random.fork(),
    )?;
    let calls = block_on(under_changes(&bed, &cells, &operator, random.fork()));
    // Whichever failed first: the other may have failed of it.
    let changes = operator.stop();
    let (reads, writes) = calls?;
    let changes = changes.context("ctl io")?;
    let figures = control.figures()?;
    for (operation, sent) in [("read", reads), ("write", writes)] {
        let counted = figures.sum(&export, operation, None).calls;
        ensure!(
            counted == sent,
            "{sent} {operation}s were answered, {counted} counted"
        );
        for mode in Mode::ALL {
            let sum = figures.sum(&export, operation, Some(mode));
            ensure!(
                sum.calls > 0 && sum.moved_as(mode) > 0,
                "{operation}s as {}: {sum:?}",
                mode.word()
            );
        }
    }
    let answers = foretold(&bed, &control).context("ctl io --why")?;
    bed.stop()?;
    Ok(format!(
        "{writes} WRITEs and {reads} READs under {changes} changes, {answers} forecasts came true"
    ))
}

async fn under_changes(
    bed: &Bed,
    cells: &Arc<Cells>,
    operator: &Operator,
    random: Rng,
) -> Result<(u64, u64)> {
    let client = Client::new(bed.address, Mode::Direct).await?;
    let share = Rc::new(Share {
        file: client.find(NAME).await?,
        client,
        cells: Arc::clone(cells),
        random: RefCell::new(random),
        written: Shared::new(0),
        read: Shared::new(0),
        changes: Arc::clone(&operator.changes),
    });
    let (worker, end) = (Rc::clone(&share), Rc::clone(&share));
    let until_enough = std::iter::from_fn(move || (!end.enough()).then_some(()));
    pipelined(DEPTH, until_enough, move |()| {
        let share = Rc::clone(&worker);
        async move { share.step().await }
    })
    .await?;
    let (client, file) = (&share.client, &share.file);
    ok("COMMIT", client.nfs.commit(file, 0, 0)).await?;
    let expected = cells.begin_read(0..cells.size());
    let (data, _) = client.read(file, 0, cells.size() as u32).await?;
    expected.check(&data).context("at the end")?;
    let expected = cells.begin_read(0..cells.size());
    expected
        .check(&std::fs::read(bed.path(NAME))?)
        .context("at the end, on the server's machine")?;
    Ok((share.read.get() + 1, share.written.get()))
}

struct Share {
    client: Client,
    file: FileHandle,
    cells: Arc<Cells>,
    random: RefCell<Rng>,
    written: Shared<u64>,
    read: Shared<u64>,
    changes: Arc<std::sync::atomic::AtomicU64>,
}

impl Share {
    fn enough(&self) -> bool {
        self.written.get() >= WRITES_MIN && self.changes.load(Ordering::Relaxed) >= CHANGES_MIN
    }

    async fn step(&self) -> Result<()> {
        let (start, len, claimed) = {
            let random = &mut self.random.borrow_mut();
            let start = random.u64(..self.cells.size());
            let len = 1 + random.u64(..60_000);
            let write = random.u64(..2) == 0;
            let claimed = if write {
                self.cells.claim(random, Owner::Remote)
            } else {
                None
            };
            (start, len.min(self.cells.size() - start), claimed)
        };
        if let Some((cell, data)) = claimed {
            let (at, data) = (cell.file.start, Bytes::from(data));
            let stable = StableHow::Unstable;
            self.client.write(&self.file, at, stable, data).await?;
            cell.acknowledge();
            self.written.set(self.written.get() + 1);
        } else {
            let expected = self.cells.begin_read(start..start + len);
            let (data, _) = self.client.read(&self.file, start, len as u32).await?;
            expected.check(&data)?;
            self.read.set(self.read.get() + 1);
        }
        Ok(())
    }
}

/// A thread that changes the policy of the export again and again.
struct Operator {
    end: Arc<AtomicBool>,
    changes: Arc<std::sync::atomic::AtomicU64>,
    thread: JoinHandle<Result<()>>,
}

impl Operator {
    fn start(control: Control, mut random: Rng) -> Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        let changes = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (stop, count) = (Arc::clone(&end), Arc::clone(&changes));
        let thread = std::thread::Builder::new()
            .name("operator".to_owned())
            .spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let words = change(&mut random);
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    let made = control.tell(&words).with_context(|| words.join(" "));
                    // The calls go on until there were enough changes: they are not to wait for ever.
                    if made.is_err() {
                        count.store(CHANGES_MIN, Ordering::Relaxed);
                    }
                    made?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })?;
        Ok(Self {
            end,
            changes,
            thread,
        })
    }

    fn stop(self) -> Result<u64> {
        self.end.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the operator panicked"))??;
        Ok(self.changes.load(Ordering::Relaxed))
    }
}

/// A random change, as words of the command line; modes also by the kernel's numbers.
fn change(random: &mut Rng) -> Vec<String> {
    const MODES: [&str; 6] = ["buffered", "dontcache", "direct", "0", "1", "2"];
    const RULES: [&str; 5] = [
        "op=write,max=4KiB",
        "min=16KiB",
        "op=read,max=8KiB",
        "name=*.ckpt,min=3000,max=5000",
        "client=127.0.0.0/8,op=write,min=6000",
    ];
    let mut words = vec!["io".to_owned(), Mode::Direct.export()];
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    if random.u64(..2) == 0 {
        add("--read", MODES[random.usize(..MODES.len())].to_owned());
    }
    if random.u64(..2) == 0 {
        add("--write", MODES[random.usize(..MODES.len())].to_owned());
    }
    // Seldom: each WRITE is slow then.
    let floor = if random.u64(..5) == 0 {
        "data-sync"
    } else {
        "asked"
    };
    add("--stable", floor.to_owned());
    for _ in 0..random.u64(..4) {
        let rule = RULES[random.usize(..RULES.len())];
        let mode = MODES[random.usize(..3)];
        add("--rule", format!("{rule},mode={mode}"));
    }
    if random.u64(..3) == 0 && !words.iter().any(|word| word == "--rule") {
        words.push("--no-rules".to_owned());
    }
    words
}

/// What `ctl io --why` says, as far as it can be held against the counters.
#[derive(Debug, Deserialize)]
struct Why {
    mode: String,
    because: String,
    segments: Vec<WhySegment>,
}

#[derive(Debug, Deserialize)]
struct WhySegment {
    file: std::ops::Range<u64>,
    mode: String,
}

/// A policy, a call, and the mode that has to be decided.
struct Forecast {
    rules: &'static [&'static str],
    operation: &'static str,
    offset: u64,
    len: u32,
    mode: Mode,
}

const FORECASTS: [Forecast; 8] = [
    forecast(&[], "write", 100, 100_000, Mode::Direct),
    forecast(&[], "read", 4096, 65_536, Mode::Direct),
    forecast(&[], "read", 513, 1000, Mode::Direct),
    forecast(
        &["max=100000,mode=buffered"],
        "write",
        0,
        100_000,
        Mode::Buffered,
    ),
    forecast(
        &["max=100000,mode=buffered"],
        "write",
        0,
        100_001,
        Mode::Direct,
    ),
    forecast(&["op=write,mode=buffered"], "read", 0, 5000, Mode::Direct),
    forecast(
        &["name=*.txt,mode=buffered", "name=*.ckpt,mode=dontcache"],
        "read",
        77,
        30_000,
        Mode::DontCache,
    ),
    forecast(
        &[
            "client=10.0.0.0/8,mode=buffered",
            "client=127.0.0.1/32,mode=dontcache",
        ],
        "write",
        77,
        30_000,
        Mode::DontCache,
    ),
];

const fn forecast(
    rules: &'static [&'static str],
    operation: &'static str,
    offset: u64,
    len: u32,
    mode: Mode,
) -> Forecast {
    Forecast {
        rules,
        operation,
        offset,
        len,
        mode,
    }
}

/// What `--why` says of a call is what the counters say once it was made.
fn foretold(bed: &Bed, control: &Control) -> Result<usize> {
    let export = Mode::Direct.export();
    // As clients see it: that names the export, too.
    let path = format!("{export}/{NAME}");
    for case in &FORECASTS {
        let mut words = vec!["io", &export, "--read", "direct", "--write", "direct"];
        words.extend(["--stable", "asked"]);
        // One call is compared with what is foretold of one.
        words.extend(["--read-ahead", "0"]);
        if case.rules.is_empty() {
            words.push("--no-rules");
        }
        for rule in case.rules {
            words.extend(["--rule", rule]);
        }
        control.tell(&words)?;
        // Rules with a name hold from the next time somebody looks the file up.
        block_on(async {
            let client = Client::new(bed.address, Mode::Direct).await?;
            client.find(NAME).await
        })?;
        let (offset, len) = (case.offset.to_string(), case.len.to_string());
        let why: Why = control.ask(&[
            "io",
            "--why",
            &path,
            "--op",
            case.operation,
            "--offset",
            &offset,
            "--size",
            &len,
            "--client",
            "127.0.0.1",
        ])?;
        let before = control.figures()?;
        block_on(make(bed, case))?;
        let after = control.figures()?;
        let what = || {
            format!(
                "{} of {len} at {offset} under {:?}",
                case.operation, case.rules
            )
        };
        ensure!(
            why.mode == case.mode.word(),
            "{}: --why says {} because of {}, should be {}",
            what(),
            why.mode,
            why.because,
            case.mode.word()
        );
        let sum = |figures: &super::figures::Figures| {
            figures.sum(&export, case.operation, Some(case.mode))
        };
        compare(&why, &sum(&before), &sum(&after)).with_context(what)?;
    }
    Ok(FORECASTS.len())
}

async fn make(bed: &Bed, case: &Forecast) -> Result<()> {
    let client = Client::new(bed.address, Mode::Direct).await?;
    let file = client.find(NAME).await?;
    if case.operation == "read" {
        let (data, _) = client.read(&file, case.offset, case.len).await?;
        ensure!(data.len() == case.len as usize, "{} bytes", data.len());
    } else {
        let data = Bytes::from(vec![7; case.len as usize]);
        let stable = StableHow::Unstable;
        client.write(&file, case.offset, stable, data).await?;
    }
    Ok(())
}

/// Checks that one call went in the mode that was foretold, and as many of its bytes in each way as were
/// foretold.
fn compare(why: &Why, before: &Sum, after: &Sum) -> Result<()> {
    ensure!(
        after.calls == before.calls + 1,
        "{} calls counted in the mode foretold",
        after.calls - before.calls
    );
    for mode in Mode::ALL {
        let of_mode = why.segments.iter().filter(|s| s.mode == mode.word());
        let foretold: u64 = of_mode.map(|s| s.file.end - s.file.start).sum();
        let moved = after.moved_as(mode) - before.moved_as(mode);
        ensure!(
            moved == foretold,
            "{moved} bytes moved as {}, {foretold} foretold",
            mode.word()
        );
    }
    Ok(())
}
