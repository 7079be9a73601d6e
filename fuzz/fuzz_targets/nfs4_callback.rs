//! CB_COMPOUND; the first byte picks arguments or results.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::Decoder;
use nfs_wire::nfs4::{CbCompoundArgs, CbCompoundRes};
use penstock_fuzz::round_trip_of;

fuzz_target!(|data: &[u8]| {
    let Some((pick, bytes)) = data.split_first() else {
        return;
    };
    if pick % 2 == 1 {
        round_trip_of!(bytes, CbCompoundRes<'_>);
        return;
    }
    round_trip_of!(bytes, CbCompoundArgs<'_>);
    // What can be carried out of a call is its beginning.
    if let Ok((good, bad)) = CbCompoundArgs::decode_good(&mut Decoder::new(bytes)) {
        let minor_is_known = good.minorversion <= 2;
        assert!(minor_is_known || good.argarray.is_empty());
        if bad.is_none() {
            round_trip_of!(bytes, |d| CbCompoundArgs::decode_good(d)
                .map(|(good, _)| good));
        }
    }
});
