//! The line that tells on a terminal how far a long command has come.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nfs_client::transfer::Figures;

/// Time between two drawings of the line.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A line on standard error; nothing where that is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// The line as long as the end is not known, and from then on.
    open: ProgressStyle,
    closed: ProgressStyle,
    is_closed: bool,
}

impl Progress {
    /// A line, if `wanted` and standard error is a terminal. `several`: it counts files too.
    pub(crate) fn new(wanted: bool, several: bool) -> Self {
        let target = if wanted && std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let files = if several { "{msg}" } else { "" };
        let style = |text: String| {
            let style = ProgressStyle::with_template(&text);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            style.progress_chars("=> ")
        };
        let open = style(format!(
            "{files}{{binary_bytes}}  {{binary_bytes_per_sec}}  {{elapsed}}"
        ));
        let closed = style(format!(
            "[{{bar:24}}] {{percent:>3}}%  {files}{{binary_bytes}} of {{binary_total_bytes}}  \
             {{binary_bytes_per_sec}}  {{eta}} left"
        ));
        let bar = ProgressBar::with_draw_target(None, target).with_style(open.clone());
        Self {
            bar,
            open,
            closed,
            is_closed: false,
        }
    }

    /// Whether there is a terminal that shows it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// The progress bar, through which messages are printed above the line.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Shows how far `figures` say that the copy is.
    pub(crate) fn show(&mut self, figures: &Figures) {
        if !self.is_shown() {
            return;
        }
        let failed = match figures.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let found = match (figures.walked, figures.files_found) {
            (true, 1) => String::new(),
            (true, found) => format!("{} of {found} files{failed}  ", figures.files_done),
            (false, _) => format!("{} files{failed}  ", figures.files_done),
        };
        self.bar.set_message(found);
        let total = figures.bytes_found.max(figures.bytes_done);
        if figures.walked != self.is_closed {
            self.is_closed = figures.walked;
            let style = if self.is_closed {
                &self.closed
            } else {
                &self.open
            };
            self.bar.set_style(style.clone());
        }
        if figures.walked {
            self.bar.set_length(total);
        }
        self.bar.set_position(figures.bytes_done);
    }

    /// Takes the progress line off the terminal.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A number of bytes for people.
pub(crate) fn bytes_text(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}
