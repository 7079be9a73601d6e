//! What single changes tell: wcc_data, the server's clock, a creation that comes again.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfstime3, Sattr3, SetTime, StableHow};

use super::own::Own;
use super::{Ground, flat, mode};
use crate::doctor::facts::{Answered, ClockTrial, ExclusiveTrial, Refusal, WccSeen, WccTrial};
use crate::limits::DOCTOR_CLOCK_LOOKS;
use crate::nfs::Nfs;
use crate::random;

impl Ground<'_> {
    /// A WRITE, a SETATTR, a CREATE and a REMOVE, each with a GETATTR just before it.
    pub(super) async fn wcc(&self, own: &Own) -> Answered<WccTrial> {
        let dir = &own.handle;
        let file = self.new_file(dir, b"wcc").await?;
        if let Nfs::V4(nfs) = self.nfs {
            let atomic = nfs.remove_is_atomic(dir, b"wcc").await;
            let atomic = atomic.map_err(|error| Refusal::Call(error.to_string()))?;
            return Ok(WccTrial::V4 { atomic });
        }
        let data = Bytes::from_static(b"some bytes");
        let known = self.stat(&file).await?;
        let wrote = flat(self.nfs.write(&file, 0, StableHow::Unstable, data).await)?;
        let write = WccSeen {
            procedure: "WRITE",
            known,
            told: wrote.file_wcc,
        };
        let known = self.stat(&file).await?;
        let setattr = WccSeen {
            procedure: "SETATTR",
            known,
            told: flat(self.nfs.setattr(&file, &mode(0o640), None).await)?,
        };
        let known = self.stat(dir).await?;
        let how = CreateHow::Guarded(mode(0o600));
        let create = WccSeen {
            procedure: "CREATE",
            known,
            told: self.create(dir, b"wcc-2", how).await?.dir_wcc,
        };
        let known = self.stat(dir).await?;
        let remove = WccSeen {
            procedure: "REMOVE",
            known,
            told: self.remove(dir, b"wcc-2").await?,
        };
        Ok(WccTrial::V3(vec![write, setattr, create, remove]))
    }

    /// The server's time against ours, by a SETATTR to the server's time: the look with the shortest round trip.
    pub(super) async fn clock(&self, own: &Own) -> Answered<ClockTrial> {
        let file = self.new_file(&own.handle, b"clock").await?;
        let mut best: Option<ClockTrial> = None;
        for _ in 0..DOCTOR_CLOCK_LOOKS {
            let look = self.look_at_clock(&file).await?;
            if best.is_none_or(|best| look.uncertain_ns < best.uncertain_ns) {
                best = Some(look);
            }
        }
        best.ok_or(Refusal::NotAsked)
    }

    async fn look_at_clock(&self, file: &FileHandle) -> Answered<ClockTrial> {
        let now = Sattr3 {
            mtime: SetTime::ServerTime,
            ..Sattr3::default()
        };
        let before = since_1970_ns();
        let told = flat(self.nfs.setattr(file, &now, None).await)?;
        let after = since_1970_ns();
        let attributes = match told.after {
            Some(attributes) => attributes,
            None => self.stat(file).await?,
        };
        Ok(ClockTrial {
            ahead_ns: nanoseconds(attributes.mtime) - i128::midpoint(before, after),
            uncertain_ns: (after - before) / 2,
        })
    }

    /// An EXCLUSIVE creation, again with the same verifier, and with another.
    pub(super) async fn exclusive(&self, own: &Own) -> Answered<ExclusiveTrial> {
        let (dir, name) = (&own.handle, b"exclusive");
        let ours = CreateHow::Exclusive(random::bytes());
        let first = self.create(dir, name, ours).await?;
        let again = self.create(dir, name, ours).await;
        let other = CreateHow::Exclusive(random::bytes());
        Ok(ExclusiveTrial {
            same: again.map(|again| again.handle == first.handle),
            other: self.create(dir, name, other).await.map(|_| ()),
        })
    }
}

/// The time of this machine's clock in nanoseconds since the beginning of 1970, UTC.
fn since_1970_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 is as wrong as one that stands at its beginning.
    i128::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i128::MAX)
}

fn nanoseconds(time: Nfstime3) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nseconds)
}
