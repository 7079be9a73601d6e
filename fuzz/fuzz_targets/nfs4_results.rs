//! Results of COMPOUND.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::nfs4::CompoundRes;
use penstock_fuzz::round_trip_of;

fuzz_target!(|data: &[u8]| {
    round_trip_of!(data, CompoundRes<'_>);
});
