//! The commands that go down trees, over NFSv4: the same tests as over NFSv3.

#[path = "trees.rs"]
mod over_v4;
