//! How long each scenario takes with one engine, on two idle cores: for the order in which they begin and
//! for what is said to be left. Measured by `cargo xtask test`, which prints each one's time; nothing fails
//! when one takes longer. `docs/testing.md` has the same table for people.

/// Seconds that the scenario `name` takes with one engine, about. One that is not in the list takes the time of a
/// middling one.
pub(super) fn typical_seconds(name: &str) -> u32 {
    const MIDDLING: u32 = 10;
    let known = TYPICAL.iter().find(|(known, _)| *known == name);
    known.map_or(MIDDLING, |(_, seconds)| *seconds)
}

/// Seconds that the processors have spent on this process and on those that it has waited for; `None` where /proc
/// does not say. What the kernel does on its own threads, and what others still run, is not in it.
pub(super) fn computed_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in parentheses, may hold spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    // utime, stime, cutime and cstime are the fields 14 to 17; the first behind the name is the third.
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

const TYPICAL: &[(&str, u32)] = &[
    ("wire-table", 1),
    ("wire-table-unprivileged", 2),
    ("commands", 1),
    ("doctor", 3),
    ("doctor-server", 6),
    ("doctor-ganesha", 5),
    ("doctor-nfsd", 14),
    ("screens-top", 6),
    ("screens-page", 4),
    ("package-deb", 30),
    ("package-static", 12),
    ("package-image", 6),
    ("documents", 20),
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
    ("kernel-6.12", 38),
    ("kernel-6.12-v4.1", 50),
    ("kernel-6.12-v4.2", 50),
    ("kernel-v4-locks", 29),
    ("kernel-v4-blocked", 10),
    ("kernel-v4-restart", 25),
    ("kernel-v4-sqlite", 25),
    ("host-side", 1),
    ("hostile", 13),
    ("io-matrix", 21),
    ("io-coherence", 6),
    ("io-faults", 2),
    ("io-live", 1),
    ("io-ahead", 10),
    ("io-counted", 2),
    ("rootless-device", 2),
    ("rootless-full", 1),
    ("stall-fuse", 1),
    ("stall-greedy", 3),
    ("stall-frozen", 1),
    ("kill", 6),
    ("write-twice", 3),
    ("kill-replies", 3),
    ("kill-names", 22),
    ("power-xfs", 9),
    ("power-ext4", 8),
    ("power-attributes", 6),
    ("power-behind", 1),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::TABLE;

    #[test]
    fn computing_is_counted_also_of_processes_that_have_ended() {
        let before = computed_seconds().unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        assert!(command.status().unwrap().success());
        assert!(computed_seconds().unwrap() > before);
    }

    #[test]
    fn the_times_are_those_of_the_documentation() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/testing.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, table) = text.split_once("### How long each takes").unwrap();
        let cells = |line: &str| {
            let cells = line
                .split('|')
                .map(|cell| cell.trim().trim_matches('`').to_owned());
            cells.collect::<Vec<_>>()
        };
        // Three pairs in a row; what is before the first bar is empty.
        let rows = table.lines().skip_while(|line| !line.starts_with("| `"));
        let rows = rows.take_while(|line| line.starts_with('|')).map(cells);
        let mut told: Vec<(String, u32)> = rows
            .flat_map(|row| {
                let pair = |at: usize| Some((row.get(at)?.clone(), row.get(at + 1)?.parse().ok()?));
                [pair(1), pair(3), pair(5)]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
            })
            .collect();
        told.sort();
        let mut known: Vec<(String, u32)> = TYPICAL
            .iter()
            .map(|(name, seconds)| ((*name).to_owned(), *seconds))
            .collect();
        known.sort();
        assert_eq!(told, known);
    }

    #[test]
    fn only_scenarios_that_exist_have_a_time() {
        for (name, _) in TYPICAL {
            let exists = TABLE.iter().any(|scenario| scenario.name == *name);
            assert!(exists, "{name} is no scenario");
        }
    }
}
