//! Which lines of the audit are asked for.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::PossibleValuesParser;
use ipnet::IpNet;
use nfs_client::nfs3::Nfstime3;
use nfs_io::glob::{Glob, GlobError};
use nfs_server::exports::config::parse_net;
use nfs_server::operate::control::{AuditEvent, AuditLine};

use crate::show;
use crate::values::time::Time;

/// The conditions of `penstock audit`, which all have to hold.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Only calls that came from this address or network
    #[arg(long, value_name = "ADDR[/LEN]", value_parser = parse_net)]
    client: Vec<IpNet>,
    /// Only calls of this user, by number
    #[arg(long, value_name = "UID")]
    uid: Vec<u32>,
    /// Only calls on a name, old or new, that the pattern matches: *, ?, [a-z], [!0-9]. Names are compared as
    /// they are printed
    #[arg(long, value_name = "PATTERN", value_parser = glob)]
    name: Vec<Glob>,
    /// Only these procedures, separated by commas
    #[arg(long, value_name = "PROCEDURE", value_delimiter = ',', value_parser = PossibleValuesParser::new(AuditEvent::OPERATIONS))]
    procedure: Vec<String>,
    /// Only calls answered since then: 2026-01-31, 2026-01-31T23:59:59 (UTC), @SECONDS since 1970, or that long
    /// ago: 90s, 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<String>,
}

/// A reading of the lines, one after the other.
pub(super) struct Chosen<'f> {
    filter: &'f Filter,
    /// The lines have come to the time that was asked for.
    has_begun: bool,
}

impl Filter {
    pub(super) fn begin(&self) -> Chosen<'_> {
        Chosen {
            filter: self,
            has_begun: self.since.is_none(),
        }
    }

    fn takes(&self, event: &AuditEvent) -> bool {
        let client = event.client.parse::<SocketAddr>().map(|peer| peer.ip());
        let is_from = |net: &IpNet| client.as_ref().is_ok_and(|ip: &IpAddr| net.contains(ip));
        let names = [own_name(event), event.to_name.as_deref()];
        let is_named = |glob: &Glob| {
            let mut names = names.iter().flatten();
            names.any(|name| glob.matches(name.as_bytes()))
        };
        any(&self.client, is_from)
            && any(&self.uid, |uid| event.uid == Some(*uid))
            && any(&self.procedure, |word| *word == event.operation)
            && any(&self.name, is_named)
    }
}

impl Chosen<'_> {
    /// Is this line asked for? What was lost might have been.
    pub(super) fn takes(&mut self, line: &AuditLine) -> bool {
        match line {
            AuditLine::Lost { .. } => self.has_begun,
            AuditLine::Event(event) => {
                let since = self.filter.since.as_deref();
                // Both are UTC from the year to the second: their order is that of their texts.
                let is_late_enough = since.is_none_or(|since| event.time.as_str() >= since);
                self.has_begun |= is_late_enough;
                is_late_enough && self.filter.takes(event)
            }
        }
    }
}

/// Without a condition everything is asked for.
fn any<T>(values: &[T], holds: impl FnMut(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(holds)
}

/// The name in a directory or, of an object itself, the last one of its path.
fn own_name(event: &AuditEvent) -> Option<&str> {
    let of_path = || event.path.as_deref()?.rsplit('/').next();
    event.name.as_deref().or_else(of_path)
}

/// A pattern for names, with what is wrong with it in a sentence.
fn glob(text: &str) -> Result<Glob, String> {
    text.parse()
        .map_err(|error: GlobError| format!("the pattern has {error}"))
}

/// A time as people give it, as the audit writes it.
fn since(text: &str) -> Result<String, String> {
    let time = match ago(text) {
        Some(ago) => before(SystemTime::now(), ago),
        None => {
            text.parse::<Time>()
                .map_err(|error| format!("{error}; or that long ago: 90s, 15m, 2h, 7d"))?
                .0
        }
    };
    Ok(show::time_text(time).replace(' ', "T"))
}

fn ago(text: &str) -> Option<Duration> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let (number, seconds) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    Some(Duration::from_secs(number.saturating_mul(seconds)))
}

fn before(now: SystemTime, ago: Duration) -> Nfstime3 {
    let then = now.checked_sub(ago).unwrap_or(UNIX_EPOCH);
    let since_1970 = then.duration_since(UNIX_EPOCH).unwrap_or_default();
    Nfstime3 {
        seconds: u32::try_from(since_1970.as_secs()).unwrap_or(u32::MAX),
        nseconds: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        filter: Filter,
    }

    fn filter(words: &[&str]) -> Filter {
        Line::parse_from([&["audit"], words].concat()).filter
    }

    fn event() -> AuditEvent {
        AuditEvent {
            time: "2026-05-04T09:12:33.120031Z".to_owned(),
            operation: "rename".to_owned(),
            client: "10.0.0.7:873".to_owned(),
            uid: Some(1000),
            name: Some("draft.txt".to_owned()),
            to_name: Some("final.txt".to_owned()),
            ..AuditEvent::default()
        }
    }

    #[test]
    fn each_condition_has_to_hold_with_one_of_its_values() {
        for (words, expected) in [
            (&[][..], true),
            (&["--client", "10.0.0.0/8"], true),
            (&["--client", "10.0.0.7"], true),
            (&["--client", "10.0.0.8"], false),
            (&["--client", "::/0"], false),
            (&["--client", "10.0.0.8", "--client", "10.0.0.7"], true),
            (&["--uid", "1000"], true),
            (&["--uid", "0"], false),
            (&["--uid", "1000", "--client", "10.0.0.8"], false),
            (&["--name", "draft*"], true),
            (&["--name", "*.txt"], true),
            (&["--name", "final.txt"], true),
            (&["--name", "final"], false),
            (&["--procedure", "remove,rename"], true),
            (&["--procedure", "remove"], false),
            (&["--since", "2026-05-04"], true),
            (&["--since", "2026-05-04T09:12:33"], true),
            (&["--since", "2026-05-04T09:12:34"], false),
        ] {
            let line = AuditLine::Event(Box::new(event()));
            assert_eq!(filter(words).begin().takes(&line), expected, "{words:?}");
        }
    }

    #[test]
    fn an_object_without_a_name_has_that_of_its_path() {
        let of_object = AuditEvent {
            name: None,
            to_name: None,
            path: Some("/dir/kept.txt".to_owned()),
            ..event()
        };
        let line = AuditLine::Event(Box::new(of_object));
        assert!(filter(&["--name", "kept.txt"]).begin().takes(&line));
        assert!(!filter(&["--name", "dir*"]).begin().takes(&line));
    }

    #[test]
    fn what_was_lost_is_told_of_from_the_time_on_that_is_asked_for() {
        let filter = filter(&["--since", "2026-05-04", "--uid", "0"]);
        let mut chosen = filter.begin();
        let lost = AuditLine::Lost { lost: 7 };
        assert!(!chosen.takes(&lost));
        assert!(!chosen.takes(&AuditLine::Event(Box::new(event()))));
        assert!(chosen.takes(&lost));
    }

    #[test]
    fn a_time_may_be_that_long_ago() {
        assert_eq!(ago("90s"), Some(Duration::from_secs(90)));
        assert_eq!(ago("7d"), Some(Duration::from_secs(7 * 86_400)));
        for wrong in ["", "s", "1", "-1s", "+1s", "1.5h", "1w"] {
            assert_eq!(ago(wrong), None, "{wrong}");
        }
        let now = UNIX_EPOCH + Duration::from_secs(3600);
        assert_eq!(before(now, Duration::from_secs(60)).seconds, 3540);
        assert_eq!(before(now, Duration::MAX).seconds, 0);
        assert_eq!(since("2026-01-31"), Ok("2026-01-31T00:00:00".to_owned()));
        assert!(since("yesterday").unwrap_err().contains("2h"));
    }
}
