//! `penstock cp`, `put` and `get` over NFSv4: the same tests as over NFSv3.

#[path = "cp.rs"]
mod over_v4;
