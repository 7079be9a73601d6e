//! A goal and how far it was reached. A run passes or fails nothing: a goal is a line of the report, so that nobody has to
//! compute it by hand.

use std::fmt;

use serde::Serialize;

/// A goal and how far it was reached.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The goal in words, for the report.
    pub goal: String,
    /// The figure that was measured, if there is one.
    pub value: Option<f64>,
    /// The figure that the value is held against, if there is one.
    pub bound: Option<f64>,
    /// Whether the goal is met; `None` where something was not measured.
    pub met: Option<bool>,
}

impl Verdict {
    pub(crate) fn at_least(goal: String, value: Option<f64>, bound: Option<f64>) -> Self {
        let met = value.zip(bound).map(|(value, bound)| value >= bound);
        Self {
            goal,
            value,
            bound,
            met,
        }
    }

    pub(crate) fn at_most(goal: String, value: Option<f64>, bound: Option<f64>) -> Self {
        let met = value.zip(bound).map(|(value, bound)| value <= bound);
        Self {
            goal,
            value,
            bound,
            met,
        }
    }

    /// The goal as a row of a table in Markdown: whether it is met, the goal, what was measured, the bound.
    pub fn markdown(&self) -> String {
        let (value, bound) = (number(self.value), number(self.bound));
        format!("| {} | {} | {value} | {bound} |\n", self.word(), self.goal)
    }

    /// One word that says whether the goal is met.
    fn word(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "NOT met",
            None => "not measured",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, bound) = (number(self.value), number(self.bound));
        let (word, goal) = (self.word(), &self.goal);
        write!(f, "{word:<12} {goal}: {value} (bound {bound})")
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.3}"))
}
