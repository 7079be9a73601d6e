//! Interleavings of our changes with each other, and with one of somebody else.

use nfs_wire::nfs3::{Ftype3, Nfstime3, Specdata3};
use proptest::prelude::*;

use super::*;

fn attributes(changes: u32) -> Fattr3 {
    let time = Nfstime3 {
        seconds: changes,
        nseconds: 0,
    };
    Fattr3 {
        ftype: Ftype3::Reg,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 100,
        used: 0,
        rdev: Specdata3 { major: 0, minor: 0 },
        fsid: 1,
        fileid: 2,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

fn wcc(before: u32, after: u32) -> WccData {
    WccData {
        before: Some(state(&attributes(before))),
        after: Some(attributes(after)),
    }
}

/// What travels: a change of ours or a look, before and after the server has done it.
#[derive(Debug)]
enum Call {
    Change(Change, Option<WccData>),
    Look(Look, Option<Fattr3>),
}

impl Call {
    fn executed(&self) -> bool {
        match self {
            Self::Change(_, answer) => answer.is_some(),
            Self::Look(_, answer) => answer.is_some(),
        }
    }
}

/// Sends, executes and answers in the order that `steps` choose; somebody else changes the file where
/// `foreign` says. Returns whether that lay before a change or look of ours, and what was told.
fn run(steps: &[(u8, usize)], foreign: Option<usize>) -> (bool, Vec<Verdict>) {
    let mut known = Wcc::new(state(&attributes(0)));
    let (mut now, mut calls, mut verdicts) = (0, Vec::new(), Vec::new());
    let (mut changed, mut witnessed) = (false, false);
    let rest = (0..3 * steps.len()).map(|i| (2 + u8::from(i % 2 == 0), 0));
    for (at, (what, which)) in steps.iter().copied().chain(rest).enumerate() {
        if foreign == Some(at) {
            now += 1;
            changed = true;
        }
        match what {
            0 => calls.push(Call::Change(known.change_began(), None)),
            1 => calls.push(Call::Look(known.look(), None)),
            2 => {
                let mut waiting: Vec<_> =
                    calls.iter_mut().filter(|call| !call.executed()).collect();
                if waiting.is_empty() {
                    continue;
                }
                witnessed |= changed;
                let which = which % waiting.len();
                match &mut *waiting[which] {
                    Call::Change(_, answer) => {
                        *answer = Some(wcc(now, now + 1));
                        now += 1;
                    }
                    Call::Look(_, answer) => *answer = Some(attributes(now)),
                }
            }
            _ => {
                let done: Vec<usize> = (0..calls.len()).filter(|&i| calls[i].executed()).collect();
                if done.is_empty() {
                    continue;
                }
                verdicts.push(match calls.remove(done[which % done.len()]) {
                    Call::Change(change, answer) => known.change_ended(&change, &answer.unwrap()),
                    Call::Look(look, answer) => known.looked(look, &answer.unwrap()),
                });
            }
        }
    }
    assert!(calls.is_empty() && known.pending.is_empty() && known.is_trusted());
    (witnessed, verdicts)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn our_own_changes_are_known_as_ours_in_any_order(
        steps in prop::collection::vec((0..4_u8, 0..20_usize), 0..60),
    ) {
        let (_, verdicts) = run(&steps, None);
        prop_assert!(verdicts.iter().all(|&verdict| verdict == Verdict::Ours), "{:?}", verdicts);
    }

    #[test]
    fn somebody_elses_change_is_seen_when_all_replies_are_in(
        steps in prop::collection::vec((0..4_u8, 0..20_usize), 1..60),
        at in 0..60_usize,
    ) {
        let (witnessed, verdicts) = run(&steps, Some(at % steps.len()));
        prop_assert_eq!(witnessed, verdicts.contains(&Verdict::Foreign), "{:?}", verdicts);
    }
}

#[test]
fn what_the_server_leaves_out_is_unknown_and_not_trusted() {
    let mut known = Wcc::new(state(&attributes(0)));
    let (first, second, third) = (
        known.change_began(),
        known.change_began(),
        known.change_began(),
    );
    let nothing = WccData::default();
    assert_eq!(known.change_ended(&first, &nothing), Verdict::Unknown);
    assert!(!known.is_trusted());
    // What was on its way by then may come from the state that was not told.
    assert_eq!(known.change_ended(&second, &wcc(1, 2)), Verdict::Ours);
    assert_eq!(known.change_lost(&third), Verdict::Unknown);
    assert!(!known.is_trusted());
    let look = known.look();
    assert_eq!(known.looked(look, &attributes(7)), Verdict::Unknown);
    assert!(known.is_trusted());
    let look = known.look();
    assert_eq!(known.looked(look, &attributes(8)), Verdict::Foreign);
}
