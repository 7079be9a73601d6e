//! The trees of single calls: followed, taken, and looked through.

use nfs_server::operate::control::{CallFollower, CallLine, CallQuery, CallTree, StepTree};

use super::Served;

pub(crate) fn follow(served: &Served, query: &CallQuery) -> CallFollower {
    served.server.follow_calls(query).unwrap()
}

pub(crate) fn named(calls: &[&str]) -> CallQuery {
    CallQuery {
        calls: calls.iter().map(|name| (*name).to_owned()).collect(),
        ..CallQuery::default()
    }
}

pub(crate) fn recorded() -> CallQuery {
    CallQuery {
        recorded: true,
        ..CallQuery::default()
    }
}

/// Waits until the calls before are told: when a reply is seen, the server may not be back from sending it.
pub(crate) async fn settle(served: &Served) {
    served.client().await.null().await.unwrap();
}

/// The calls that were told so far.
pub(crate) fn told(follower: &mut CallFollower) -> Vec<CallTree> {
    std::iter::from_fn(|| follower.at_once())
        .map(|line| match line {
            CallLine::Call(call) => *call,
            CallLine::Lost { lost } => panic!("{lost} calls lost"),
        })
        .collect()
}

/// The names of the steps, in the order in which they began.
pub(crate) fn names(steps: &[StepTree]) -> Vec<String> {
    let mut names = Vec::new();
    for step in steps {
        names.push(step.step.clone());
        names.extend(self::names(&step.steps));
    }
    names
}

/// Times nest: every step lies within the one around it, behind the one before it, and their sum is no more.
pub(crate) fn check_times(call: &CallTree) {
    assert!(call.took_ns <= call.total_ns, "{call}");
    check_steps(call, &call.steps, (0, call.total_ns));
}

fn check_steps(call: &CallTree, steps: &[StepTree], (from, until): (u64, u64)) {
    // Each time is rounded by itself.
    const ROUNDED_NS: u64 = 3;
    let mut begin = from;
    let mut sum = 0;
    for step in steps {
        let took = step
            .took_ns
            .unwrap_or_else(|| panic!("{} has no end:\n{call}", step.step));
        assert!(
            step.begun_ns + ROUNDED_NS >= begin,
            "{} overlaps:\n{call}",
            step.step
        );
        let end = step.begun_ns + took;
        assert!(
            end <= until + ROUNDED_NS,
            "{} passes the end:\n{call}",
            step.step
        );
        check_steps(call, &step.steps, (step.begun_ns, end));
        begin = end;
        sum += took;
    }
    let all = until - from + ROUNDED_NS * (steps.len() as u64 + 1);
    assert!(sum <= all, "{sum} ns of {all}:\n{call}");
}
