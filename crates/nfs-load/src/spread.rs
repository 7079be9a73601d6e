//! What several rounds of one figure come to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Median and range of one figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The value in the middle; for an even number of values, the mean of the two in the middle.
    pub median: f64,
    /// The smallest of the values.
    pub min: f64,
    /// The largest of the values.
    pub max: f64,
}

impl Spread {
    /// The median and the range of `values`, or `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let even = sorted.len().is_multiple_of(2);
        let lower = if even {
            *sorted.get(middle - 1)?
        } else {
            upper
        };
        Some(Self {
            median: f64::midpoint(lower, upper),
            min,
            max,
        })
    }
}

impl Spread {
    /// This spread in another unit, of which there are `factor` to one.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            min: self.min * factor,
            max: self.max * factor,
        }
    }

    /// The spread of `values` with `digits` digits behind the point, for a table; `-` if there are none.
    pub fn cell(values: impl IntoIterator<Item = f64>, digits: usize) -> String {
        Self::of(values).map_or("-".to_owned(), |spread| format!("{spread:.digits$}"))
    }
}

/// `median (min..max)`, with as many digits as are asked for.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        let Self { median, min, max } = self;
        write!(f, "{median:.digits$} ({min:.digits$}..{max:.digits$})")
    }
}

/// The middle of the values; `None` for none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// One figure as a multiple of another, for a table; `-` where one of them was not measured.
pub fn ratio(own: Option<f64>, other: Option<f64>) -> String {
    match own.zip(other) {
        Some((own, other)) if other > 0.0 => format!("{:.2}", own / other),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_odd_and_even_rounds() {
        assert_eq!(
            Spread::of([3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(
            Spread::of([4.0, 1.0]),
            Some(Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            })
        );
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::cell([4.0, 1.0], 1), "2.5 (1.0..4.0)");
        assert_eq!(Spread::cell([], 1), "-");
    }
}
