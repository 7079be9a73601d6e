//! The terminal: taken over, drawn on, and given back on every way out.

use std::io::Stdout;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use anyhow::Context as _;
use nfs_server::operate::control::IoOrder;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event;
use tokio::signal::unix::{SignalKind, signal};

use super::Args;
use super::draw::{self, Paint};
use super::feed::{self, Door, Fed};
use super::view::{Action, View};
use crate::interrupt;
use crate::limits::TOP_EVENTS_MAX;

/// What the main thread hears of.
enum Event {
    Terminal(event::Event),
    /// Nothing comes from the terminal any more.
    TerminalGone(std::io::Error),
    Fed(Fed),
    /// To end, with this exit code.
    Signal(u8),
}

/// How long the screen stands without anything new, so that "no answer for 12 s" goes on.
const REDRAW_AFTER: Duration = Duration::from_secs(1);

type Screen = Terminal<CrosstermBackend<Stdout>>;

/// Takes the terminal over until `q`, a signal, or an error of the terminal.
pub(super) fn run(args: &Args, directory: &Path, door: Door) -> anyhow::Result<ExitCode> {
    let (events, coming) = mpsc::sync_channel(TOP_EVENTS_MAX);
    let (orders, ordered) = mpsc::sync_channel(1);
    let mut view = View::new(directory.display().to_string());
    view.tab = args.view.tab();
    view.filter.clone_from(&args.filter);
    // Before the terminal is taken over: a signal that comes in between must not end us with it.
    listen_for_signals(events.clone())?;
    let feeding = events.clone();
    let interval = args.interval;
    thread("penstock-top-feed", move || {
        feed::run(&door, interval, &ordered, &feeding, Event::Fed);
    })?;
    let paint = Paint {
        coloured: args.color.is_now(),
    };
    // Sets a panic hook, too, that gives the terminal back before it tells of the panic.
    let terminal = ratatui::try_init().context("cannot take the terminal over")?;
    let result = thread("penstock-top-keys", move || tell_of_keys(&events))
        .and_then(|()| watch(terminal, &mut view, paint, &coming, &orders));
    ratatui::try_restore().context("cannot give the terminal back; `reset` does")?;
    result
}

fn watch(
    mut terminal: Screen,
    view: &mut View,
    paint: Paint,
    coming: &Receiver<Event>,
    orders: &SyncSender<IoOrder>,
) -> anyhow::Result<ExitCode> {
    loop {
        let mut page = 0;
        let drawn = terminal.draw(|frame| page = draw::draw(frame, view, paint));
        drawn.context("cannot draw on the terminal")?;
        let first = match coming.recv_timeout(REDRAW_AFTER) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(ExitCode::SUCCESS),
        };
        // All that has come, and then one drawing: keys that repeat must not lag behind.
        for event in std::iter::once(first).chain(coming.try_iter()) {
            let key = match event {
                Event::Terminal(event::Event::Key(key)) => key,
                // A resize, for the most part, which the next drawing sees.
                Event::Terminal(_) => continue,
                Event::TerminalGone(error) => return Err(error).context("the terminal is gone"),
                Event::Signal(code) => return Ok(ExitCode::from(code)),
                Event::Fed(fed) => {
                    take(view, fed);
                    continue;
                }
            };
            match view.key(key, page) {
                Action::Nothing => {}
                Action::Quit => return Ok(ExitCode::SUCCESS),
                Action::Redraw => terminal.clear().context("cannot clear the terminal")?,
                Action::Suspend => terminal = suspend()?,
                // One that is on its way already is not done twice.
                Action::Change(order) => {
                    let _waits_for_the_one_before = orders.try_send(*order);
                }
            }
        }
    }
}

fn take(view: &mut View, fed: Fed) {
    match fed {
        Fed::Told(told) => {
            view.only_looks = told.only_looks;
            view.take(&told.snapshot, told.policies);
        }
        Fed::Lost(why) => view.lose(why),
        Fed::Changed(result) => view.changed(*result),
    }
}

/// Gives the terminal back, stops as Ctrl-Z has programs stop, and takes it over again when it goes on.
fn suspend() -> anyhow::Result<Screen> {
    ratatui::try_restore().context("cannot give the terminal back")?;
    rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)
        .context("cannot stop")?;
    ratatui::try_init().context("cannot take the terminal over again")
}

fn tell_of_keys(events: &SyncSender<Event>) {
    loop {
        let (event, is_last) = match event::read() {
            Ok(event) => (Event::Terminal(event), false),
            Err(error) => (Event::TerminalGone(error), true),
        };
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

/// SIGINT, SIGTERM and SIGHUP end the screen as `q` does, and the exit code says so.
fn listen_for_signals(events: SyncSender<Event>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = {
        let _inside = runtime.enter();
        let listen = |kind| signal(kind).context("cannot listen for signals");
        [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]
    };
    thread("penstock-top-signals", move || {
        let [int, term, hangup] = &mut signals;
        runtime.block_on(async {
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        let _ends_anyway = events.send(Event::Signal(interrupt::INTERRUPTED));
    })
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .context("cannot start a thread")?;
    Ok(())
}
