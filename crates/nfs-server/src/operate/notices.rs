//! Which lines about a peer go to the log: what anybody can make the server say, anybody can make it say often.
//!
//! An event that a peer can repeat is counted always ([`Counters`](super::counters::Counters)) and gets its
//! line only within two quotas: that of its address and that of all addresses together, each for one [`Topic`],
//! so that a flood of one kind hides no line of another kind, and a flood from one address none about another
//! address. What is left out is counted, and the next line about the address, or [`Notices::overdue`], says
//! how many they were.
//!
//! The module has no clock, writes nothing, and remembers at most [`limits::NOTICED_MAX`] addresses.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::limits;
use crate::network::Network;

/// What a line is about. Each has quotas of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// A connection was refused before anything of it was read.
    ConnectionRefused,
    /// A connection came when there were as many as there may be.
    ConnectionsFull,
    /// A program of this machine connected that may use no export.
    LocalBarred,
    /// A MNT was answered with a handle.
    MountGranted,
    /// A MNT was refused.
    MountRefused,
    /// An NFS call was refused by the rules of its export.
    CallRefused,
    /// A connection or call of a host that the administrator shut out was refused.
    Blocked,
    /// A client used an export for the first time.
    FirstUse,
    /// Two machines call themselves by one name, as clients of NFSv4.
    SharedName,
}

impl Topic {
    const ALL: [Self; 9] = [
        Self::ConnectionRefused,
        Self::ConnectionsFull,
        Self::LocalBarred,
        Self::MountGranted,
        Self::MountRefused,
        Self::CallRefused,
        Self::Blocked,
        Self::FirstUse,
        Self::SharedName,
    ];

    /// What its events are, for a line that says how many of them had none.
    const fn events(self) -> &'static str {
        match self {
            Self::ConnectionRefused => "refused connections",
            Self::ConnectionsFull => "connections beyond what there may be",
            Self::LocalBarred => "refused connections of local programs",
            Self::MountGranted => "mounts",
            Self::MountRefused => "refused mounts",
            Self::CallRefused => "refused calls",
            Self::Blocked => "refusals of blocked hosts",
            Self::FirstUse => "first uses of exports",
            Self::SharedName => "names that two machines share",
        }
    }
}

/// Remembers how much was said about whom.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    by_whom: HashMap<(Topic, Network), Spent>,
    /// For the addresses that found no place in `by_whom`: together they have one address's quota.
    crowd: HashMap<Topic, Spent>,
    /// For all addresses together.
    overall: HashMap<Topic, Quota>,
}

/// Leave to write one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Leave {
    /// Lines like it that were left out since the last one.
    left_out: u64,
}

/// Lines that were left out and that no later line has told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    topic: Topic,
    /// `None`: of addresses beyond those that are remembered.
    whom: Option<Network>,
    lines: u64,
}

impl Notices {
    /// Whether the event of now may have a line. Where it may not, it is counted as left out.
    pub(crate) fn note(&mut self, topic: Topic, whom: IpAddr, now: Instant) -> Option<Leave> {
        let key = (topic, Network::of(whom));
        let has_place = self.by_whom.len() < limits::NOTICED_MAX || self.by_whom.contains_key(&key);
        let spent = if has_place {
            self.by_whom.entry(key).or_default()
        } else {
            self.crowd.entry(topic).or_default()
        };
        let overall = self.overall.entry(topic).or_default();
        if spent.quota.has_room(&PER_ADDRESS, now) && overall.has_room(&OVERALL, now) {
            spent.quota.take(&PER_ADDRESS, now);
            overall.take(&OVERALL, now);
            let left_out = std::mem::take(&mut spent.left_out);
            Some(Leave { left_out })
        } else {
            spent.left_out += 1;
            None
        }
    }

    /// What was left out and may be said by now, and forgets whom nothing is left to say about. To be called
    /// every few seconds: who falls silent after a flood has its last lines told of here.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<LeftOut> {
        let Self {
            by_whom,
            crowd,
            overall,
        } = self;
        let mut said = Vec::new();
        let mut look = |topic, whom, spent: &mut Spent| {
            let overall = overall.entry(topic).or_default();
            if spent.left_out > 0
                && spent.quota.has_room(&PER_ADDRESS, now)
                && overall.has_room(&OVERALL, now)
            {
                spent.quota.take(&PER_ADDRESS, now);
                overall.take(&OVERALL, now);
                let lines = std::mem::take(&mut spent.left_out);
                said.push(LeftOut { topic, whom, lines });
            }
            spent.left_out > 0 || !spent.quota.is_whole(now)
        };
        for topic in Topic::ALL {
            if let Some(spent) = crowd.get_mut(&topic) {
                look(topic, None, spent);
            }
        }
        by_whom.retain(|(topic, whom), spent| look(*topic, Some(*whom), spent));
        said
    }
}

impl fmt::Display for Leave {
    /// Nothing, or the end of a line that follows others that were left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left_out {
            0 => Ok(()),
            lines => write!(f, " ({lines} more lines like this were left out before)"),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lines, events) = (self.lines, self.topic.events());
        match self.whom {
            Some(whom) => write!(
                f,
                "{lines} more {events} of {whom} had no line of their own"
            ),
            None => write!(
                f,
                "{lines} more {events} of many addresses had no line of their own"
            ),
        }
    }
}

/// How much was said about one address, and what was not.
#[derive(Debug, Default)]
struct Spent {
    quota: Quota,
    left_out: u64,
}

/// A number of lines that may be used at once, each of which comes back after a while.
struct Size {
    lines: u32,
    comes_back: Duration,
}

const PER_ADDRESS: Size = Size {
    lines: limits::NOTICES_PER_ADDRESS,
    comes_back: Duration::from_secs(limits::NOTICE_PER_ADDRESS_SECONDS),
};

const OVERALL: Size = Size {
    lines: limits::NOTICES_OVERALL,
    comes_back: Duration::from_secs(limits::NOTICE_OVERALL_SECONDS),
};

/// How much of a [`Size`] is used.
#[derive(Clone, Copy, Debug, Default)]
struct Quota {
    /// When every line that was used has come back; `None` if none was ever used.
    whole: Option<Instant>,
}

impl Quota {
    fn is_whole(&self, now: Instant) -> bool {
        self.whole.is_none_or(|whole| whole <= now)
    }

    fn has_room(&self, size: &Size, now: Instant) -> bool {
        let used = size.comes_back * (size.lines.saturating_sub(1));
        self.whole.is_none_or(|whole| whole <= now + used)
    }

    fn take(&mut self, size: &Size, now: Instant) {
        let whole = self.whole.map_or(now, |whole| whole.max(now));
        self.whole = Some(whole + size.comes_back);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const TOPIC: Topic = Topic::ConnectionRefused;

    fn host(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number))
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_flood_gets_a_few_lines_and_the_next_one_says_how_many_more_there_were() {
        let (mut notices, start) = (Notices::default(), Instant::now());
        let said = (0..1000).filter_map(|_| notices.note(TOPIC, host(1), start));
        assert_eq!(said.count(), limits::NOTICES_PER_ADDRESS as usize);
        let later = start + seconds(limits::NOTICE_PER_ADDRESS_SECONDS);
        let leave = notices.note(TOPIC, host(1), later).unwrap();
        assert_eq!(
            leave.left_out,
            1000 - u64::from(limits::NOTICES_PER_ADDRESS)
        );
        let line = format!("refused{leave}");
        assert!(line.contains("984 more lines like this"), "{line}");
        assert_eq!(notices.note(TOPIC, host(1), later), None);
    }

    #[test]
    fn a_flood_hides_no_line_about_another_address_or_of_another_kind() {
        let (mut notices, now) = (Notices::default(), Instant::now());
        for _ in 0..1000 {
            let _flood = notices.note(TOPIC, host(1), now);
        }
        let first = Leave { left_out: 0 };
        assert_eq!(notices.note(TOPIC, host(2), now), Some(first));
        assert_eq!(notices.note(Topic::LocalBarred, host(1), now), Some(first));
        assert_eq!(first.to_string(), "");
    }

    #[test]
    fn what_a_flood_left_out_is_said_when_it_is_over_and_then_forgotten() {
        let (mut notices, start) = (Notices::default(), Instant::now());
        for _ in 0..100 {
            let _flood = notices.note(TOPIC, host(1), start);
        }
        assert_eq!(notices.overdue(start), []);
        let later = start + seconds(limits::NOTICE_PER_ADDRESS_SECONDS);
        let said = notices.overdue(later);
        let lines: Vec<String> = said.iter().map(ToString::to_string).collect();
        let expected = "84 more refused connections of 10.0.0.1 had no line of their own";
        assert_eq!(lines, [expected]);
        assert_eq!(notices.overdue(later), []);
        let end = later + seconds(limits::NOTICE_PER_ADDRESS_SECONDS * 1000);
        assert_eq!(notices.overdue(end), []);
        assert!(notices.by_whom.is_empty());
    }

    #[test]
    fn any_number_of_addresses_takes_bounded_memory_and_bounded_lines() {
        let (mut notices, now) = (Notices::default(), Instant::now());
        let hosts = u32::try_from(limits::NOTICED_MAX).unwrap() * 2;
        let said = (0..hosts).filter_map(|number| notices.note(TOPIC, host(number), now));
        assert_eq!(said.count(), limits::NOTICES_OVERALL as usize);
        assert_eq!(notices.by_whom.len(), limits::NOTICED_MAX);
        let later = now + seconds(limits::NOTICE_OVERALL_SECONDS);
        let said = notices.overdue(later);
        let crowd = said.first().unwrap().to_string();
        assert!(crowd.contains("of many addresses"), "{crowd}");
        assert_eq!(said.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever comes when: each event has its line or is told of as left out, once; and no address has
        /// more lines than its quota lets it have in the time that passed.
        #[test]
        fn no_event_is_lost_and_no_quota_exceeded(
            events in prop::collection::vec((0_u32..3, 0_u64..4, any::<bool>()), 0..300),
        ) {
            let start = Instant::now();
            let (mut notices, mut now) = (Notices::default(), start);
            let mut lines = [0_u32; 3];
            let mut told = 0;
            for (number, pause, is_look) in &events {
                now += seconds(*pause);
                if *is_look {
                    for said in notices.overdue(now) {
                        told += said.lines;
                        let whom = (0..3).find(|host_| Some(Network::of(host(*host_))) == said.whom);
                        lines[whom.unwrap() as usize] += 1;
                    }
                } else if let Some(leave) = notices.note(TOPIC, host(*number), now) {
                    told += leave.left_out + 1;
                    lines[*number as usize] += 1;
                }
            }
            let passed = (now - start).as_secs() / limits::NOTICE_PER_ADDRESS_SECONDS;
            for lines in lines {
                prop_assert!(u64::from(lines) <= u64::from(limits::NOTICES_PER_ADDRESS) + passed);
            }
            let end = now + seconds(100_000);
            told += notices.overdue(end).iter().map(|said| said.lines).sum::<u64>();
            let noted = events.iter().filter(|(_, _, is_look)| !is_look).count();
            prop_assert_eq!(told, noted as u64);
        }
    }
}
