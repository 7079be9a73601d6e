//! Arguments and results of MOUNT version 3; the first byte picks the procedure.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::mount3::{Call, ExportList, MntRes, MountList, Procedure};
use penstock_fuzz::round_trip_of;

fuzz_target!(|data: &[u8]| {
    let Some((pick, bytes)) = data.split_first() else {
        return;
    };
    let procedure = Procedure::ALL[usize::from(*pick) % Procedure::ALL.len()];
    round_trip_of!(bytes, |d| Call::decode(procedure, d));
    match procedure {
        Procedure::Null | Procedure::Umnt | Procedure::Umntall => {}
        Procedure::Mnt => round_trip_of!(bytes, MntRes),
        Procedure::Dump => round_trip_of!(bytes, MountList<'_>),
        Procedure::Export => round_trip_of!(bytes, ExportList<'_>),
    }
});
