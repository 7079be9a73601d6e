//! `penstock cp` through streams over NFSv4: the same tests as over NFSv3.

#[path = "streams.rs"]
mod over_v4;
