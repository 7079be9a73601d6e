//! EXCHANGE_ID's cases (RFC 8881 §18.35.4), as one match; and how it is noticed that two machines have one
//! name.

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
    last: Verifier,
    before: Option<Verifier>,
    alternations: u32,
    since: Millis,
}

impl NameWatch {
    pub(crate) const fn new(verifier: Verifier, now: Millis) -> Self {
        Self {
            last: verifier,
            before: None,
            alternations: 0,
            since: now,
        }
    }

    /// Whether it is clear now that two machines have this name. True again at most once a minute.
    pub(crate) fn saw(&mut self, verifier: Verifier, now: Millis) -> bool {
        if now.since(self.since) > MINUTE_MS {
            self.since = now;
            self.alternations = 0;
        }
        if verifier == self.last {
            return false;
        }
        let back = self.before == Some(verifier);
        self.before = Some(self.last);
        self.last = verifier;
        self.alternations += u32::from(back);
        back && self.alternations == limits::ALTERNATIONS_PER_MINUTE_MAX
    }
}

const MINUTE_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
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

    const A: Verifier = Verifier([1; 8]);
    const B: Verifier = Verifier([2; 8]);

    #[test]
    fn two_machines_of_one_name_take_turns() {
        let mut watch = NameWatch::new(A, Millis(0));
        let turns = [B, A, B, A, B, A].iter().zip(1..);
        let seen: Vec<bool> = turns
            .map(|(v, s)| watch.saw(*v, Millis(s * 1000)))
            .collect();
        assert_eq!(seen, [false, false, false, true, false, false]);
    }

    #[test]
    fn one_machine_that_starts_again_and_again_is_one() {
        let mut watch = NameWatch::new(A, Millis(0));
        for life in 3..100 {
            assert!(!watch.saw(Verifier([life; 8]), Millis(u64::from(life))));
            assert!(!watch.saw(Verifier([life; 8]), Millis(u64::from(life))));
        }
    }

    #[test]
    fn rare_turns_say_nothing() {
        let mut watch = NameWatch::new(A, Millis(0));
        for turn in 1..50 {
            let verifier = if turn % 2 == 0 { A } else { B };
            assert!(!watch.saw(verifier, Millis(turn * 40_000)));
        }
    }
}
