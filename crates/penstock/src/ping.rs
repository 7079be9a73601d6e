//! `penstock ping`: how fast a server answers a call that does nothing.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use hdrhistogram::Histogram;
use nfs_client::connection::{Procedure, Reconnect, SourcePort};
use nfs_client::mount3;
use nfs_client::nfs3;
use nfs_client::portmap;
use nfs_client::{Client, ClientError, Connection, Identity};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::limits::PING_NANOSECONDS_MAX;
use crate::results::{self, Failure};
use crate::session::{self, Common, Session};
use crate::show;
use crate::showmount::Server;

/// How long a call waits for its answer unless --timeout says otherwise.
const WAIT_DEFAULT: Duration = Duration::from_secs(5);

/// Ask an NFS server to do nothing, again and again, and show how long that takes
///
/// Sends NULL calls, one at a time, and prints the time of each; at the end, and
/// at Ctrl-C, their number, minimum, average, median, 99th percentile and
/// maximum, and how they are spread; with -q nothing else. Exit code 1 if nothing
/// answered.
///
/// Examples:
///
///   penstock ping -c 5 nfs://localhost:20049/
///
///   penstock ping -q -c 1000 -i 0 server
///
///   penstock ping --json -c 100 -i 0.01 --program mount server
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Send so many calls; without it, until Ctrl-C
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Wait so many seconds between calls; 0 sends the next when the answer is there
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = pause)]
    interval: Duration,

    /// Which program to call
    #[arg(long, value_enum, default_value_t = Program::Nfs)]
    program: Program,

    #[command(flatten)]
    common: Common,

    /// The server: HOST, HOST:PORT, or a URL whose path does not matter
    #[arg(value_name = "HOST|URL")]
    server: Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Program {
    /// NFS, of the version that the URL names
    Nfs,
    /// MOUNT version 3
    Mount,
    /// The portmapper, at port 111
    Portmap,
}

fn pause(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => session::seconds(text),
    }
}

/// What the calls of a run came to.
struct Measured {
    sent: u64,
    answered: u64,
    sum: Duration,
    /// Times of the answers, in nanoseconds.
    times: Histogram<u64>,
}

impl Args {
    /// Calls, and prints what came of it.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            let (connection, procedure) = match self.connect(session).await {
                Ok(found) => found,
                Err(error) => {
                    session.failed(&self.server.0, error);
                    return Ok(());
                }
            };
            let mut measured = Measured {
                sent: 0,
                answered: 0,
                sum: Duration::ZERO,
                times: Histogram::new_with_max(PING_NANOSECONDS_MAX, 3)?,
            };
            let stop = session.stop();
            tokio::select! {
                () = self.calls(&connection, procedure, &mut measured) => {}
                () = stop.asked() => {}
            }
            self.print(&connection, &measured)?;
            if measured.answered == 0 {
                session.fail();
            }
            Ok(())
        })
    }

    async fn connect(&self, session: &Session) -> Result<(Connection, Procedure), ClientError> {
        let mut options = session.mount_options().clone();
        // A call that got no answer is counted, and the next one goes out over a connection made anew.
        options.connect.reconnect = Reconnect::ForNewCalls;
        if !self.common.has_timeout() {
            options.connect.call_timeout = WAIT_DEFAULT;
        }
        let url = &self.server.0;
        let null = |program, version| Procedure {
            program,
            version,
            number: 0,
        };
        match self.program {
            Program::Nfs => {
                let connection = Client::nfs_program(url, &options).await?;
                let version = url.version.program_version();
                Ok((connection, null(nfs3::PROGRAM, version)))
            }
            Program::Mount => {
                let mount = Client::mount_program(url, &options).await?;
                let procedure = null(mount3::PROGRAM, mount3::VERSION);
                Ok((mount.connection().clone(), procedure))
            }
            Program::Portmap => {
                options.connect.source_port = SourcePort::Any;
                let port = url.port.unwrap_or(portmap::PORT);
                let target = nfs_client::Target::new(url.host.as_str(), port);
                let connection = Connection::connect(target, options.connect).await?;
                Ok((connection, null(portmap::PROGRAM, portmap::VERSION)))
            }
        }
    }

    async fn calls(&self, connection: &Connection, procedure: Procedure, measured: &mut Measured) {
        let target = connection.target();
        let identity = Identity::none();
        loop {
            let begun = Instant::now();
            measured.sent += 1;
            let answer = connection.call(procedure, &identity, &()).await;
            let took = begun.elapsed();
            let number = measured.sent;
            match answer {
                Ok(_) => {
                    measured.note(took);
                    if !self.common.quiet && !self.common.json {
                        show::say(format_args!("{target}: seq={number} time={}", time(took)));
                    }
                }
                Err(error) => {
                    let text = format!("{target}: seq={number}: {error}");
                    let error = ClientError::from(error);
                    results::failed(&text, Failure::of(&self.server.0, &error));
                }
            }
            if self.count.is_some_and(|count| measured.sent >= count) {
                return;
            }
            tokio::time::sleep_until(begun + self.interval).await;
        }
    }

    fn print(&self, connection: &Connection, measured: &Measured) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.common.json {
            return writeln!(out, "{}", measured.object(&connection.target().to_string()));
        }
        let Measured { sent, answered, .. } = *measured;
        writeln!(
            out,
            "{}: {sent} sent, {answered} answered",
            connection.target()
        )?;
        if answered == 0 {
            return Ok(());
        }
        writeln!(
            out,
            "min {}  avg {}  p50 {}  p99 {}  max {}",
            time(measured.min()),
            time(measured.average()),
            time(measured.quantile(0.5)),
            time(measured.quantile(0.99)),
            time(measured.max()),
        )?;
        for (upto, count, bar) in measured.bars() {
            writeln!(
                out,
                "{:>10} {count:>9} {bar}",
                format!("<= {}", short(upto))
            )?;
        }
        Ok(())
    }
}

impl Measured {
    fn note(&mut self, took: Duration) {
        self.answered += 1;
        self.sum += took;
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.times.saturating_record(nanoseconds.max(1));
    }

    fn min(&self) -> Duration {
        Duration::from_nanos(self.times.min())
    }

    fn max(&self) -> Duration {
        Duration::from_nanos(self.times.max())
    }

    fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.times.value_at_quantile(quantile))
    }

    fn average(&self) -> Duration {
        let count = u32::try_from(self.answered).unwrap_or(u32::MAX);
        self.sum.checked_div(count).unwrap_or_default()
    }

    /// Upper bound in nanoseconds and count of each class of times that has any, and those between:
    /// each class goes to twice the last one's bound, the first to 1024.
    fn classes(&self) -> Vec<(u64, u64)> {
        let mut classes = Vec::new();
        let mut lower = 0;
        for power in 10..63 {
            let upper = 1_u64 << power;
            let count = self.times.count_between(lower, upper - 1);
            let is_inside = lower <= self.times.max() && upper > self.times.min();
            if is_inside {
                classes.push((upper, count));
            }
            lower = upper;
        }
        classes
    }

    fn bars(&self) -> Vec<(Duration, u64, String)> {
        let classes = self.classes();
        let most = classes
            .iter()
            .map(|&(_, count)| count)
            .max()
            .unwrap_or(1)
            .max(1);
        let bar = |count: u64| {
            let marks = (u128::from(count) * 40).div_ceil(u128::from(most));
            "#".repeat(usize::try_from(marks).unwrap_or(0))
        };
        let row = |(upper, count)| (Duration::from_nanos(upper), count, bar(count));
        classes.into_iter().map(row).collect()
    }

    fn object(&self, server: &str) -> Value {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut object = json!({
            "server": server,
            "sent": self.sent,
            "answered": self.answered,
        });
        if self.answered > 0 {
            let classes = self.classes().into_iter();
            let histogram =
                classes.map(|(below, count)| json!({ "below_ns": below, "count": count }));
            let times = json!({
                "min_ns": nanoseconds(self.min()),
                "avg_ns": nanoseconds(self.average()),
                "p50_ns": nanoseconds(self.quantile(0.5)),
                "p99_ns": nanoseconds(self.quantile(0.99)),
                "max_ns": nanoseconds(self.max()),
                "histogram": histogram.collect::<Vec<_>>(),
            });
            if let (Value::Object(object), Value::Object(times)) = (&mut object, times) {
                object.extend(times);
            }
        }
        object
    }
}

/// A time with three digits after the point, in the unit that ping(8) uses.
fn time(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// A time in few characters: `131us`, `1.0ms`.
fn short(time: Duration) -> String {
    let microseconds = time.as_secs_f64() * 1e6;
    if microseconds < 1000.0 {
        format!("{microseconds:.0}us")
    } else if microseconds < 1e6 {
        format!("{:.1}ms", microseconds / 1e3)
    } else {
        format!("{:.1}s", microseconds / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(nanoseconds: &[u64]) -> Measured {
        let mut measured = Measured {
            sent: 0,
            answered: 0,
            sum: Duration::ZERO,
            times: Histogram::new_with_max(PING_NANOSECONDS_MAX, 3).unwrap(),
        };
        for &time in nanoseconds {
            measured.note(Duration::from_nanos(time));
        }
        measured
    }

    #[test]
    fn classes_hold_every_time_once() {
        let times = [0, 1, 1023, 1024, 5000, 5001, 1_000_000, 40_000_000_000];
        let classes = measured(&times).classes();
        let counted: u64 = classes.iter().map(|&(_, count)| count).sum();
        assert_eq!(counted, 8, "{classes:?}");
        assert_eq!(classes.first(), Some(&(1024, 3)));
        assert_eq!(classes.get(1), Some(&(2048, 1)));
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        let bars = measured(&[5000, 5000, 5000, 5000, 20_000]).bars();
        let lengths: Vec<usize> = bars.iter().map(|(_, _, bar)| bar.len()).collect();
        assert_eq!(lengths, [40, 0, 10]);
    }

    #[test]
    fn nothing_answered_has_no_times() {
        let object = measured(&[]).object("server:2049");
        assert_eq!(
            object,
            json!({"server": "server:2049", "sent": 0, "answered": 0})
        );
    }
}
