//! Clients come and go; the server goes and comes back.

use super::*;

impl World {
    /// Whether it has a session, as far as it knows; it finds out by trying.
    pub(super) fn is_connected(&mut self, who: usize) -> bool {
        let now = self.server.now().0;
        let client = &mut self.clients[who];
        let Some(peer) = &client.peer else {
            return false;
        };
        match peer.try_request(&self.server) {
            Ok(request) => {
                request.finish(b"");
                client.renewed = now;
                true
            }
            Err(error) => {
                assert_eq!(error, Error::BadSession);
                assert!(
                    client.held.is_empty(),
                    "it was thrown out with what it held"
                );
                client.peer = None;
                false
            }
        }
    }

    pub(super) fn arrive(&mut self, who: usize) {
        let client = &mut self.clients[who];
        client.verifier = client.verifier.wrapping_add(1);
        let peer = self.server.arrive(&who.to_string(), client.verifier);
        client.id = Some(peer.id);
        client.peer = Some(peer);
        client.renewed = self.server.now().0;
        client.complete = false;
        client.recorded_now = false;
    }

    /// The machine goes down and comes back: it holds nothing, and knows nothing.
    pub(super) fn client_restarts(&mut self, who: usize) {
        if self.clients[who].peer.is_none() || self.clients[who].busy.is_some() {
            return;
        }
        self.arrive(who);
        let client = &mut self.clients[who];
        client.memory.clear();
        client.forget();
        self.tell_hosts();
    }

    pub(super) fn toggle_busy(&mut self, who: usize) {
        let now = self.server.now();
        let client = &mut self.clients[who];
        let Some(peer) = &client.peer else {
            return;
        };
        if client.busy.take().is_some() {
            return;
        }
        let call = support::call(1, self.random.u32(..));
        // Whatever its sequence is: a new slot begins at 1, and nobody minds what is refused.
        let call = nfs_state::SequenceCall {
            sequence: 1,
            ..call
        };
        if let Ok(nfs_state::Begun::Run(request)) =
            self.server.state.begin(&peer.session, &call, now)
        {
            client.busy = Some(request);
            client.renewed = now.0;
        }
    }

    pub(super) fn pass(&mut self) {
        let ms = self.random.u64(..LEASE / 4);
        self.server.pass(ms);
    }

    pub(super) fn is_over(&self, who: usize) -> bool {
        self.server.now().0 - self.clients[who].renewed > LEASE
    }

    pub(super) fn tick(&mut self) {
        for id in self.server.state.tick(self.server.now()).expire {
            let who = self.who(id);
            let client = &self.clients[who];
            assert!(
                self.is_over(who) && client.held.is_empty(),
                "only who holds nothing goes by itself"
            );
            self.expire(who, Why::LeaseOver);
        }
    }

    pub(super) fn expire_by_operator(&mut self, who: usize) {
        if self.clients[who].peer.is_some() {
            self.expire(who, Why::Operator);
        }
    }

    /// Whether it is gone.
    pub(super) fn expire(&mut self, who: usize, why: Why) -> bool {
        let Some(id) = self.clients[who].peer.as_ref().map(|peer| peer.id) else {
            return true;
        };
        let known = self.server.state.client(id).is_some();
        if known && why == Why::LeaseOver && !self.clients[who].held.is_empty() {
            self.meet(Met::ExpiredForConflict);
        }
        match self.server.expire(id, why) {
            Err(error) => {
                assert_eq!(error, Error::Delay);
                assert!(self.clients[who].busy.is_some(), "it holds nothing up");
                self.meet(Met::ExpiryPutOff);
                false
            }
            Ok(_) => {
                let client = &mut self.clients[who];
                assert!(
                    client.busy.is_none() || !known,
                    "expired under its own request"
                );
                if client.recorded_now && known {
                    client.record = None;
                }
                client.recorded_now = false;
                client.forget();
                self.tell_hosts();
                true
            }
        }
    }

    pub(super) fn who(&self, id: ClientId) -> usize {
        let found = self.clients.iter().position(|client| client.id == Some(id));
        found.expect("one of ours")
    }

    pub(super) fn restart(&mut self) {
        let over = self.server.state.grace().is_over;
        if !over {
            self.meet(Met::RestartInGrace);
        }
        for client in &mut self.clients {
            client.busy = None;
            client.peer = None;
            // Who was still reclaiming goes on with all it had; who had completed, with what it has.
            if client.complete || over {
                client.memory = std::mem::take(&mut client.held);
            }
            client.complete = false;
            client.recorded_now = false;
            client.away_until = 0;
            client.forget();
        }
        let disk = self.server.disk.clone();
        let passed = self.server.now().0;
        self.server = Server::start(disk, support::CONFIG);
        assert!(self.server.now().0 <= passed);
        self.files = (0..FILES).map(|_| support::file()).collect();
        self.hosts = vec![[None; CELLS]; FILES];
        let recorded = self
            .clients
            .iter()
            .filter(|client| client.record.is_some())
            .count();
        assert_eq!(self.server.state.grace().waiting, recorded);
        self.check_disk();
    }

    pub(super) fn end_grace(&mut self) {
        let was_over = self.server.state.grace().is_over;
        assert_eq!(self.server.end_grace(), !was_over);
        let epoch = self.server.disk.epoch;
        for client in &mut self.clients {
            client.record = client.record.filter(|record| *record == epoch || was_over);
        }
    }

    pub(super) fn check_disk(&self) {
        for (who, client) in self.clients.iter().enumerate() {
            let stored = self.server.disk.records.get(&bytes(&who.to_string()));
            assert_eq!(
                stored.map(|record| record.client.epoch.0),
                client.record,
                "record of {who}"
            );
        }
    }

    pub(super) fn complete(&mut self, who: usize) {
        let epoch = self.server.disk.epoch;
        let client = &self.clients[who];
        let peer = client.peer.as_ref().expect("connected");
        let request = peer.request(&self.server);
        let mut wrote = false;
        let done = loop {
            match self
                .server
                .state
                .reclaim_complete(&request, self.server.now())
            {
                Ok(Completion::Done { .. }) => break true,
                Ok(Completion::Record(write)) => {
                    wrote = true;
                    let record = write.record();
                    self.server
                        .disk
                        .records
                        .insert(record.owner.clone(), record);
                    let _permit = write.on_disk();
                }
                Err(error) => {
                    assert_eq!(error, Error::CompleteAlready);
                    break false;
                }
            }
        };
        let client = &mut self.clients[who];
        assert_eq!(done, !client.complete);
        assert_eq!(
            wrote,
            done && !client.held.is_empty() && !client.recorded_now
        );
        if wrote {
            self.met[Met::CompletedWithState as usize] += 1;
            client.record = Some(epoch);
            client.recorded_now = true;
        }
        client.complete = true;
        if done {
            // What it did not reclaim it has given up.
            client.memory.clear();
        }
    }
}
