//! A set of attributes of NFSv4: to be read, to be set, to be compared.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::nfs4::{Attribute, Fattr4};
use nfs_wire::{Decode, Decoder, decode_all, encode_to_vec};
use penstock_fuzz::round_trip_of;

fuzz_target!(|data: &[u8]| {
    round_trip_of!(data, Fattr4<'_>);
    let Ok(fattr) = Fattr4::decode(&mut Decoder::new(data)) else {
        return;
    };
    let all = Attribute::those(|_| true);
    let values = fattr.decode_values();
    let to_set = fattr.decode_to_set(&all);
    let to_compare = fattr.decode_to_compare(&all);
    match &values {
        Ok(values) => {
            assert_eq!(values.present(), fattr.attrmask);
            let bytes = encode_to_vec(values);
            let again: Fattr4<'_> = decode_all(&bytes).expect("what was encoded decodes");
            assert_eq!(again.attrmask, fattr.attrmask);
            assert_eq!(again.attr_vals.0.len(), fattr.attr_vals.0.len());
            assert_eq!(again.decode_values().as_ref(), Ok(values));
        }
        Err(_) => assert!(to_set.is_err() && to_compare.is_err()),
    }
    for checked in [to_set, to_compare].into_iter().flatten() {
        assert_eq!(Ok(checked), values);
    }
});
