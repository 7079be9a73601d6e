//! Arguments of NFSv3; the first byte picks the procedure.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::nfs3::Procedure;

fuzz_target!(|data: &[u8]| {
    let Some((pick, bytes)) = data.split_first() else {
        return;
    };
    let procedure = Procedure::ALL[usize::from(*pick) % Procedure::ALL.len()];
    penstock_fuzz::nfs3_args(procedure, bytes);
});
