//! Opens, and the permits for them.

use super::*;

impl World {
    pub(super) fn any_share(&mut self) -> (u32, u32) {
        let deny = if self.random.u32(..4) == 0 {
            self.random.u32(..4)
        } else {
            0
        };
        (self.random.u32(1..4), deny)
    }

    /// The permit, or what must be answered without one.
    pub(super) fn permit(
        &mut self,
        who: usize,
        request: &Sequenced<Pin>,
    ) -> Option<nfs_state::NewPermit> {
        let allowed = self.server.state.grace().is_over && self.clients[who].complete;
        let permit = self.server.permit(request);
        assert_eq!(permit.is_ok(), allowed, "{permit:?}");
        let epoch = self.server.disk.epoch;
        if allowed {
            self.clients[who].record = Some(epoch);
            self.clients[who].recorded_now = true;
        }
        if permit.is_err() {
            self.meet(Met::NotBeforeCompletion);
        }
        permit.ok()
    }

    pub(super) fn open(&mut self, who: usize, place: Place) {
        let share = self.any_share();
        let peer = self.clients[who].peer.take().expect("connected");
        let request = peer.request(&self.server);
        if let Some(permit) = self.permit(who, &request) {
            loop {
                let opened = self.try_open(&request, Claim::New(&permit), place, share);
                match opened {
                    Ok(open) => {
                        let conflict = self.share_conflict(who, place, share);
                        assert_eq!(conflict, None, "granted against a share");
                        self.meet(Met::OpenGranted);
                        let held = self.clients[who].held.entry(place).or_default();
                        held.seen.push(share);
                        self.clients[who].opens.insert(place, open);
                        break;
                    }
                    Err(Refused::Expirable(id)) => {
                        let other = self.who(id);
                        assert!(self.is_over(other) && other != who);
                        if !self.expire(other, Why::LeaseOver) {
                            break;
                        }
                    }
                    Err(Refused::Status(error)) => {
                        assert_eq!(error, Error::ShareDenied);
                        self.meet(Met::OpenDenied);
                        assert!(
                            self.share_conflict(who, place, share).is_some(),
                            "denied by nobody"
                        );
                        break;
                    }
                }
            }
        }
        request.finish(b"");
        self.clients[who].peer = Some(peer);
    }

    pub(super) fn try_open(
        &self,
        request: &Sequenced<Pin>,
        claim: Claim<'_>,
        place: Place,
        (access, deny): (u32, u32),
    ) -> Result<Arc<OpenState<Pin>>, Refused> {
        let bits = |wire| Bits::from_wire(wire).expect("two bits");
        let args = OpenArgs {
            owner: bytes(&place.0.to_string()),
            principal: principal("user"),
            file: Arc::clone(&self.files[place.1]),
            pin: (),
            share: Share::new(bits(access), bits(deny)).expect("some access"),
        };
        self.server
            .state
            .open(request, claim, args, self.server.now())
    }

    /// Somebody whose open stands against this one, together with what the same owner has already.
    pub(super) fn share_conflict(
        &self,
        who: usize,
        place: Place,
        share: (u32, u32),
    ) -> Option<usize> {
        let own = self.clients[who]
            .held
            .get(&place)
            .map_or((0, 0), Held::share);
        let (access, deny) = (own.0 | share.0, own.1 | share.1);
        self.clients.iter().enumerate().find_map(|(other, client)| {
            let stands = client.held.iter().any(|(at, held)| {
                let theirs = held.share();
                at.1 == place.1
                    && (other, *at) != (who, place)
                    && (access & theirs.1 != 0 || deny & theirs.0 != 0)
            });
            stands.then_some(other)
        })
    }

    pub(super) fn downgrade(&mut self, who: usize, place: Place) {
        let (access, deny) = self.any_share();
        let client = &mut self.clients[who];
        let (Some(open), Some(peer)) = (client.opens.get(&place), &client.peer) else {
            return;
        };
        let request = peer.request(&self.server);
        let bits = |wire| Bits::from_wire(wire).expect("two bits");
        let share = Share::new(bits(access), bits(deny)).expect("some access");
        let id = open.stateid().to_wire();
        let down = self
            .server
            .state
            .open_downgrade(&request, id, &self.files[place.1], share);
        request.finish(b"");
        let held = client.held.get_mut(&place).expect("it is open");
        let within = |one: &(u32, u32)| one.0 & !access == 0 && one.1 & !deny == 0;
        let parts: Vec<_> = held.seen.iter().copied().filter(within).collect();
        let union = parts
            .iter()
            .fold((0, 0), |all, one| (all.0 | one.0, all.1 | one.1));
        assert_eq!(down.is_ok(), union == (access, deny));
        if down.is_ok() {
            held.seen = parts;
        }
    }

    pub(super) fn close(&mut self, who: usize, place: Place) {
        let client = &mut self.clients[who];
        let (Some(open), Some(peer)) = (client.opens.remove(&place), &client.peer) else {
            return;
        };
        let request = peer.request(&self.server);
        let id = open.stateid().to_wire();
        let closed = self
            .server
            .state
            .close(&request, id, &self.files[place.1], self.server.now());
        closed.expect("it is open");
        request.finish(b"");
        client.held.remove(&place);
        client.locks.remove(&place);
        self.tell_hosts();
    }
}
