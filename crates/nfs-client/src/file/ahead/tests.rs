//! Which size READs have.

use super::*;

#[test]
fn transfers_are_what_the_server_prefers_and_may_grow_to_its_maximum() {
    const MIB: u32 = 1 << 20;
    let measured = Depth::Measured;
    // Preferred, maximum and option; then the first size and its doublings.
    let table = [
        (MIB, MIB, MIB, measured, (MIB, 0)),
        (65_536, MIB, MIB, measured, (65_536, 4)),
        (MIB, 4 * MIB, MIB, measured, (MIB, 0)),
        (MIB, 4 * MIB, 4 * MIB, measured, (MIB, 2)),
        (MIB, 4 * MIB, 4 * MIB, Depth::Fixed(3), (4 * MIB, 0)),
        (65_536, MIB, MIB, Depth::Fixed(3), (65_536, 4)),
        (MIB, 4 * MIB, 100_000, measured, (100_000, 0)),
        (0, 0, 0, measured, (1, 0)),
        (u32::MAX, u32::MAX, u32::MAX, measured, (READ_BYTES_MAX, 0)),
    ];
    for (read, read_max, option, depth, expected) in table {
        let sizes = TransferSizes {
            read,
            read_max,
            write: 1,
            directory: 1,
        };
        let windows = Windows {
            read: depth,
            transfer_bytes_max: option,
            ..Windows::default()
        };
        let found = transfer(sizes, windows);
        // A fixed window never doubles, whatever room there is.
        assert_eq!(found, expected, "{read} {read_max} {option}");
    }
}
