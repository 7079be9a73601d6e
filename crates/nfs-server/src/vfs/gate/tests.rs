use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use proptest::prelude::*;

use super::*;

/// The state of one writer, from outside of the gate to its leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Actor {
    Outside,
    /// The writer waits under this number; the other counts the phases that began since.
    Waiting(u64, u32),
    In,
    Gone,
}

#[derive(Clone, Debug)]
struct World {
    groups: Vec<Group>,
    actors: Vec<Actor>,
    gate: Model,
}

/// The state under test, made comparable.
#[derive(Clone, Debug)]
struct Model {
    running: usize,
    group: Group,
    queue: Vec<(u64, Group, usize)>,
    next: u64,
}

impl Model {
    fn state(&self) -> State<usize> {
        let waiter = |&(number, group, waker)| Waiter {
            number,
            group,
            waker,
        };
        State {
            running: self.running,
            group: self.group,
            queue: self.queue.iter().map(waiter).collect(),
            next: self.next,
        }
    }

    fn of(state: &State<usize>) -> Self {
        let waiter = |waiter: &Waiter<usize>| (waiter.number, waiter.group, waiter.waker);
        Self {
            running: state.running,
            group: state.group,
            queue: state.queue.iter().map(waiter).collect(),
            next: state.next,
        }
    }
}

impl World {
    fn new(groups: Vec<Group>) -> Self {
        Self {
            actors: vec![Actor::Outside; groups.len()],
            gate: Model::of(&State::default()),
            groups,
        }
    }

    /// What is the same in worlds that go on alike: numbers only say who came first.
    fn key(&self) -> (Vec<Actor>, Vec<usize>, usize) {
        let actors = self.actors.iter().map(|actor| match actor {
            Actor::Waiting(_, phases) => Actor::Waiting(0, *phases),
            other => *other,
        });
        let queue = self.gate.queue.iter().map(|(_, _, actor)| *actor);
        (actors.collect(), queue.collect(), self.gate.running)
    }

    /// Every world that one step of one actor can lead to.
    fn next(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        for actor in 0..self.actors.len() {
            match self.actors[actor] {
                Actor::Outside => worlds.push(self.enters(actor)),
                Actor::Waiting(number, _) => {
                    worlds.push(self.step(actor, |state| state.give_up(number)));
                }
                Actor::In => worlds.push(self.step(actor, State::leave)),
                Actor::Gone => {}
            }
        }
        worlds
    }

    fn enters(&self, actor: usize) -> Self {
        let mut next = self.clone();
        let mut state = self.gate.state();
        let waiting = state.enter(self.groups[actor], || actor);
        let alone = self.gate.queue.is_empty();
        let same = self.inside().all(|group| group == self.groups[actor]);
        assert_eq!(waiting.is_none(), alone && same, "{self:?}: {actor} enters");
        next.actors[actor] = waiting.map_or(Actor::In, |number| Actor::Waiting(number, 0));
        next.gate = Model::of(&state);
        next
    }

    fn step(&self, actor: usize, change: impl FnOnce(&mut State<usize>) -> Vec<usize>) -> Self {
        let mut next = self.clone();
        let mut state = self.gate.state();
        let admitted = change(&mut state);
        next.actors[actor] = Actor::Gone;
        let new_phase = next.inside().next().is_none() && !admitted.is_empty();
        for actor in &admitted {
            assert!(matches!(next.actors[*actor], Actor::Waiting(..)));
            next.actors[*actor] = Actor::In;
        }
        if new_phase {
            for actor in &mut next.actors {
                if let Actor::Waiting(_, phases) = actor {
                    *phases += 1;
                }
            }
        }
        next.gate = Model::of(&state);
        next
    }

    fn inside(&self) -> impl Iterator<Item = Group> + '_ {
        let both = self.actors.iter().zip(&self.groups);
        both.filter(|(actor, _)| **actor == Actor::In)
            .map(|(_, group)| *group)
    }

    fn check(&self) {
        let inside: Vec<Group> = self.inside().collect();
        assert!(
            inside.iter().all(|group| *group == inside[0]),
            "both groups are in: {self:?}"
        );
        assert_eq!(self.gate.running, inside.len(), "{self:?}");
        for actor in &self.actors {
            if let Actor::Waiting(_, phases) = actor {
                assert!(!inside.is_empty(), "waits for nobody: {self:?}");
                assert!(*phases <= 1, "passed over twice: {self:?}");
            }
        }
    }
}

#[test]
fn every_interleaving_of_five_keeps_the_groups_apart_and_lets_everybody_in() {
    const ACTORS: usize = 5;
    for mask in 0..1_u32 << ACTORS {
        let group = |actor: usize| match mask >> actor & 1 {
            0 => Group::Cached,
            _ => Group::Direct,
        };
        let mut open = vec![World::new((0..ACTORS).map(group).collect())];
        let mut seen = HashSet::new();
        while let Some(world) = open.pop() {
            world.check();
            for next in world.next() {
                if seen.insert(next.key()) {
                    open.push(next);
                }
            }
        }
        assert!(seen.contains(&(vec![Actor::Gone; ACTORS], Vec::new(), 0)));
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future with the waker that it was given.
struct Call<'g> {
    enter: Option<Pin<Box<Enter<'g>>>>,
    group: Group,
    woken: Arc<Woken>,
    is_in: bool,
}

impl Call<'_> {
    fn poll(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        if let Some(enter) = &mut self.enter
            && enter.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(())
        {
            self.enter = None;
            self.is_in = true;
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter(bool),
    Poll(usize),
    GoAway(usize),
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<bool>().prop_map(Step::Enter),
        (0..8_usize).prop_map(Step::Poll),
        (0..8_usize).prop_map(Step::GoAway),
        (0..8_usize).prop_map(Step::Leave),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// Futures that are polled late, dropped while they wait and dropped after they were let in.
    #[test]
    fn calls_that_go_away_hold_up_nobody(steps in steps()) {
        let gates = Gates::default();
        let gate = gates.of((1, 2));
        let mut calls: Vec<Call<'_>> = Vec::new();
        for step in steps {
            match step {
                Step::Enter(direct) => {
                    let group = if direct { Group::Direct } else { Group::Cached };
                    let enter = Some(Box::pin(gate.enter(group)));
                    calls.push(Call { enter, group, woken: Arc::default(), is_in: false });
                    calls.last_mut().unwrap().poll();
                }
                Step::Poll(at) => {
                    if let Some(call) = calls.get_mut(at) {
                        call.poll();
                    }
                }
                Step::GoAway(at) if at < calls.len() && !calls[at].is_in => {
                    calls.remove(at);
                }
                Step::Leave(at) if at < calls.len() && calls[at].is_in => {
                    calls.remove(at);
                    gate.leave();
                }
                Step::GoAway(_) | Step::Leave(_) => {}
            }
            let mut inside = calls.iter().filter(|call| call.is_in).map(|call| call.group);
            let first = inside.next();
            prop_assert!(inside.all(|group| Some(group) == first));
        }
        // Who was let in was woken: polling nobody but the woken, all get through.
        while !calls.is_empty() {
            let woken = |call: &Call<'_>| call.is_in || call.woken.0.load(Ordering::Relaxed) > 0;
            let at = calls.iter().position(woken).expect("nobody was woken");
            calls[at].poll();
            prop_assert!(calls[at].is_in, "woken in vain");
            calls.remove(at);
            gate.leave();
        }
        prop_assert_eq!(gate.state.lock().running, 0);
    }
}

#[test]
fn an_inode_has_one_gate_for_as_long_as_anybody_holds_it() {
    let gates = Gates::default();
    let first = gates.of((1, 2));
    assert!(Arc::ptr_eq(&first, &gates.of((1, 2))));
    assert!(!Arc::ptr_eq(&first, &gates.of((2, 2))));
    assert_eq!(gates.0.lock().len(), 1, "what nobody holds is forgotten");
    let mut context = Context::from_waker(Waker::noop());
    let mut enter = Box::pin(Pass::of(&first, Group::Direct));
    let Poll::Ready(pass) = enter.as_mut().poll(&mut context) else {
        panic!("nobody is in");
    };
    drop(enter);
    drop(first);
    // The object is gone, its write is not.
    let again = gates.of((1, 2));
    let mut waiting = Box::pin(Pass::of(&again, Group::Cached));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    drop(pass);
    assert!(waiting.as_mut().poll(&mut context).is_ready());
    drop(waiting);
    drop(again);
    assert!(gates.0.lock().is_empty());
}
