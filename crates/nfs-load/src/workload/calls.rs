//! The steps that are about calls and connections and not about a file: small calls, many connections, the generator.

use super::{DATA, RANDOM_BYTES, SEED, Settings, Step, Unit, human_kib, read, shared, step};
use crate::load::{Amount, Call, Load, Work};
use crate::place::Stable;
use crate::records::Order;

/// The lengths of the READs and WRITEs that the generator is measured with, and its calls in flight.
const CEILING_KIB: [u32; 3] = [4, 64, 1024];
const CEILING_DEPTHS: [usize; 2] = [1, 32];
/// A flood of stable WRITEs: as many in flight as `random-4k` has.
const STABLE_FLOOD_DEPTH: usize = 32;
/// Over how many connections the same load goes, and how many of them are busy beside idle ones.
const CONNECTIONS: [usize; 4] = [1, 4, 16, 256];
const BESIDE_IDLE: usize = 16;

impl Settings {
    pub(super) fn small_calls(&self) -> Vec<Step> {
        let ask = |call| Work::Ask {
            file: shared(DATA),
            call,
        };
        let load = |call| self.load(ask(call), self.for_seconds());
        let mut steps: Vec<Step> = Call::ALL
            .map(|call| step(call.name(), Unit::Calls, load(call)))
            .into();
        // How long it takes is what is asked: one after the other, on a connection of its own.
        let mut null = load(Call::Null);
        (null.connections, null.depth) = (1, 1);
        steps.push(Step {
            beside: Some(("FILE_SYNC beside NULL".to_owned(), self.stable_flood())),
            ..step("NULL beside FILE_SYNC", Unit::Calls, null)
        });
        steps
    }

    /// WRITEs at random places, each on stable storage before it is answered, as long as what they are beside.
    pub(super) fn stable_flood(&self) -> Load {
        Load {
            work: Work::Write {
                file: shared(DATA),
                records: self.records(RANDOM_BYTES, Order::Random(SEED + 2)),
                stable: Stable::AtOnce,
                is_new: false,
            },
            connections: 1,
            depth: STABLE_FLOOD_DEPTH,
            rate: None,
            amount: Amount::Beside,
        }
    }

    /// The same number of READs in flight over more and more connections, and over some beside idle ones.
    pub(super) fn connecting(&self) -> Vec<Step> {
        let over = |connections: usize, idle: usize| {
            let records = self.records(self.record_bytes, Order::Random(SEED));
            let mut load = self.load(read(DATA, records), self.for_seconds());
            (load.connections, load.depth) = (connections, (self.depth / connections).max(1));
            let name = match (connections, idle) {
                (1, _) => "1 connection".to_owned(),
                (_, 0) => format!("{connections} connections"),
                _ => format!("{connections} beside {idle} idle ones"),
            };
            Step {
                idle,
                ..step(&name, Unit::Calls, load)
            }
        };
        let mut steps: Vec<Step> = CONNECTIONS.map(|connections| over(connections, 0)).into();
        steps.extend((self.idle > 0).then(|| over(BESIDE_IDLE, self.idle)));
        steps
    }

    /// Each kind of call with few and with many in flight; nothing of the answers is looked at.
    pub(super) fn ceiling(&self) -> Vec<Step> {
        let small = [Call::Null, Call::Getattr].map(|call| {
            let file = shared(DATA);
            (
                call.name().to_owned(),
                Unit::Calls,
                Work::Ask { file, call },
            )
        });
        let moved = CEILING_KIB.into_iter().flat_map(|kib| {
            let (file, records) = (shared(DATA), self.records(kib << 10, Order::Forward));
            let name = |doing: &str| format!("{doing} {}", human_kib(kib));
            let read = Work::Read {
                file: file.clone(),
                records,
                is_checked: false,
            };
            let write = Work::Write {
                file,
                records,
                stable: Stable::AtTheEnd,
                is_new: false,
            };
            [
                (name("READ"), Unit::Mib, read),
                (name("WRITE"), Unit::Mib, write),
            ]
        });
        let all = small.into_iter().chain(moved);
        let both = all.flat_map(|(name, unit, work)| {
            CEILING_DEPTHS.map(|depth| {
                let mut load = self.load(work.clone(), self.for_seconds());
                load.depth = depth;
                step(&format!("{name}, {depth} in flight"), unit, load)
            })
        });
        both.collect()
    }
}
