//! The view of latencies: how many calls of the last interval took how long, READ, WRITE and the others beside each
//! other.

use nfs_server::operate::live::{Distribution, Interval};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::draw::Paint;
use super::format::{count, time};

/// Columns of the bounds at the left.
const BOUND_WIDTH: u16 = 9;

pub(super) fn draw(buffer: &mut Buffer, area: Rect, interval: Option<&Interval>, paint: Paint) {
    let none = Interval::default();
    let interval = interval.unwrap_or(&none);
    let mut kinds = [
        ("READ", paint.read(), Distribution::default()),
        ("WRITE", paint.write(), Distribution::default()),
        ("OTHERS", Style::new(), Distribution::default()),
    ];
    let mut bounds = Distribution::default();
    for (key, calls) in &interval.calls {
        let kind = match key.procedure.as_str() {
            "READ" => 0,
            "WRITE" => 1,
            _ => 2,
        };
        if let Some((_, _, took)) = kinds.get_mut(kind) {
            took.add(&calls.took);
        }
        bounds.add(&calls.took);
    }
    let parts = Layout::horizontal([
        Constraint::Length(BOUND_WIDTH),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ]);
    let [left, rest @ ..] = parts.spacing(1).areas::<4>(area);
    let shown = shown_bounds(&bounds, usize::from(area.height.saturating_sub(1)));
    if shown.is_empty() {
        let text = "No call was answered in the last interval.";
        Line::styled(text, Style::new().add_modifier(Modifier::DIM)).render(area, buffer);
        return;
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Line::styled("UP TO", bold)
        .right_aligned()
        .render(left, buffer);
    for (line, (_, bound)) in shown.iter().enumerate() {
        let text = match bound.is_finite() {
            true => time(Some(*bound)),
            false => "longer".to_owned(),
        };
        Line::raw(text)
            .right_aligned()
            .render(row(left, line), buffer);
    }
    for ((title, style, took), place) in kinds.iter().zip(rest) {
        kind(
            buffer,
            place,
            (title, *style),
            took,
            (&shown, interval.seconds),
        );
    }
}

/// One kind of calls: percentiles at the top, a bar for each class.
fn kind(
    buffer: &mut Buffer,
    place: Rect,
    (title, style): (&str, Style),
    took: &Distribution,
    (shown, seconds): (&[(f64, f64)], f64),
) {
    let bold = Modifier::BOLD;
    let p = took.percentiles();
    let heading = Line::from(vec![
        Span::styled(title.to_owned(), style.add_modifier(bold)),
        Span::raw(format!(
            " {}/s",
            count(took.count() as f64 / seconds.max(0.001))
        )),
        Span::styled(
            format!(" p50 {} p99 {}", time(p.p50), time(p.p99)),
            Style::new().add_modifier(Modifier::DIM),
        ),
    ]);
    heading.render(place, buffer);
    let counts: Vec<u64> = shown
        .iter()
        .map(|(above, up_to)| within(took, *above, *up_to))
        .collect();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    for (line, calls) in counts.iter().enumerate() {
        let place = row(place, line);
        if *calls == 0 || place.height == 0 {
            continue;
        }
        let room = place.width.saturating_sub(7);
        let eighths = u128::from(*calls) * u128::from(room) * 8 / u128::from(most);
        let eighths = usize::try_from(eighths).unwrap_or(usize::MAX).max(1);
        let mut text = "█".repeat((eighths / 8).min(usize::from(room)));
        let rest = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
        if let Some(part) = rest.get(eighths % 8).filter(|part| **part != ' ') {
            text.push(*part);
        }
        let shown = count(*calls as f64 / seconds.max(0.001));
        let line = Line::from(vec![
            Span::styled(text, style),
            Span::raw(format!(" {shown}")),
        ]);
        line.render(place, buffer);
    }
}

/// Where the bar of a class stands, below the heading.
fn row(area: Rect, line: usize) -> Rect {
    let down = u16::try_from(line.saturating_add(1)).unwrap_or(u16::MAX);
    let y = area.y.saturating_add(down);
    let height = u16::from(y < area.bottom());
    Rect { y, height, ..area }
}

/// The classes that are shown, each by what it lies above and up to, in seconds: from the first one with a call to the
/// last, several in one where there are more than `rows`.
fn shown_bounds(took: &Distribution, rows: usize) -> Vec<(f64, f64)> {
    let classes: Vec<(f64, u64)> = took.classes().collect();
    let has_calls = |(_, calls): &(f64, u64)| *calls > 0;
    let (Some(first), Some(last)) = (
        classes.iter().position(has_calls),
        classes.iter().rposition(has_calls),
    ) else {
        return Vec::new();
    };
    let bounds: Vec<f64> = classes.iter().map(|(bound, _)| *bound).collect();
    let together = (last + 1 - first).div_ceil(rows.max(1)).max(1);
    let below = |index: usize| match index {
        0 => 0.0,
        index => bounds.get(index - 1).copied().unwrap_or(0.0),
    };
    let starts = (first..=last).step_by(together);
    let rows = starts.map(|start| {
        let end = (start + together - 1).min(last);
        (
            below(start),
            bounds.get(end).copied().unwrap_or(f64::INFINITY),
        )
    });
    rows.collect()
}

fn within(took: &Distribution, above: f64, up_to: f64) -> u64 {
    let inside = took
        .classes()
        .filter(|(bound, _)| *bound > above && *bound <= up_to);
    inside.map(|(_, calls)| calls).sum()
}
