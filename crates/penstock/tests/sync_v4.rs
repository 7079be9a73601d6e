//! `penstock sync` over NFSv4: the same tests as over NFSv3.

#[path = "sync.rs"]
mod over_v4;
