//! Arguments and results of portmap and rpcbind; the first byte picks the procedure.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::{portmap, rpcbind};
use penstock_fuzz::round_trip_of;

fuzz_target!(|data: &[u8]| {
    let Some((pick, bytes)) = data.split_first() else {
        return;
    };
    let pick = usize::from(*pick);
    let procedure = portmap::Procedure::ALL[pick % portmap::Procedure::ALL.len()];
    round_trip_of!(bytes, |d| portmap::Call::decode(procedure, d));
    round_trip_of!(bytes, portmap::MappingList);

    let procedure = rpcbind::Procedure::ALL[pick % rpcbind::Procedure::ALL.len()];
    round_trip_of!(bytes, |d| rpcbind::Call::decode(procedure, d));
    round_trip_of!(bytes, rpcbind::RpcbList<'_>);
    universal_address(bytes);
});

/// An address that can be read is the same after it was written and read again.
fn universal_address(bytes: &[u8]) {
    let Some(address) = rpcbind::UniversalAddress(bytes).socket_addr() else {
        return;
    };
    let text = rpcbind::to_universal_address(address);
    assert_eq!(
        rpcbind::UniversalAddress(text.as_bytes()).socket_addr(),
        Some(address)
    );
}
