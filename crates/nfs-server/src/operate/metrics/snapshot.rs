//! The figures of one moment.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::table::{Definition, Kind, TABLE};

/// Names and values of the labels of a [`Sample`], in the order of their names.
pub type Labels = BTreeMap<String, String>;

/// All figures of one moment, as `/metrics`, `penstock ctl metrics` and the pages see them.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When the figures were read, in milliseconds since 1970 (UTC).
    pub at_unix_ms: u64,
    /// The metrics that have a value, in the order of [`TABLE`].
    pub families: Vec<Family>,
}

/// One metric with all its values.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Family {
    /// The name as Prometheus shows it, with `_total` where it is a counter.
    pub name: String,
    /// How its values behave over time.
    pub kind: Kind,
    /// What is counted or measured: `seconds`, `bytes`, or empty for plain numbers.
    pub unit: String,
    /// The metric in one sentence.
    pub help: String,
    /// The values, one for each combination of labels.
    pub samples: Vec<Sample>,
}

/// One value of a metric.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Sample {
    /// Which of the metric's values this is.
    pub labels: Labels,
    /// The value, as `number` or `histogram`.
    #[serde(flatten)]
    pub value: Value,
}

/// The value of a [`Sample`].
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// Of a counter or a gauge.
    Number(Number),
    /// What a histogram counted, class by class.
    Histogram(Histogram),
}

/// A number, exact where it is a whole one.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(untagged)]
pub enum Number {
    /// A count or a number of bytes.
    Whole(u64),
    /// A number of seconds, with its fractions.
    Real(f64),
}

impl Number {
    /// The number for drawing and reckoning; above 2^53 it is rounded.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// How long things took, class by class.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// For each bound, in seconds, how many took that long or less; bounds and numbers only rise.
    pub buckets: Vec<(f64, u64)>,
    /// What all of them took together, in seconds.
    pub sum: f64,
    /// How many there were, those beyond the last bound among them.
    pub count: u64,
}

impl Snapshot {
    /// The family of this definition, if it has a value.
    #[must_use]
    pub fn family(&self, definition: &Definition) -> Option<&Family> {
        let name = definition.name;
        self.families.iter().find(|family| family.name == name)
    }

    /// The sum of the numbers of a family whose labels are as in `labels`; 0 where there are none.
    #[must_use]
    pub fn sum(&self, definition: &Definition, labels: &[(&str, &str)]) -> f64 {
        let family = self.family(definition).into_iter();
        let samples = family.flat_map(|family| &family.samples);
        let numbers = samples.filter_map(|sample| match &sample.value {
            Value::Number(number) if sample.has(labels) => Some(number.as_f64()),
            Value::Number(_) | Value::Histogram(_) => None,
        });
        // The sum of no numbers would be -0.
        numbers.fold(0.0, |sum, number| sum + number)
    }
}

impl Sample {
    /// Whether each of these labels has this value.
    #[must_use]
    pub fn has(&self, labels: &[(&str, &str)]) -> bool {
        let is =
            |(name, value): &(&str, &str)| self.labels.get(*name).is_some_and(|it| it == value);
        labels.iter().all(is)
    }
}

/// A snapshot in the making: values are added metric by metric, and come out in the order of the table.
#[derive(Debug, Default)]
pub struct Builder {
    samples: BTreeMap<&'static str, Vec<Sample>>,
}

impl Builder {
    /// Adds a number. `labels` are the values of the definition's labels, in their order.
    pub fn number(&mut self, of: &'static Definition, labels: &[&str], number: impl Into<Number>) {
        self.add(of, labels, Value::Number(number.into()));
    }

    /// Adds a histogram. `labels` are the values of the definition's labels, in their order.
    pub fn histogram(&mut self, of: &'static Definition, labels: &[&str], histogram: Histogram) {
        self.add(of, labels, Value::Histogram(histogram));
    }

    fn add(&mut self, of: &'static Definition, labels: &[&str], value: Value) {
        debug_assert_eq!(of.labels.len(), labels.len(), "{}", of.name);
        let labels = of.labels.iter().zip(labels);
        let labels = labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let labels = labels.collect();
        let samples = self.samples.entry(of.name).or_default();
        samples.push(Sample { labels, value });
    }

    /// Adds what the table has from `counters`, the counters by the names under which `penstock ctl status` shows
    /// them.
    pub fn counters(&mut self, counters: &BTreeMap<String, u64>) {
        for definition in TABLE {
            for (name, labels) in definition.counters {
                if let Some(value) = counters.get(*name) {
                    self.number(definition, labels, *value);
                }
            }
        }
    }

    /// The snapshot of all that was added, dated now.
    #[must_use]
    pub fn build(mut self) -> Snapshot {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let at = since.map_or(0, |since| since.as_millis());
        let families = TABLE.iter().filter_map(|definition| {
            let samples = self.samples.remove(definition.name)?;
            Some(Family {
                name: definition.name.to_owned(),
                kind: definition.kind,
                unit: definition.unit.to_owned(),
                help: definition.help.to_owned(),
                samples,
            })
        });
        Snapshot {
            at_unix_ms: u64::try_from(at).unwrap_or(u64::MAX),
            families: families.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CALLS_RUNNING, OPERATION_DURATION, OPERATIONS, REFUSALS};
    use super::*;

    #[test]
    fn a_snapshot_is_the_same_after_its_way_through_json() {
        let mut builder = Builder::default();
        builder.number(&CALLS_RUNNING, &[], u64::MAX);
        builder.number(&OPERATIONS, &["/", "READ", "3", "direct"], 7);
        let histogram = Histogram {
            buckets: vec![(0.000_008, 1), (0.25, 3)],
            sum: 0.5,
            count: 4,
        };
        builder.histogram(
            &OPERATION_DURATION,
            &["/", "READ", "3", "direct"],
            histogram,
        );
        let snapshot = builder.build();
        let text = serde_json::to_string(&snapshot).unwrap();
        assert!(text.contains(r#""number":18446744073709551615"#), "{text}");
        let back: Snapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(back, snapshot);
    }

    #[test]
    fn counters_become_what_the_table_says_of_them() {
        let counters = [("connections_refused", 3), ("helper_jobs_refused", 4)];
        let counters = counters.map(|(name, value)| (name.to_owned(), value));
        let mut builder = Builder::default();
        builder.counters(&counters.into());
        let snapshot = builder.build();
        assert_eq!(snapshot.sum(&REFUSALS, &[]), 7.0);
        assert_eq!(snapshot.sum(&REFUSALS, &[("limit", "connections")]), 3.0);
        assert_eq!(
            snapshot.sum(&REFUSALS, &[("limit", "none-such")]).to_bits(),
            0
        );
        assert_eq!(snapshot.families.len(), 1);
    }
}
