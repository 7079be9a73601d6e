//! `penstock cat` over NFSv4: the same tests as over NFSv3.

#[path = "cat.rs"]
mod over_v4;
