//! EXCHANGE_ID's cases (RFC 8881 §18.35.4), as one match; and how it is noticed that two machines have one
//! name.

use core::net::IpAddr;

use crate::id::Verifier;
use crate::limits;
use crate::time::Millis;

/// What the server knows of a client owner when EXCHANGE_ID comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Nothing,
    /// Said EXCHANGE_ID before, and not CREATE_SESSION.
    Candidate,
    Confirmed {
        same_verifier: bool,
        same_principal: bool,
        /// It has state, and its lease runs.
        is_alive: bool,
    },
}

/// What is done about it. Each is named and numbered as in the RFC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// 1: a new owner.
    NewOwner,
    /// 2: it is known already, and this is a retry or a probe for trunking.
    ExistingClient,
    /// 3, with something to lose: refused with CLID_INUSE.
    Collision,
    /// 3, when nothing is held: the new principal takes the name over.
    CollisionWithNobody,
    /// 4: the earlier candidate is forgotten.
    ReplaceCandidate,
    /// 5: the client started anew. What it held stays until CREATE_SESSION confirms that.
    ClientRestart,
    /// 6: an update of what is known.
    Update,
    /// 7: an update of nothing: NOENT.
    UpdateOfNothing,
    /// 8: an update by another life of the client: NOT_SAME.
    UpdateByAnotherLife,
    /// 9: an update by another principal: PERM.
    UpdateByAnotherPrincipal,
}

impl Case {
    pub(crate) const fn of(known: Known, update: bool) -> Self {
        match (update, known) {
            (false, Known::Nothing) => Self::NewOwner,
            (false, Known::Candidate) => Self::ReplaceCandidate,
            (
                false,
                Known::Confirmed {
                    same_verifier,
                    same_principal,
                    is_alive,
                },
            ) => match (same_principal, same_verifier, is_alive) {
                (true, true, _) => Self::ExistingClient,
                (true, false, _) => Self::ClientRestart,
                (false, _, true) => Self::Collision,
                (false, _, false) => Self::CollisionWithNobody,
            },
            (true, Known::Nothing | Known::Candidate) => Self::UpdateOfNothing,
            (
                true,
                Known::Confirmed {
                    same_verifier,
                    same_principal,
                    ..
                },
            ) => match (same_principal, same_verifier) {
                (true, true) => Self::Update,
                (true, false) => Self::UpdateByAnotherLife,
                (false, _) => Self::UpdateByAnotherPrincipal,
            },
        }
    }
}

/// Watches the verifiers that come under one name. A machine that starts again has a new one each time; two
/// machines of one name take turns with theirs, and throw each other out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameWatch {
    last: Seen,
    before: Option<Seen>,
    alternations: u32,
    since: Millis,
    /// When the two took turns last, of those who were told of.
    shared_at: Option<Millis>,
}

/// A verifier, and the address that it came from.
pub(crate) type Seen = (Verifier, IpAddr);

impl NameWatch {
    pub(crate) const fn new(first: Seen, now: Millis) -> Self {
        Self {
            last: first,
            before: None,
            alternations: 0,
            since: now,
            shared_at: None,
        }
    }

    /// The address of the other one, if it is clear now that two machines have this name. Said again at most once a
    /// minute.
    pub(crate) fn saw(&mut self, seen: Seen, now: Millis) -> Option<IpAddr> {
        if now.since(self.since) > MINUTE_MS {
            self.since = now;
            self.alternations = 0;
        }
        if seen.0 == self.last.0 {
            return None;
        }
        let back = self.before.is_some_and(|before| before.0 == seen.0);
        let other = self.last;
        self.before = Some(other);
        self.last = seen;
        self.alternations += u32::from(back);
        if back
            && (self.shared_at.is_some()
                || self.alternations >= limits::ALTERNATIONS_PER_MINUTE_MAX)
        {
            self.shared_at = Some(now);
        }
        let is_told = back && self.alternations == limits::ALTERNATIONS_PER_MINUTE_MAX;
        is_told.then_some(other.1)
    }

    /// The addresses of two machines that had this name in the last ten minutes.
    pub(crate) fn shared_by(&self, now: Millis) -> Option<[IpAddr; 2]> {
        let at = self.shared_at?;
        let (last, before) = (self.last.1, self.before?.1);
        (now.since(at) <= 10 * MINUTE_MS).then_some([before, last])
    }
}

const MINUTE_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    const fn confirmed(same_verifier: bool, same_principal: bool, is_alive: bool) -> Known {
        Known::Confirmed {
            same_verifier,
            same_principal,
            is_alive,
        }
    }

    /// The text of RFC 8881 §18.35.4, row by row: what is known, the flag, the case.
    #[test]
    fn each_case_of_the_rfc_is_told_from_the_others() {
        let table = [
            (Known::Nothing, false, Case::NewOwner),
            (confirmed(true, true, true), false, Case::ExistingClient),
            (confirmed(true, true, false), false, Case::ExistingClient),
            (confirmed(true, false, true), false, Case::Collision),
            (confirmed(false, false, true), false, Case::Collision),
            (
                confirmed(true, false, false),
                false,
                Case::CollisionWithNobody,
            ),
            (
                confirmed(false, false, false),
                false,
                Case::CollisionWithNobody,
            ),
            (Known::Candidate, false, Case::ReplaceCandidate),
            (confirmed(false, true, true), false, Case::ClientRestart),
            (confirmed(false, true, false), false, Case::ClientRestart),
            (confirmed(true, true, true), true, Case::Update),
            (confirmed(true, true, false), true, Case::Update),
            (Known::Nothing, true, Case::UpdateOfNothing),
            (Known::Candidate, true, Case::UpdateOfNothing),
            (
                confirmed(false, true, true),
                true,
                Case::UpdateByAnotherLife,
            ),
            (
                confirmed(false, true, false),
                true,
                Case::UpdateByAnotherLife,
            ),
            (
                confirmed(true, false, true),
                true,
                Case::UpdateByAnotherPrincipal,
            ),
            (
                confirmed(false, false, true),
                true,
                Case::UpdateByAnotherPrincipal,
            ),
            (
                confirmed(true, false, false),
                true,
                Case::UpdateByAnotherPrincipal,
            ),
            (
                confirmed(false, false, false),
                true,
                Case::UpdateByAnotherPrincipal,
            ),
        ];
        for (known, update, case) in table {
            assert_eq!(Case::of(known, update), case, "{known:?}, update: {update}");
        }
    }

    const A: Seen = (Verifier([1; 8]), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    const B: Seen = (Verifier([2; 8]), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)));

    #[test]
    fn two_machines_of_one_name_take_turns() {
        let mut watch = NameWatch::new(A, Millis(0));
        let turns = [B, A, B, A, B, A].iter().zip(1..);
        let seen: Vec<_> = turns
            .map(|(v, s)| watch.saw(*v, Millis(s * 1000)))
            .collect();
        assert_eq!(seen, [None, None, None, Some(B.1), None, None]);
        assert_eq!(watch.shared_by(Millis(9000)), Some([B.1, A.1]));
        assert_eq!(watch.shared_by(Millis(7000 + 10 * MINUTE_MS)), None);
    }

    #[test]
    fn one_machine_that_starts_again_and_again_is_one() {
        let mut watch = NameWatch::new(A, Millis(0));
        for life in 3..100 {
            let seen = (Verifier([life; 8]), A.1);
            assert_eq!(watch.saw(seen, Millis(u64::from(life))), None);
            assert_eq!(watch.saw(seen, Millis(u64::from(life))), None);
        }
        assert_eq!(watch.shared_by(Millis(100)), None);
    }

    #[test]
    fn rare_turns_say_nothing() {
        let mut watch = NameWatch::new(A, Millis(0));
        for turn in 1..50 {
            let verifier = if turn % 2 == 0 { A } else { B };
            assert_eq!(watch.saw(verifier, Millis(turn * 40_000)), None);
        }
    }
}
