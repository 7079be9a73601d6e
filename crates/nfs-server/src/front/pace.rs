//! Rates: how long a client pauses that may have so many bytes or calls a second.
//!
//! What a client had is paid for with time. A client that owes no more than a second goes on at once, so
//! that whoever rests between bursts of a second does not notice its rate; beyond that its connections are not
//! read until the time has passed. Nothing of it is held meanwhile but what it sent already.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nfs_io::ClientKey;
use parking_lot::Mutex;

use crate::limits;

/// What is counted of a client's calls on an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Metered {
    Bytes,
    Calls,
}

/// Whose rate it is: that of a client on an export, by the export's id.
pub(crate) type Account = (u32, ClientKey, Metered);

/// Until when each client has paid. Clients without a rate are not in it.
#[derive(Default)]
pub(crate) struct Paces(Mutex<HashMap<Account, Instant>>);

/// A client may use so much ahead of its time.
const AHEAD: Duration = Duration::from_secs(1);

impl Paces {
    /// Lets an account pay for `amount` of something of which it may have `per_second`. Returns when it may go
    /// on, if that is later than now.
    pub(crate) fn spend(
        &self,
        account: Account,
        amount: u64,
        per_second: u64,
        now: Instant,
    ) -> Option<Instant> {
        let mut paid = self.0.lock();
        if paid.len() >= limits::PACES_MAX {
            paid.retain(|_, until| *until > now);
            if paid.len() >= limits::PACES_MAX {
                paid.clear();
            }
        }
        let before = paid.get(&account).copied();
        let until = paid_until(before, amount, per_second, now);
        paid.insert(account, until);
        let resume = until.checked_sub(AHEAD)?;
        (resume > now).then_some(resume)
    }
}

/// Until when an account has paid, with `amount` more.
fn paid_until(before: Option<Instant>, amount: u64, per_second: u64, now: Instant) -> Instant {
    let from = before.map_or(now, |before| before.max(now));
    let nanoseconds = u128::from(amount) * 1_000_000_000 / u128::from(per_second.max(1));
    let time = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
    from.checked_add(time).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn account(number: u32) -> Account {
        (
            1,
            ClientKey::of(Ipv4Addr::from(number).into()),
            Metered::Bytes,
        )
    }

    #[test]
    fn over_time_a_client_has_its_rate_and_no_more() {
        for amount in [1, 100, 4000, 50_000] {
            let paces = Paces::default();
            let start = Instant::now();
            let (mut now, mut had) = (start, 0);
            while now < start + Duration::from_secs(100) {
                had += amount;
                now = paces.spend(account(1), amount, 1000, now).unwrap_or(now);
            }
            // A second ahead, and the call that goes beyond.
            let most = 1000 * 101 + amount;
            assert!(
                (100_000 - amount..=most).contains(&had),
                "{had} by {amount}"
            );
        }
    }

    #[test]
    fn who_rests_pays_nothing_for_it_and_saves_no_more_than_a_second() {
        let paces = Paces::default();
        let start = Instant::now();
        assert_eq!(paces.spend(account(1), 1000, 1000, start), None);
        assert!(paces.spend(account(1), 1, 1000, start).is_some());
        assert_eq!(paces.spend(account(2), 1, 1000, start), None, "another");
        let later = start + Duration::from_secs(1000);
        assert_eq!(paces.spend(account(1), 1000, 1000, later), None);
        let wait = paces.spend(account(1), 1000, 1000, later);
        assert_eq!(wait, Some(later + Duration::from_secs(1)));
    }

    #[test]
    fn any_number_of_clients_takes_no_more_than_its_cap() {
        let paces = Paces::default();
        let now = Instant::now();
        for number in 0..40_000 {
            assert!(paces.spend(account(number), 1000, 1, now).is_some());
        }
        assert!(paces.0.lock().len() <= limits::PACES_MAX);
    }
}
