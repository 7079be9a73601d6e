//! Figures over time, or over a setting, as pictures: one SVG with a panel for each figure and a line for each contender.
//!
//! Written by hand, since it is a few hundred bytes of axes and polylines; its colours follow the viewer's light or dark
//! scheme.

use std::fmt::Write as _;

/// The line that one contender has in each panel.
#[derive(Clone, Debug)]
pub struct Line {
    /// The contender's name in the legend.
    pub name: String,
    /// For each panel the points of the line: where on the axis, usually seconds, and the figure.
    pub panels: Vec<Vec<(f64, f64)>>,
}

/// The title of a panel and the level that is marked in it.
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    /// Title of the panel, with the unit of its figures.
    pub title: &'static str,
    /// A level that means something, drawn dashed, and what it means.
    pub level: Option<(f64, &'static str)>,
}

/// Draws `lines` in `panels`, one above another, as an SVG picture. The panels share the axis at the bottom,
/// and `below` is its caption.
pub fn svg(title: &str, below: &str, panels: &[Panel], lines: &[Line]) -> String {
    let seconds = lines
        .iter()
        .flat_map(|line| line.panels.iter().flatten())
        .map(|point| point.0)
        .fold(0.0, f64::max);
    let across = Axis::new(seconds, LEFT, WIDTH - RIGHT);
    let height = TOP + PANEL * panels.len() as f64 + BOTTOM;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{}</title>\n{STYLE}<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"26\">{}</text>\n",
        escaped(title),
        escaped(title)
    );
    legend(&mut out, lines);
    for (index, panel) in panels.iter().enumerate() {
        let top = TOP + PANEL * index as f64;
        draw_panel(&mut out, index, panel, top, &across, lines);
    }
    let bottom = TOP + PANEL * panels.len() as f64;
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\n</svg>",
        bottom + 16.0,
        escaped(below)
    );
    out
}

fn legend(out: &mut String, lines: &[Line]) {
    let mut x = LEFT;
    for (index, line) in lines.iter().enumerate() {
        let class = index % COLOURS;
        let _ = writeln!(
            out,
            "<line class=\"l{class}\" x1=\"{x:.0}\" y1=\"46\" x2=\"{:.0}\" y2=\"46\"/><text x=\"{:.0}\" y=\"50\">{}</text>",
            x + 24.0,
            x + 30.0,
            escaped(&line.name)
        );
        x += 48.0 + line.name.chars().count() as f64 * 7.2;
    }
}

fn draw_panel(
    out: &mut String,
    index: usize,
    panel: &Panel,
    top: f64,
    across: &Axis,
    lines: &[Line],
) {
    let values = lines
        .iter()
        .filter_map(|line| line.panels.get(index))
        .flatten();
    let level = panel.level.map_or(0.0, |level| level.0);
    let most = values.map(|point| point.1).fold(level, f64::max);
    let (upper, lower) = (top + 24.0, top + PANEL - 22.0);
    // Zero lies at the bottom.
    let up = Axis::new(most * 1.05, lower, upper);
    let right = WIDTH - RIGHT;
    let _ = writeln!(
        out,
        "<text class=\"panel\" x=\"{LEFT}\" y=\"{:.0}\">{}</text>",
        top + 15.0,
        escaped(panel.title)
    );
    for tick in up.ticks() {
        let y = up.at(tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            number(tick)
        );
    }
    for tick in across.ticks() {
        let x = across.at(tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{upper:.1}\" x2=\"{x:.1}\" y2=\"{lower:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            lower + 16.0,
            number(tick)
        );
    }
    if let Some((value, meaning)) = panel.level {
        let y = up.at(value);
        let _ = writeln!(
            out,
            "<line class=\"level\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/><text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            y - 4.0,
            escaped(meaning)
        );
    }
    for (class, line) in lines.iter().enumerate() {
        let Some(points) = line.panels.get(index) else {
            continue;
        };
        let places: Vec<String> = points
            .iter()
            .map(|(seconds, value)| format!("{:.1},{:.1}", across.at(*seconds), up.at(*value)))
            .collect();
        let class = class % COLOURS;
        let _ = writeln!(
            out,
            "<polyline class=\"l{class}\" points=\"{}\"/>",
            places.join(" ")
        );
        // Where a run ends is part of the picture: the others go on.
        if let Some(last) = places.last().and_then(|last| last.split_once(',')) {
            let _ = writeln!(
                out,
                "<circle class=\"c{class}\" cx=\"{}\" cy=\"{}\" r=\"3.5\"/>",
                last.0, last.1
            );
        }
    }
}

/// An axis for figures from 0 to `most`, which is drawn from the coordinate `from` to `to`.
struct Axis {
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(most: f64, from: f64, to: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        Self { most, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * value / self.most
    }

    /// The ticks of the axis, at most nine and at round numbers, from 0 on.
    fn ticks(&self) -> Vec<f64> {
        let rough = self.most / 5.0;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        (0..=8)
            .map(|index| f64::from(index) * step)
            .take_while(|tick| *tick <= self.most)
            .collect()
    }
}

/// A tick's number with at most two decimals, and no zeros at their end.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

const WIDTH: f64 = 920.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const PANEL: f64 = 210.0;
const BOTTOM: f64 = 30.0;
/// How many lines can be told apart, by colour and by dashes.
const COLOURS: usize = 6;
/// No variables, which some viewers do not know: the dark colours are simply said again.
const STYLE: &str = "<style>\n\
  text { font: 12px system-ui, sans-serif } .title { font-size: 16px; font-weight: 600 } .panel { font-size: 13px; font-weight: 600 }\n\
  .grid { stroke-width: 1 } .level { stroke-width: 1; stroke-dasharray: 2 4 } polyline { fill: none; stroke-linejoin: round }\n\
  .l0, .l1, .l2, .l3, .l4, .l5 { stroke-width: 2 } .l2 { stroke-width: 3 } .l1 { stroke-dasharray: 7 3 }\n\
  .l3 { stroke-dasharray: 3 3 } .l4 { stroke-dasharray: 9 3 2 3 } .l5 { stroke-dasharray: 1 3 }\n\
  text { fill: #222 } .paper { fill: #fff } .grid { stroke: #ddd } .level { stroke: #222 }\n\
  .l0 { stroke: #c2410c } .c0 { fill: #c2410c } .l1 { stroke: #7c3aed } .c1 { fill: #7c3aed } .l2 { stroke: #0369a1 } .c2 { fill: #0369a1 }\n\
  .l3 { stroke: #15803d } .c3 { fill: #15803d } .l4 { stroke: #a16207 } .c4 { fill: #a16207 } .l5 { stroke: #666 } .c5 { fill: #666 }\n\
  @media (prefers-color-scheme: dark) {\n\
  text { fill: #ddd } .paper { fill: #16181d } .grid { stroke: #363a42 } .level { stroke: #ddd }\n\
  .l0 { stroke: #fb923c } .c0 { fill: #fb923c } .l1 { stroke: #c4b5fd } .c1 { fill: #c4b5fd } .l2 { stroke: #38bdf8 } .c2 { fill: #38bdf8 }\n\
  .l3 { stroke: #4ade80 } .c3 { fill: #4ade80 } .l4 { stroke: #facc15 } .c4 { fill: #facc15 } .l5 { stroke: #999 } .c5 { fill: #999 }\n\
  }\n\
</style>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for most in [0.3, 1.0, 7.0, 99.0, 4321.0, 1e6] {
            let ticks = Axis::new(most, 0.0, 1.0).ticks();
            assert!((2..=8).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!(ticks.iter().all(|tick| (0.0..=most).contains(tick)));
        }
    }

    #[test]
    fn every_line_is_in_every_panel() {
        let panels = [
            Panel {
                title: "a < b",
                level: None,
            },
            Panel {
                title: "c",
                level: Some((10.0, "the limit")),
            },
        ];
        let line = |name: &str| Line {
            name: name.to_owned(),
            panels: vec![vec![(0.0, 1.0), (1.0, 2.0)], vec![(0.0, 3.0), (1.0, 0.0)]],
        };
        let svg = svg("t", "x", &panels, &[line("one"), line("two")]);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("a &lt; b") && svg.contains("the limit"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_at_all_is_a_picture_too() {
        let panels = [Panel {
            title: "a",
            level: None,
        }];
        assert!(!svg("t", "x", &panels, &[]).contains("NaN"));
    }
}
