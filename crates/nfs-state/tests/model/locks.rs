//! Locks, and what is reclaimed after a restart.

use super::*;

impl World {
    pub(super) fn any_range(&mut self) -> (std::ops::RangeInclusive<usize>, Range) {
        let from = self.random.usize(..CELLS);
        let to = self.random.usize(from..CELLS);
        (from..=to, cells(from, to))
    }

    pub(super) fn lock(&mut self, who: usize, place: Place) {
        let kind = if self.random.bool() {
            LockKind::Read
        } else {
            LockKind::Write
        };
        let (at, range) = self.any_range();
        if !self.clients[who].opens.contains_key(&place) {
            return;
        }
        let peer = self.clients[who].peer.take().expect("connected");
        let request = peer.request(&self.server);
        if let Some(permit) = self.permit(who, &request) {
            while self.lock_once(
                who,
                &request,
                Claim::New(&permit),
                place,
                (at.clone(), range, kind),
            ) {}
        }
        request.finish(b"");
        self.clients[who].peer = Some(peer);
    }

    /// Whether to try again.
    pub(super) fn lock_once(
        &mut self,
        who: usize,
        request: &Sequenced<Pin>,
        claim: Claim<'_>,
        place: Place,
        (at, range, kind): (std::ops::RangeInclusive<usize>, Range, LockKind),
    ) -> bool {
        let mode = if kind == LockKind::Read { 1 } else { 2 };
        let is_open = self.clients[who].held[&place].share().0 & mode != 0;
        let conflict = self.lock_conflict(who, place, &at, kind);
        match self.try_lock(who, request, claim, place, range, kind) {
            Ok(granted) => {
                assert!(
                    is_open && conflict.is_none(),
                    "granted against {conflict:?}"
                );
                if granted {
                    self.meet(Met::LockGranted);
                    self.grant(who, place, at, kind);
                }
                self.tell_hosts();
                false
            }
            Err(LockRefused::Status(error)) => {
                assert_eq!(error, Error::OpenMode);
                assert!(!is_open);
                false
            }
            Err(LockRefused::Denied(holder)) => {
                assert!(is_open && conflict.is_some(), "denied by nobody");
                self.meet(Met::LockDenied);
                let LockOwner::V4 { client, owner } = holder.owner else {
                    panic!("nobody else locks");
                };
                let (other, number) = (self.who(client), owner.as_bytes()[0] - b'0');
                let theirs = &self.clients[other].held[&(usize::from(number), place.1)];
                assert!(
                    theirs
                        .cells
                        .iter()
                        .flatten()
                        .any(|(held, _)| *held == holder.kind)
                );
                false
            }
            Err(LockRefused::Expirable(id)) => {
                let other = self.who(id);
                assert!(self.is_over(other) && other != who);
                self.expire(other, Why::LeaseOver)
            }
        }
    }

    /// Whether the host agreed, which it does in most cases.
    pub(super) fn try_lock(
        &mut self,
        who: usize,
        request: &Sequenced<Pin>,
        claim: Claim<'_>,
        place: Place,
        range: Range,
        kind: LockKind,
    ) -> Result<bool, LockRefused> {
        let owner = bytes(&place.0.to_string());
        let client = &self.clients[who];
        let locker = match client.locks.get(&place) {
            Some(id) => Locker::Existing(*id),
            None => Locker::New {
                open: client.opens[&place].stateid().to_wire(),
                owner: &owner,
            },
        };
        let args = LockArgs {
            locker,
            file: &self.files[place.1],
            range,
            kind,
            wait: false,
        };
        let now = self.server.now();
        let reservation = self.server.state.lock(request, claim, &args, now)?;
        let refuses = matches!(claim, Claim::New(_)) && self.random.u32(..10) == 0;
        if refuses {
            self.meet(Met::LockRefusedByHost);
            // Some of the steps are done when the host says no.
            if let HostWork::Turn(mut turn) = self.files[place.1].host_turn()
                && self.random.bool()
                && let Some(step) = turn.next_step()
            {
                on_host(&mut self.hosts[place.1], step);
                turn.succeeded();
            }
            let notify = reservation.give_up(now);
            assert!(notify.is_empty());
            return Ok(false);
        }
        self.tell_hosts();
        let (id, _notify) = reservation.confirm(now).expect("the open is there");
        self.clients[who].locks.insert(place, id.to_wire());
        Ok(true)
    }

    pub(super) fn grant(
        &mut self,
        who: usize,
        place: Place,
        at: std::ops::RangeInclusive<usize>,
        kind: LockKind,
    ) {
        self.stamp += 1;
        let held = self.clients[who].held.get_mut(&place).expect("it is open");
        for cell in at {
            held.cells[cell] = Some((kind, self.stamp));
            self.granted.insert((place.1, cell, who, kind), self.stamp);
        }
    }

    pub(super) fn lock_conflict(
        &self,
        who: usize,
        place: Place,
        at: &std::ops::RangeInclusive<usize>,
        kind: LockKind,
    ) -> Option<usize> {
        self.clients.iter().enumerate().find_map(|(other, client)| {
            let stands = client.held.iter().any(|(theirs, held)| {
                let cells = held.cells[at.clone()].iter().flatten();
                let mut kinds = cells.map(|(kind, _)| *kind);
                theirs.1 == place.1
                    && (other, *theirs) != (who, place)
                    && kinds.any(|held| held == LockKind::Write || kind == LockKind::Write)
            });
            stands.then_some(other)
        })
    }

    pub(super) fn unlock(&mut self, who: usize, place: Place) {
        let (at, range) = self.any_range();
        let client = &mut self.clients[who];
        let (Some(id), Some(peer)) = (client.locks.get_mut(&place), &client.peer) else {
            return;
        };
        let request = peer.request(&self.server);
        let unlocked = self.server.state.unlock(
            &request,
            *id,
            &self.files[place.1],
            range,
            self.server.now(),
        );
        *id = unlocked.expect("its own").stateid.to_wire();
        request.finish(b"");
        client.held.get_mut(&place).expect("it is open").cells[at].fill(None);
        self.tell_hosts();
    }

    /// Reclaims an open of before the restart, and what was locked through it.
    pub(super) fn reclaim(&mut self, who: usize, place: Place) {
        let client = &self.clients[who];
        if client.opens.contains_key(&place) {
            return;
        }
        let Some(held) = client.memory.get(&place).cloned() else {
            return;
        };
        let epoch = self.server.disk.epoch;
        let running = !self.server.state.grace().is_over;
        let allowed = running && !client.complete && client.record.is_some();
        let peer = self.clients[who].peer.take().expect("connected");
        let request = peer.request(&self.server);
        let permit = self.server.state.permit_reclaim(&request);
        assert_eq!(permit.is_ok(), allowed, "{permit:?} in epoch {epoch}");
        self.meet(match &permit {
            Ok(_) => Met::OpenReclaimed,
            Err(_) => Met::ReclaimRefused,
        });
        if let Ok(permit) = permit {
            let claim = Claim::Reclaim(&permit);
            let open = self
                .try_open(&request, claim, place, held.share())
                .expect("nobody was granted it");
            self.clients[who].opens.insert(place, open);
            let reclaimed = Held {
                seen: vec![held.share()],
                ..Held::default()
            };
            self.clients[who].held.insert(place, reclaimed);
            for cell in 0..CELLS {
                if let Some((kind, stamp)) = held.cells[cell] {
                    self.reclaim_cell(who, &request, claim, place, (cell, kind, stamp));
                }
            }
        }
        request.finish(b"");
        self.clients[who].peer = Some(peer);
    }

    pub(super) fn reclaim_cell(
        &mut self,
        who: usize,
        request: &Sequenced<Pin>,
        claim: Claim<'_>,
        place: Place,
        (cell, kind, stamp): (usize, LockKind, Stamp),
    ) {
        // What this rests on: since it was granted, nobody else was given anything against it.
        for ((file, at, other, granted), later) in &self.granted {
            let against = *granted == LockKind::Write || kind == LockKind::Write;
            let same = *file == place.1 && *at == cell && *other != who;
            assert!(
                !(same && against && *later > stamp),
                "{other} was given what {who} holds"
            );
        }
        let mode = if kind == LockKind::Read { 1 } else { 2 };
        if self.clients[who].held[&place].share().0 & mode == 0 {
            return;
        }
        let locked = self.try_lock(who, request, claim, place, cells(cell, cell), kind);
        assert_eq!(locked, Ok(true), "nobody was granted it");
        let held = self.clients[who].held.get_mut(&place).expect("reclaimed");
        held.cells[cell] = Some((kind, stamp));
        self.meet(Met::LockReclaimed);
        self.tell_hosts();
    }
}
