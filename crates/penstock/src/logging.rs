//! Logs on standard error, and their level, which changes while the server runs.

use std::sync::Arc;

use nfs_server::exports::config::LogLevel;
use nfs_server::operate::control::TRACE_LOG_TARGET;
use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt, reload};

/// Sets the level of all logs from now on, if one is given; the level that holds then.
pub(crate) type SetLevel = Arc<dyn Fn(Option<LogLevel>) -> LogLevel + Send + Sync>;

/// Begins to log at `level`; the result changes and tells the level later.
pub(crate) fn start(level: LogLevel, json: bool) -> SetLevel {
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let ansi = crate::show::gets_colours(&std::io::stderr());
    let layer = fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(level >= LogLevel::Debug);
    let layer = if json {
        layer.json().boxed()
    } else {
        layer.with_ansi(ansi).compact().boxed()
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .init();
    let now = Mutex::new(level);
    Arc::new(move |level| {
        let mut now = now.lock();
        if let Some(level) = level {
            match handle.modify(|filter| *filter = filter_of(level)) {
                Ok(()) => *now = level,
                Err(error) => tracing::warn!(%error, "the log level stays"),
            }
        }
        *now
    })
}

/// Trace events pass whatever the level: somebody has just asked for them.
fn filter_of(level: LogLevel) -> Targets {
    let trace = level_of(level).max(LevelFilter::INFO);
    Targets::new()
        .with_default(level_of(level))
        .with_target(TRACE_LOG_TARGET, trace)
}

const fn level_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
