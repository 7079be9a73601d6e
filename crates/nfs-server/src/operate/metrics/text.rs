//! Snapshots in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use super::snapshot::{Family, Histogram, Number, Sample, Snapshot, Value};
use super::table::Kind;

/// The media type of [`prometheus`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The snapshot in the text format of Prometheus: each family with its HELP and TYPE, then a line for each value,
/// three or more for a histogram.
///
/// By hand: the encoders that there are take their own registry of living metrics, and what is written here is a
/// snapshot that was read already.
#[must_use]
pub fn prometheus(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for family in &snapshot.families {
        // A `String` takes everything.
        let _infallible = write_family(&mut out, family);
    }
    out
}

fn write_family(out: &mut String, family: &Family) -> std::fmt::Result {
    let name = &family.name;
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    writeln!(out, "# HELP {name} {help}")?;
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    writeln!(out, "# TYPE {name} {kind}")?;
    for sample in &family.samples {
        match &sample.value {
            Value::Number(number) => {
                write_name(out, name, "", sample, None)?;
                write_number(out, *number)?;
            }
            Value::Histogram(histogram) => write_histogram(out, name, sample, histogram)?,
        }
    }
    Ok(())
}

fn write_histogram(
    out: &mut String,
    name: &str,
    sample: &Sample,
    histogram: &Histogram,
) -> std::fmt::Result {
    let beyond = std::iter::once((f64::INFINITY, histogram.count));
    for (bound, count) in histogram.buckets.iter().copied().chain(beyond) {
        let bound = if bound.is_infinite() {
            "+Inf".to_owned()
        } else {
            bound.to_string()
        };
        write_name(out, name, "_bucket", sample, Some(&bound))?;
        write_number(out, Number::Whole(count))?;
    }
    write_name(out, name, "_sum", sample, None)?;
    write_number(out, Number::Real(histogram.sum))?;
    write_name(out, name, "_count", sample, None)?;
    write_number(out, Number::Whole(histogram.count))
}

/// The name with its labels, and a blank.
fn write_name(
    out: &mut String,
    name: &str,
    suffix: &str,
    sample: &Sample,
    bound: Option<&str>,
) -> std::fmt::Result {
    write!(out, "{name}{suffix}")?;
    let labels = sample.labels.iter();
    let labels = labels.map(|(name, value)| (name.as_str(), value.as_str()));
    let labels = labels.chain(bound.map(|bound| ("le", bound)));
    let mut separator = '{';
    for (name, value) in labels {
        write!(out, "{separator}{name}=\"")?;
        for character in value.chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            }
        }
        out.push('"');
        separator = ',';
    }
    out.push_str(if separator == ',' { "} " } else { " " });
    Ok(())
}

fn write_number(out: &mut String, number: Number) -> std::fmt::Result {
    match number {
        Number::Whole(number) => writeln!(out, "{number}"),
        Number::Real(number) => writeln!(out, "{number}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{BUFFER_BYTES, Builder, OPERATION_DURATION, TABLE, UPTIME};
    use super::*;

    /// Name, labels and value of a line.
    type Parsed = (String, Vec<(String, String)>, f64);

    /// A line of the format that has a value, taken apart by its grammar.
    fn parse(line: &str) -> Option<Parsed> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name_len = line.find(|c| !is_name(c))?;
        let (name, mut rest) = line.split_at(name_len);
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            loop {
                let (label, behind) = rest.split_once("=\"")?;
                let (mut value, mut characters) = (String::new(), behind.char_indices());
                let end = loop {
                    match characters.next()? {
                        (at, '"') => break at + 1,
                        (_, '\\') => value.push(match characters.next()?.1 {
                            'n' => '\n',
                            escaped @ ('"' | '\\') => escaped,
                            _ => return None,
                        }),
                        (_, other) => value.push(other),
                    }
                };
                if label.is_empty() || !label.chars().all(is_name) {
                    return None;
                }
                labels.push((label.to_owned(), value));
                rest = &behind[end..];
                match rest.strip_prefix(',') {
                    Some(next) => rest = next,
                    None => break,
                }
            }
            rest = rest.strip_prefix('}')?;
        }
        let value = rest.strip_prefix(' ')?;
        Some((name.to_owned(), labels, value.parse().ok()?))
    }

    #[test]
    fn a_snapshot_is_written_as_prometheus_reads_it() {
        let mut builder = Builder::default();
        builder.number(&UPTIME, &[], 1.5);
        builder.number(&BUFFER_BYTES, &["receive", "in-use"], 4096);
        let histogram = Histogram {
            buckets: vec![(0.000_016, 1), (0.5, 3)],
            sum: 7.25,
            count: 4,
        };
        builder.histogram(
            &OPERATION_DURATION,
            &["/", "READ", "3", "direct"],
            histogram,
        );
        let text = prometheus(&builder.build());
        let expected = [
            "penstock_uptime_seconds 1.5",
            "penstock_operation_duration_seconds_bucket{export=\"/\",mode=\"direct\",procedure=\"READ\",version=\"3\",le=\"0.000016\"} 1",
            "penstock_operation_duration_seconds_bucket{export=\"/\",mode=\"direct\",procedure=\"READ\",version=\"3\",le=\"0.5\"} 3",
            "penstock_operation_duration_seconds_bucket{export=\"/\",mode=\"direct\",procedure=\"READ\",version=\"3\",le=\"+Inf\"} 4",
            "penstock_operation_duration_seconds_sum{export=\"/\",mode=\"direct\",procedure=\"READ\",version=\"3\"} 7.25",
            "penstock_operation_duration_seconds_count{export=\"/\",mode=\"direct\",procedure=\"READ\",version=\"3\"} 4",
            "penstock_buffer_bytes{direction=\"receive\",state=\"in-use\"} 4096",
        ];
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(values, expected);
        assert!(text.contains("# TYPE penstock_operation_duration_seconds histogram\n"));
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn every_metric_is_written_in_lines_of_the_grammar() {
        let mut builder = Builder::default();
        for definition in TABLE {
            let labels = vec!["a"; definition.labels.len()];
            match definition.kind {
                Kind::Histogram => {
                    builder.histogram(definition, &labels, Histogram::default());
                }
                Kind::Counter | Kind::Gauge => builder.number(definition, &labels, 1),
            }
        }
        let text = prometheus(&builder.build());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(parse(line).is_some(), "{line}");
        }
        let types = text.lines().filter(|line| line.starts_with("# TYPE "));
        assert_eq!(types.count(), TABLE.len());
    }

    proptest! {
        #[test]
        fn any_value_of_a_label_comes_back_as_it_was(value in any::<String>(), number: u64) {
            let mut builder = Builder::default();
            builder.number(&BUFFER_BYTES, &[&value, "in-use"], number);
            let text = prometheus(&builder.build());
            let line = text.split_once("gauge\n").unwrap().1.strip_suffix('\n').unwrap();
            prop_assert!(!line.contains('\n'));
            let (name, labels, parsed) = parse(line).unwrap();
            prop_assert_eq!(name, "penstock_buffer_bytes");
            prop_assert_eq!(&labels[0].1, &value);
            prop_assert_eq!(parsed, number as f64);
        }
    }
}
