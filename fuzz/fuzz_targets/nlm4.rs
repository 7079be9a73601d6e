//! Arguments and results of the lock manager, version 4; the first byte picks the procedure.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::nlm4::{Call, Procedure, Res, ShareRes, TestRes};
use penstock_fuzz::round_trip_of;

fuzz_target!(|data: &[u8]| {
    let Some((pick, bytes)) = data.split_first() else {
        return;
    };
    let procedure = Procedure::ALL[usize::from(*pick) % Procedure::ALL.len()];
    round_trip_of!(bytes, |d| Call::decode(procedure, d));
    match procedure {
        Procedure::Null | Procedure::FreeAll => {}
        Procedure::Test => round_trip_of!(bytes, TestRes<'_>),
        Procedure::Lock
        | Procedure::Cancel
        | Procedure::Unlock
        | Procedure::Granted
        | Procedure::NmLock => round_trip_of!(bytes, Res<'_>),
        Procedure::Share | Procedure::Unshare => round_trip_of!(bytes, ShareRes<'_>),
    }
});
