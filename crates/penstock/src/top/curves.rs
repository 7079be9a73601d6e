//! The curves above the table: throughput, latency, page cache and CPU, so that the tip-over can be watched.

use nfs_server::operate::live::{Moment, Watch};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, SparklineBar, Widget as _};

use super::draw::Paint;
use super::format::{bytes, percent, time};

/// A curve: what of each moment, how it is written, and in which colour.
struct Curve {
    title: &'static str,
    of: fn(&Moment) -> Option<f64>,
    show: fn(f64) -> String,
    style: Style,
}

/// Columns that a curve needs at least.
const WIDTH_MIN: u16 = 19;

/// Draws as many of the curves as there is room for, the latest moment at the right.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, watch: &Watch, paint: Paint) {
    let cache_is_known = |moment: &Moment| moment.all.page_cache_bytes.is_some();
    let all = curves(paint, watch.moments().any(cache_is_known));
    let room = usize::from((area.width + 1) / (WIDTH_MIN + 1)).clamp(1, all.len());
    let places = Layout::horizontal(vec![Constraint::Fill(1); room])
        .spacing(1)
        .split(area);
    for (curve, place) in all.iter().zip(places.iter()) {
        let place = *place;
        let values = columns(watch, curve.of, usize::from(place.width));
        let now = watch.moments().next_back().and_then(curve.of);
        one(buffer, place, curve, (&values, now));
    }
}

/// Where the server does not tell what is in the page cache, the memory in use, of which it is a part, is shown.
fn curves(paint: Paint, cache_is_known: bool) -> [Curve; 6] {
    let (memory, of_memory): (_, fn(&Moment) -> Option<f64>) = match cache_is_known {
        true => ("CACHE", |moment| moment.all.page_cache_bytes),
        false => ("MEM", |moment| moment.host.memory_used_bytes),
    };
    let per_second = |rate: f64| format!("{}/s", bytes(rate));
    let latency = |moment: &Moment| {
        let flow = &moment.all;
        let both = [flow.read.took.p99, flow.write.took.p99]
            .into_iter()
            .flatten();
        both.reduce(f64::max)
    };
    [
        Curve {
            title: "READ",
            of: |moment| of_rate(moment, moment.all.read.bytes),
            show: per_second,
            style: paint.read(),
        },
        Curve {
            title: "WRITE",
            of: |moment| of_rate(moment, moment.all.write.bytes),
            show: per_second,
            style: paint.write(),
        },
        Curve {
            title: "P99",
            of: latency,
            show: |seconds| time(Some(seconds)),
            style: paint.latency(),
        },
        Curve {
            title: memory,
            of: of_memory,
            show: bytes,
            style: paint.memory(),
        },
        Curve {
            title: "CPU",
            of: |moment| Some(moment.host.cpu_user? + moment.host.cpu_system?),
            show: |processors| format!("{processors:.2}"),
            style: Style::new(),
        },
        Curve {
            title: "WAITS MEM",
            of: |moment| moment.host.memory_some,
            show: percent,
            style: paint.bad(),
        },
    ]
}

/// A rate, where the moment has any.
fn of_rate(moment: &Moment, rate: f64) -> Option<f64> {
    (moment.seconds > 0.0).then_some(rate)
}

/// What each of `width` columns shows, the latest at the end: the highest value of the moments that fall into it. All
/// that is kept has room, so that a column is of a second or of many.
fn columns(watch: &Watch, of: fn(&Moment) -> Option<f64>, width: usize) -> Vec<Option<f64>> {
    let mut columns = vec![None; width];
    let ends = watch.moments().next().zip(watch.moments().next_back());
    let Some((first, last)) = ends.map(|(first, last)| (first.at_unix_ms, last.at_unix_ms)) else {
        return columns;
    };
    let room = u64::try_from(width)
        .unwrap_or(u64::MAX)
        .saturating_sub(1)
        .max(1);
    let between =
        last.saturating_sub(first) / u64::try_from(watch.moments().len()).unwrap_or(1).max(1);
    // Whole seconds, so that moments stay in their columns while these go to the left.
    let seconds = last
        .saturating_sub(first)
        .div_ceil(room)
        .max(between)
        .div_ceil(1000);
    let column_ms = seconds.max(1) * 1000;
    for moment in watch.moments() {
        let back = (last / column_ms).checked_sub(moment.at_unix_ms / column_ms);
        let back = back.and_then(|back| usize::try_from(back).ok());
        let index = back.and_then(|back| width.checked_sub(back.checked_add(1)?));
        let column = index.and_then(|index| columns.get_mut(index));
        if let (Some(column), Some(value)) = (column, of(moment)) {
            *column = Some(f64::max(column.unwrap_or(0.0), value));
        }
    }
    columns
}

fn one(
    buffer: &mut Buffer,
    area: Rect,
    curve: &Curve,
    (values, now): (&[Option<f64>], Option<f64>),
) {
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let [title, below] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let faint = Style::new().add_modifier(Modifier::DIM);
    let shown = now.map_or_else(|| "-".to_owned(), curve.show);
    let left = Line::from(vec![
        Span::styled(curve.title, curve.style.add_modifier(Modifier::BOLD)),
        Span::styled(format!(" {shown}"), bold),
    ]);
    let most_shown = bare((curve.show)(most));
    let right = Line::from(Span::styled(format!("≤{most_shown}"), faint)).right_aligned();
    if most > 0.0 && left.width() + right.width() < usize::from(title.width) {
        right.render(title, buffer);
    }
    left.render(title, buffer);
    let bars = values.iter().map(|value| bar(*value, most));
    let bars: Vec<SparklineBar> = bars.collect();
    let sparkline = Sparkline::default()
        .data(bars)
        .max(SCALE)
        .style(curve.style);
    sparkline.absent_value_symbol(" ").render(below, buffer);
}

/// The height of the curves, in steps that no terminal can show all.
const SCALE: u64 = 1000;

/// What is more than nothing is seen.
fn bar(value: Option<f64>, most: f64) -> SparklineBar {
    let height = value.filter(|_| most > 0.0).map(|value| {
        let part = (value / most).clamp(0.0, 1.0) * SCALE as f64;
        // Of the range 0 to SCALE: nothing is lost.
        let height = format!("{part:.0}").parse().unwrap_or(0);
        if value > 0.0 { u64::max(height, 1) } else { 0 }
    });
    SparklineBar::from(height)
}

fn bare(rate: String) -> String {
    rate.strip_suffix("/s").map(str::to_owned).unwrap_or(rate)
}
