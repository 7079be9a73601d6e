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

const TYPICAL: &[(&str, u32)] = &[];

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
