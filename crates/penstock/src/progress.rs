//! How far a long command has come: a line on a terminal that changes, lines one after the other elsewhere.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use nfs_client::transfer::Figures;
use nfs_client::{Liveness, Silent};
use tokio::time::Instant;

use crate::limits::{PACE_SAMPLES_MAX, PROGRESS_EVERY_DEFAULT, SILENCE_TOLD_FIRST};
use crate::message;
use crate::session::Common;

/// Time between two drawings of the line.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Options of the commands that show how far they are.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ProgressArgs {
    /// Show progress where standard error is no terminal, too: a line every 10 seconds, or every TIME
    ///
    /// TIME is such as 30s or 5m. On a terminal with TIME, such lines are printed above the one that changes.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = span)]
    progress: Option<Option<Duration>>,

    /// No progress line, on a terminal either
    #[arg(long, conflicts_with = "progress")]
    no_progress: bool,

    /// Tell at the end what the calls came to: counts and latencies by procedure, windows, what was sent again
    ///
    /// In the form of penstock stats, on standard error; with --json of cp and sync as one object more on standard
    /// output.
    #[arg(long)]
    pub(crate) stats: bool,
}

/// A span of time of at least a second, such as `30s` or `5m`.
fn span(text: &str) -> Result<Duration, String> {
    let span = match text.parse::<u32>() {
        Ok(seconds) => Some(Duration::from_secs(seconds.into())),
        Err(_) => text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|span| span.try_into().ok()),
    };
    span.filter(|span| *span >= Duration::from_secs(1))
        .ok_or_else(|| "give a time of a second or more, such as 30s or 5m".to_owned())
}

impl ProgressArgs {
    /// The options as they are written on a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let progress = self.progress.map(|every| match every {
            Some(every) => format!("--progress={}s", every.as_secs()),
            None => "--progress".to_owned(),
        });
        let not = self.no_progress.then(|| "--no-progress".to_owned());
        let stats = self.stats.then(|| "--stats".to_owned());
        progress.into_iter().chain(not).chain(stats).collect()
    }

    /// The user asked to be told how far it is, and so how it ended.
    pub(crate) fn is_asked(&self) -> bool {
        self.progress.is_some()
    }
}

/// What shows how far a command is, on standard error; nothing where that is no terminal, unless asked.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// The line as long as the end is not known, and from then on.
    open: ProgressStyle,
    closed: ProgressStyle,
    is_closed: bool,
    /// Counts files, too.
    several: bool,
    pace: Pace,
    liveness: Liveness,
    /// Time between two lines that stay, and when the next one is due.
    every: Option<Duration>,
    due: Instant,
}

impl Progress {
    /// What the options ask for. `wanted`: not if something else says how far it is. `several`: it counts files
    /// too.
    pub(crate) fn new(args: &ProgressArgs, common: &Common, wanted: bool, several: bool) -> Self {
        let wanted = wanted && !args.no_progress && !common.quiet;
        let terminal = std::io::stderr().is_terminal() && !common.log_json;
        let target = if wanted && terminal {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = |text: &str| {
            let style = ProgressStyle::with_template(text);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            style.progress_chars("=> ")
        };
        let open = style("{wide_msg}");
        let closed = style("[{bar:24}] {percent:>3}%  {wide_msg}");
        let bar = ProgressBar::with_draw_target(None, target).with_style(open.clone());
        message::give_way(bar.clone());
        let every = match args.progress {
            Some(every) if wanted => match terminal {
                true => every,
                false => Some(every.unwrap_or(PROGRESS_EVERY_DEFAULT)),
            },
            _ => None,
        };
        let now = Instant::now();
        Self {
            bar,
            open,
            closed,
            is_closed: false,
            several,
            pace: Pace::default(),
            liveness: common.liveness(),
            due: now + every.unwrap_or_default(),
            every,
        }
    }

    /// Whether anything shows it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden() || self.every.is_some()
    }

    /// Shows how far `figures` say that the copy is. Call it every [`TICK`].
    pub(crate) fn show(&mut self, figures: &Figures) {
        let now = Instant::now();
        self.pace
            .note(now, figures.bytes_done.saturating_sub(figures.bytes_left));
        let silent = self.liveness.silent(SILENCE_TOLD_FIRST);
        let rate = self.pace.per_second(now);
        let text = text(figures, rate, self.bar.elapsed(), &silent, self.several);
        if let Some(every) = self.every
            && now >= self.due
        {
            message::info(&text);
            self.due = now + every;
        }
        let is_closed = has_end(figures);
        if is_closed != self.is_closed {
            self.is_closed = is_closed;
            let style = if self.is_closed {
                &self.closed
            } else {
                &self.open
            };
            self.bar.set_style(style.clone());
        }
        if is_closed {
            self.bar
                .set_length(figures.bytes_found.max(figures.bytes_done));
        }
        self.bar.set_position(figures.bytes_done);
        self.bar.set_message(text);
    }

    /// Takes the progress line off the terminal.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Whether it is known how many bytes there are: all was found, and none of it ends when somebody else says so.
fn has_end(figures: &Figures) -> bool {
    figures.walked && figures.streams == 0
}

/// The text of the line: what is done, and how fast; or who does not answer.
fn text(
    figures: &Figures,
    rate: Option<f64>,
    elapsed: Duration,
    silent: &[Silent],
    several: bool,
) -> String {
    let mut parts = Vec::new();
    if several && !(figures.walked && figures.files_found == 1) {
        let failed = match figures.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let of = match figures.walked {
            true => format!(" of {}", figures.files_found),
            false => String::new(),
        };
        parts.push(format!("{}{of} files{failed}", figures.files_done));
    }
    let done = bytes_text(figures.bytes_done);
    let total = figures.bytes_found.max(figures.bytes_done);
    parts.push(match has_end(figures) {
        true => format!("{done} of {}", bytes_text(total)),
        false => done,
    });
    if let Some(longest) = silent.iter().max_by_key(|silent| silent.lasting) {
        let seconds = longest.lasting.as_secs();
        parts.push(format!("no answer from {} for {seconds} s", longest.target));
        return parts.join("  ");
    }
    let rate = rate.unwrap_or(0.0);
    parts.push(format!("{}/s", bytes_text(whole(rate))));
    if has_end(figures) && rate >= 1.0 {
        let left = (total - figures.bytes_done) as f64 / rate;
        parts.push(format!(
            "{} left",
            HumanDuration(Duration::from_secs(whole(left)))
        ));
    } else if !has_end(figures) {
        parts.push(HumanDuration(elapsed).to_string());
    }
    parts.join("  ")
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` goes to the nearest end of the range, and this is shown only"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

/// How fast bytes have moved lately.
#[derive(Debug, Default)]
struct Pace {
    /// When so many bytes had moved, the oldest first.
    samples: VecDeque<(Instant, u64)>,
}

impl Pace {
    fn note(&mut self, now: Instant, moved: u64) {
        if self.samples.len() >= PACE_SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, moved));
    }

    /// Bytes per second since the oldest look that is remembered; `None` before there is any.
    fn per_second(&self, now: Instant) -> Option<f64> {
        let (first, before) = self.samples.front()?;
        let (_, moved) = self.samples.back()?;
        let seconds = now.saturating_duration_since(*first).as_secs_f64();
        (seconds > 0.0).then(|| moved.saturating_sub(*before) as f64 / seconds)
    }
}

/// A number of bytes for people.
pub(crate) fn bytes_text(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// So many bytes in this time, per second, for people.
pub(crate) fn rate_text(bytes: u64, elapsed: Duration) -> String {
    bytes_text(whole(bytes as f64 / elapsed.as_secs_f64().max(0.001)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_client::Target;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_rate_is_of_the_last_seconds_and_of_what_moved() {
        let start = Instant::now();
        let at = |tick: u64| start + TICK * u32::try_from(tick).unwrap();
        let mut pace = Pace::default();
        assert_eq!(pace.per_second(start), None);
        for tick in 0..500 {
            pace.note(at(tick), tick.min(450) * MIB);
        }
        // Of the last ten seconds, it moved in a half of them.
        let mib = pace.per_second(at(499)).unwrap() / MIB as f64;
        assert!((4.9..5.2).contains(&mib), "{mib}");
    }

    #[test]
    fn what_the_line_says() {
        let figures = Figures {
            walked: true,
            files_found: 7,
            files_done: 3,
            bytes_found: 100 * MIB,
            bytes_done: 40 * MIB,
            ..Figures::default()
        };
        let minute = Duration::from_secs(60);
        let rate = Some(2.0 * MIB as f64);
        let line = text(&figures, rate, minute, &[], true);
        assert_eq!(
            line,
            "3 of 7 files  40.00 MiB of 100.00 MiB  2.00 MiB/s  30 seconds left"
        );
        let silent = Silent {
            target: Target::new("10.0.0.1", 2049),
            lasting: Duration::from_millis(12_900),
        };
        let line = text(&figures, rate, minute, &[silent], true);
        assert_eq!(
            line,
            "3 of 7 files  40.00 MiB of 100.00 MiB  no answer from 10.0.0.1:2049 for 12 s"
        );
        let open = Figures {
            walked: false,
            ..figures
        };
        let line = text(&open, rate, minute, &[], true);
        assert_eq!(line, "3 files  40.00 MiB  2.00 MiB/s  60 seconds");
        // Nothing moves: no time left is made up.
        let line = text(&figures, Some(0.0), minute, &[], false);
        assert_eq!(line, "40.00 MiB of 100.00 MiB  0 B/s");
    }

    #[test]
    fn spans() {
        assert_eq!(span("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(span("90"), Ok(Duration::from_secs(90)));
        assert_eq!(span("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "0", "x", "-3s", "1ms"] {
            assert!(span(text).is_err(), "{text} is taken");
        }
    }
}
