//! Patterns in addresses over NFSv4: the same tests as over NFSv3.

#[path = "patterns.rs"]
mod over_v4;
