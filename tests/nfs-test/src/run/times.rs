//! How long each scenario takes with one engine, on two idle cores: for the order in which they begin and
//! for what is said to be left. Measured by `cargo xtask test`, which prints each one's time; nothing fails
//! when one takes longer.

/// Seconds that the scenario `name` takes with one engine, about. One that is not in the list takes the time of a
/// middling one.
pub(super) fn typical_seconds(name: &str) -> u32 {
    const MIDDLING: u32 = 10;
    let known = TYPICAL.iter().find(|(known, _)| *known == name);
    known.map_or(MIDDLING, |(_, seconds)| *seconds)
}

const TYPICAL: &[(&str, u32)] = &[
    ("wire-table", 1),
    ("wire-table-unprivileged", 2),
    ("commands", 1),
    ("doctor", 3),
    ("commands-ganesha", 1),
    ("commands-nfsd", 6),
    ("client-files", 11),
    ("client-files-ganesha", 3),
    ("client-files-nfsd", 12),
    ("client-many", 45),
    ("client-many-ganesha", 4),
    ("client-many-nfsd", 17),
    ("client-large", 30),
    ("client-local", 11),
    ("client-kill", 25),
    ("client-power-xfs", 16),
    ("client-power-ext4", 10),
    ("fuse", 84),
    ("fuse-ganesha", 76),
    ("fuse-kill", 5),
    ("fuse-away", 8),
    ("libnfs", 1),
    ("rpcbind", 1),
    ("kernel", 77),
    ("kernel-modes", 69),
    ("kernel-cache", 18),
    ("kernel-locks", 9),
    ("host-side", 1),
    ("hostile", 13),
    ("io-matrix", 21),
    ("io-coherence", 6),
    ("io-faults", 2),
    ("io-live", 1),
    ("io-counted", 2),
    ("rootless-device", 2),
    ("rootless-full", 1),
    ("stall-fuse", 1),
    ("stall-frozen", 1),
    ("kill", 6),
    ("write-twice", 3),
    ("kill-replies", 3),
    ("kill-names", 22),
    ("power-xfs", 9),
    ("power-ext4", 8),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::TABLE;

    #[test]
    fn only_scenarios_that_exist_have_a_time() {
        for (name, _) in TYPICAL {
            let exists = TABLE.iter().any(|scenario| scenario.name == *name);
            assert!(exists, "{name} is no scenario");
        }
    }
}
