//! Arguments of COMPOUND; the first byte picks the minor version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::nfs4::MinorVersion;

fuzz_target!(|data: &[u8]| {
    let Some((pick, bytes)) = data.split_first() else {
        return;
    };
    let minors = [MinorVersion::V0, MinorVersion::V1, MinorVersion::V2];
    penstock_fuzz::nfs4_compound(minors[usize::from(*pick) % minors.len()], bytes);
});
