//! Figures over time, or against each other: a line or some dots for each target.

use std::fmt::Write as _;

use super::number;
use super::svg::{COLOURS, MARGIN, WIDTH, escaped, framed};

/// A picture of lines or dots.
#[derive(Clone, Debug)]
pub struct Lines {
    /// What goes up, with its unit.
    pub title: String,
    /// What goes to the right.
    pub along: String,
    /// What a mark on a line means.
    pub mark: String,
    /// How points are shown.
    pub shape: Shape,
    /// The lines.
    pub lines: Vec<Line>,
}

/// How points are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As a line through them.
    Line,
    /// Each as a dot, which says what it is.
    Dots,
}

/// One line, or dots of one colour.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is of.
    pub label: String,
    /// The number of its colour.
    pub colour: usize,
    /// Its points, from the left to the right.
    pub points: Vec<(f64, f64)>,
    /// A point of it that is marked.
    pub mark: Option<(f64, f64)>,
}

const HEIGHT: f64 = 150.0;
const LEFT: f64 = 46.0;
/// How wide a letter of a label is at most, so that labels below each other fit beside each other where they can.
const LETTER: f64 = 6.6;
const KEY_STEP: f64 = 18.0;

impl Lines {
    /// The picture as SVG.
    pub(super) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let most = |values: &mut dyn Iterator<Item = f64>| steps(values.fold(0.0, f64::max));
        let (across, x_step) = most(&mut points().map(|point| point.0));
        let (up, y_step) = most(&mut points().map(|point| point.1));
        let mut out = String::new();
        let keys = self.keys(&mut out);
        let bottom = keys + 16.0 + HEIGHT;
        let right = WIDTH - MARGIN - 8.0;
        let x = |value: f64| LEFT + value / across * (right - LEFT);
        let y = |value: f64| bottom - value / up * HEIGHT;
        for value in ticks(up, y_step) {
            let y = y(value);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right:.1}\"/><text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 5.0,
                y + 4.0,
                short(value, y_step)
            );
        }
        for value in ticks(across, x_step) {
            let text = short(value, x_step);
            // The last one may be long, and stays within the picture.
            let within = WIDTH - LETTER * text.chars().count() as f64 / 2.0;
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                x(value).min(within),
                bottom + 16.0
            );
        }
        for line in &self.lines {
            match self.shape {
                Shape::Line => put_line(&mut out, line, (&x, &y)),
                Shape::Dots => put_dots(&mut out, line, (&x, &y)),
            }
        }
        let is_marked = self.lines.iter().any(|line| line.mark.is_some());
        let along = match is_marked {
            true => format!("{}; ○ {}", self.along, self.mark),
            false => self.along.clone(),
        };
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH / 2.0,
            bottom + 32.0,
            escaped(&along)
        );
        framed(&self.title, bottom + 40.0, &out)
    }

    /// The colours of the lines and what they mean; gives where the picture goes on below them.
    fn keys(&self, out: &mut String) -> f64 {
        let (mut x, mut y) = (MARGIN, 38.0);
        for line in &self.lines {
            let width = 18.0 + LETTER * line.label.chars().count() as f64 + 10.0;
            if x > MARGIN && x + width > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + KEY_STEP);
            }
            let _ = writeln!(
                out,
                "<rect class=\"c{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"4\"/><text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                line.colour % COLOURS,
                y - 6.0,
                x + 17.0,
                escaped(&line.label)
            );
            x += width;
        }
        y
    }
}

fn put_line(out: &mut String, line: &Line, (x, y): (&dyn Fn(f64) -> f64, &dyn Fn(f64) -> f64)) {
    let colour = line.colour % COLOURS;
    let mut path = String::new();
    for (index, point) in line.points.iter().enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1} {:.1}", x(point.0), y(point.1));
    }
    let _ = writeln!(
        out,
        "<path class=\"line s{colour}\" d=\"{path}\"><title>{}</title></path>",
        escaped(&line.label)
    );
    if let Some((at, value)) = line.mark {
        let _ = writeln!(
            out,
            "<circle class=\"mark s{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}: {} s, {}</title></circle>",
            x(at),
            y(value),
            escaped(&line.label),
            number(at),
            number(value)
        );
    }
}

fn put_dots(out: &mut String, line: &Line, (x, y): (&dyn Fn(f64) -> f64, &dyn Fn(f64) -> f64)) {
    for &(along, up) in &line.points {
        let _ = writeln!(
            out,
            "<circle class=\"c{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}: {}, {}</title></circle>",
            line.colour % COLOURS,
            x(along),
            y(up),
            escaped(&line.label),
            number(along),
            number(up)
        );
    }
}

/// The end of an axis that has room for `most`, and the distance of its ticks: three to six of them.
fn steps(most: f64) -> (f64, f64) {
    if !(most.is_finite() && most > 0.0) {
        return (1.0, 0.5);
    }
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let fits = |factor: &f64| most / (power * factor) <= 5.0;
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(fits).unwrap_or(10.0);
    let step = power * factor;
    ((most / step).ceil() * step, step)
}

fn ticks(end: f64, step: f64) -> impl Iterator<Item = f64> {
    let count = (end / step).round().clamp(1.0, 10.0) as u32;
    (0..=count).map(move |tick| f64::from(tick) * step)
}

/// A number at a tick, with as many digits as the distance of the ticks needs.
fn short(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(points: &[(f64, f64)], count: usize, shape: Shape) -> String {
        let line = |colour| Line {
            label: format!("penstock <mode> {colour}"),
            colour,
            points: points.to_vec(),
            mark: points.last().copied(),
        };
        let lines = Lines {
            title: "t".to_owned(),
            along: "seconds".to_owned(),
            mark: "m".to_owned(),
            shape,
            lines: (0..count).map(line).collect(),
        };
        lines.svg()
    }

    #[test]
    fn axes_have_round_numbers_and_room() {
        let table = [
            (1.0, (1.0, 0.2)),
            (0.0, (1.0, 0.5)),
            (37.0, (40.0, 10.0)),
            (5200.0, (6000.0, 2000.0)),
        ];
        for (most, (end, step)) in table {
            let found = steps(most);
            assert!(
                (found.0 - end).abs() < 1e-9 && (found.1 - step).abs() < 1e-9,
                "{most}: {found:?}"
            );
        }
        for most in [1e-6, 0.3, 0.99, 1.01, 7.0, 123.0, 999_999.0] {
            let (end, step) = steps(most);
            let count = ticks(end, step).count();
            assert!(
                end >= most && (3..=7).contains(&count),
                "{most}: {end} {step}"
            );
        }
        assert_eq!(
            (short(0.25, 0.05), short(1500.0, 500.0)),
            ("0.25".to_owned(), "1500".to_owned())
        );
    }

    #[test]
    fn every_line_has_its_key_and_its_mark() {
        let points = [(0.1, 5.0), (0.2, 0.0), (3.0, 7000.0)];
        let svg = shown(&points, 7, Shape::Line);
        assert_eq!(svg.matches("class=\"line").count(), 7);
        assert_eq!(svg.matches("class=\"mark").count(), 7);
        assert!(svg.contains("penstock &lt;mode&gt; 6") && !svg.contains("<mode>"));
        let svg = shown(&points, 2, Shape::Dots);
        assert_eq!(svg.matches("r=\"5\"").count(), 6);
        let shapes = [Shape::Line, Shape::Dots];
        for empty in shapes.map(|shape| shown(&[], 1, shape) + &shown(&[(0.0, 0.0)], 1, shape)) {
            assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
        }
    }
}
