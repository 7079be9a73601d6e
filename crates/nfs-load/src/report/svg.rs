//! The pictures of a page: SVG written by hand, a few hundred bytes of rectangles and text each.
//!
//! They are as wide as a telephone, so that their text is as large there as that around them. Colours come from the
//! page's style sheet, which knows light, dark and paper.

use std::fmt::Write as _;

pub use super::lines::{Line, Lines, Shape};
use super::number;
use crate::spread::Spread;

/// A picture.
#[derive(Clone, Debug)]
pub enum Chart {
    /// One bar for each label, with its range.
    Bars {
        /// What is shown, with its unit.
        title: String,
        /// The bars.
        bars: Vec<Bar>,
    },
    /// Percentiles on a logarithmic axis.
    Latencies {
        /// What is shown, with its unit.
        title: String,
        /// One line of points for each label.
        rows: Vec<Points>,
    },
    /// A table whose cells are coloured.
    Heat(Heat),
    /// Figures over time.
    Lines(Lines),
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What is said above it.
    pub label: String,
    /// The number of its colour.
    pub colour: usize,
    /// Its length, and the range of it.
    pub spread: Spread,
}

/// The points of one label.
#[derive(Clone, Debug)]
pub struct Points {
    /// What is said above them.
    pub label: String,
    /// p50, p90, p99, p99.9 and the maximum.
    pub values: [f64; 5],
}

/// A coloured table.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What is shown, with its unit.
    pub title: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Headings of the rows.
    pub rows: Vec<String>,
    /// For each row its cells: the figure, and how many times as good as the first target it is.
    pub cells: Vec<Option<(f64, f64)>>,
    /// What the ratios are to; `None` for the first target, which has none.
    pub against: Option<String>,
}

/// How wide a picture is, in its own units.
pub(super) const WIDTH: f64 = 360.0;
/// How far its contents stay from its edges.
pub(super) const MARGIN: f64 = 8.0;
const BAR_STEP: f64 = 40.0;
const POINT_WORDS: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

impl Chart {
    /// The picture as SVG, to be put into a page of HTML.
    #[must_use]
    pub fn svg(&self) -> String {
        match self {
            Self::Bars { title, bars } => self::bars(title, bars),
            Self::Latencies { title, rows } => latencies(title, rows),
            Self::Heat(heat) => self::heat(heat),
            Self::Lines(lines) => lines.svg(),
        }
    }
}

/// A picture with its title.
pub(super) fn framed(title: &str, height: f64, inside: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <text class=\"head\" x=\"{MARGIN}\" y=\"18\">{title}</text>\n{inside}</svg>\n"
    )
}

fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.spread.max).fold(0.0, f64::max);
    let room = WIDTH - 2.0 * MARGIN - 64.0;
    let at = |value: f64| match most > 0.0 {
        true => value / most * room,
        false => 0.0,
    };
    let mut out = String::new();
    for (index, bar) in bars.iter().enumerate() {
        let top = 30.0 + BAR_STEP * index as f64;
        let (upper, middle) = (top + 16.0, top + 23.0);
        let width = at(bar.spread.median).max(1.0);
        let (from, to) = (MARGIN + at(bar.spread.min), MARGIN + at(bar.spread.max));
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text>\
             <rect class=\"c{}\" x=\"{MARGIN}\" y=\"{upper:.1}\" width=\"{width:.1}\" height=\"14\"/>\
             <path class=\"range\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v8M{to:.1} {:.1}v8\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            top + 11.0,
            escaped(&bar.label),
            bar.colour % COLOURS,
            middle - 4.0,
            middle - 4.0,
            to.max(MARGIN + width) + 6.0,
            middle + 4.5,
            number(bar.spread.median)
        );
    }
    framed(title, 36.0 + BAR_STEP * bars.len() as f64, &out)
}

fn latencies(title: &str, rows: &[Points]) -> String {
    let all = || {
        rows.iter()
            .flat_map(|row| row.values)
            .filter(|us| *us > 0.0)
    };
    let least = all().fold(f64::INFINITY, f64::min);
    let most = all().fold(0.0, f64::max);
    if !least.is_finite() {
        return framed(title, 36.0, "");
    }
    let (low, high) = (
        least.log10().floor(),
        most.log10().ceil().max(least.log10().floor() + 1.0),
    );
    let (left, right) = (MARGIN + 18.0, WIDTH - MARGIN - 18.0);
    let at = |us: f64| left + (us.max(1e-3).log10() - low) / (high - low) * (right - left);
    let bottom = 34.0 + BAR_STEP * rows.len() as f64;
    let mut out = String::new();
    let mut power = low;
    while power <= high {
        let x = at(10_f64.powf(power));
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} 28V{bottom:.1}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 14.0,
            tick(power)
        );
        power += 1.0;
    }
    for (index, row) in rows.iter().enumerate() {
        let (colour, top) = (index % COLOURS, 30.0 + BAR_STEP * index as f64);
        let y = top + 25.0;
        let ends = (at(row.values[0]), at(row.values[4]));
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text><path class=\"s{colour}\" d=\"M{:.1} {y:.1}H{:.1}\"/>",
            top + 12.0,
            escaped(&row.label),
            ends.0,
            ends.1
        );
        for (point, us) in row.values.into_iter().enumerate() {
            // The median is the largest, the rarest the smallest.
            let radius = 6.0 - point as f64;
            let word = POINT_WORDS.get(point).copied().unwrap_or_default();
            let _ = writeln!(
                out,
                "<circle class=\"c{colour}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"{radius}\"><title>{word}: {} µs</title></circle>",
                at(us),
                number(us)
            );
        }
    }
    let _ = writeln!(
        out,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">from large to small: p50, p90, p99, p99.9, max</text>",
        WIDTH / 2.0,
        bottom + 30.0
    );
    framed(title, bottom + 38.0, &out)
}

fn tick(power: f64) -> String {
    let us = 10_f64.powf(power);
    match us {
        _ if us >= 999_999.0 => format!("{:.0} s", us / 1e6),
        _ if us >= 999.0 => format!("{:.0} ms", us / 1e3),
        _ if us >= 0.999 => format!("{us:.0} µs"),
        _ => format!("{us} µs"),
    }
}

fn heat(heat: &Heat) -> String {
    let (first, row_height) = (66.0, if heat.against.is_none() { 26.0 } else { 36.0 });
    let width = (WIDTH - MARGIN - first) / heat.columns.len().max(1) as f64;
    let mut out = String::new();
    for (index, column) in heat.columns.iter().enumerate() {
        let x = first + width * (index as f64 + 0.5);
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{x:.1}\" y=\"40\">{}</text>",
            escaped(column)
        );
    }
    for (index, row) in heat.rows.iter().enumerate() {
        let y = 48.0 + row_height * index as f64;
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text>",
            y + row_height / 2.0 + 4.0,
            escaped(row)
        );
    }
    heat_cells(&mut out, heat, first, (width, row_height));
    let bottom = 56.0 + row_height * heat.rows.len() as f64;
    let Some(against) = &heat.against else {
        return framed(&heat.title, bottom, &out);
    };
    let _ = writeln!(
        out,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">× how many times as fast as {}</text>",
        WIDTH / 2.0,
        bottom + 8.0,
        escaped(against)
    );
    framed(&heat.title, bottom + 18.0, &out)
}

/// The cells of a heat map, each with its figure, and its ratio below where there is one.
fn heat_cells(out: &mut String, heat: &Heat, first: f64, (width, row_height): (f64, f64)) {
    for (index, found) in heat.cells.iter().enumerate() {
        let (row, column) = (
            index / heat.columns.len().max(1),
            index % heat.columns.len().max(1),
        );
        let (x, y) = (
            first + width * column as f64,
            48.0 + row_height * row as f64,
        );
        let middle = x + width / 2.0;
        let Some((value, ratio)) = *found else {
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{middle:.1}\" y=\"{:.1}\">-</text>",
                y + 16.0
            );
            continue;
        };
        let (class, strength) = shade(ratio);
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" fill-opacity=\"{strength:.2}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
             <text class=\"tick ink\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>",
            x + 1.0,
            y + 1.0,
            width - 2.0,
            row_height - 2.0,
            y + 17.0,
            number(value)
        );
        if heat.against.is_some() {
            let _ = writeln!(
                out,
                "<text class=\"tick ink\" x=\"{middle:.1}\" y=\"{:.1}\">× {}</text>",
                y + 30.0,
                number(ratio)
            );
        }
    }
}

/// The colour of a ratio, and how strong it is: half or twice as fast is full strength.
fn shade(ratio: f64) -> (&'static str, f64) {
    let class = if ratio >= 1.0 { "good" } else { "bad" };
    (class, ratio.max(1e-6).log2().abs().min(1.0) * 0.6 + 0.05)
}

/// How many colours there are: classes c0 to c5 are filled, s0 to s5 drawn.
pub const COLOURS: usize = 6;

/// Text as HTML and SVG have it.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    fn is_sound(svg: &str) {
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(
            !svg.contains("NaN") && !svg.contains("inf") && !svg.contains("a < b"),
            "{svg}"
        );
    }

    #[test]
    fn bars_lie_within_the_picture() {
        let bar = |values: &[f64]| Bar {
            label: "a < b".to_owned(),
            colour: 7,
            spread: spread(values),
        };
        let chart = |bars| Chart::Bars {
            title: "t".to_owned(),
            bars,
        };
        let svg = chart(vec![bar(&[1.0, 2.0, 5000.0]), bar(&[0.0])]).svg();
        is_sound(&svg);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("a &lt; b"));
        is_sound(&chart(Vec::new()).svg());
    }

    #[test]
    fn latencies_have_a_point_for_each_percentile() {
        let row = |values| Points {
            label: "a < b".to_owned(),
            values,
        };
        let chart = |rows| Chart::Latencies {
            title: "t".to_owned(),
            rows,
        };
        let svg = chart(vec![row([1.0, 2.0, 3.0, 40.0, 5e6]), row([0.0; 5])]).svg();
        is_sound(&svg);
        assert_eq!(svg.matches("<circle").count(), 10);
        assert!(svg.contains("10 s") && svg.contains("1 ms") && svg.contains("p99.9: 40.0 µs"));
        is_sound(&chart(vec![row([0.0; 5])]).svg());
        is_sound(&chart(vec![row([7.0; 5])]).svg());
    }

    #[test]
    fn ratios_are_coloured_by_their_direction() {
        assert_eq!(shade(1.9).0, "good");
        assert_eq!(shade(0.6).0, "bad");
        assert!((shade(2.0).1 - shade(0.5).1).abs() < 1e-9);
        let heat = Heat {
            title: "t".to_owned(),
            columns: vec!["w".to_owned(), "r".to_owned()],
            rows: vec!["4 KiB".to_owned()],
            cells: vec![Some((12.0, 0.5)), None],
            against: Some("a".to_owned()),
        };
        let svg = Chart::Heat(heat).svg();
        is_sound(&svg);
        assert!(
            svg.contains("× 0.50") && svg.contains("class=\"bad\""),
            "{svg}"
        );
    }
}
