//! `penstock ctl clients block`, `unblock` and `disconnect`: hosts shut out and sent away while the server runs.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::Server;
use crate::exports::config::parse_net;
use crate::operate::control::{Asker, BlockOrder, BlockStatus};

impl Server {
    /// Shuts a network out and closes its connections; says what is shut out then.
    ///
    /// # Errors
    /// The sentence to show: no network, no time, or too many blocks.
    pub fn block(&self, order: &BlockOrder, asker: Asker) -> Result<Vec<BlockStatus>, String> {
        let net = parse_net(&order.net)?;
        if order.minutes == Some(0) {
            return Err("0 minutes are over at once; write at least 1".to_owned());
        }
        let now = Instant::now();
        let blocked = self.service.blocked.add(net, order.minutes, now)?;
        let closed = self.clients.close(|peer| net.contains(&peer.ip()));
        let time = match order.minutes {
            Some(minutes) => format!("for {minutes} minutes"),
            None => "until it is lifted or the server ends".to_owned(),
        };
        tracing::info!("{net} is blocked {time} by {asker}; connections closed: {closed}");
        Ok(blocked)
    }

    /// Lets a network in again that was shut out; says what still is.
    ///
    /// # Errors
    /// The sentence to show: no network, or one that is not blocked.
    pub fn unblock(&self, net: &str, asker: Asker) -> Result<Vec<BlockStatus>, String> {
        let net = parse_net(net)?;
        let blocked = self.service.blocked.remove(net, Instant::now())?;
        tracing::info!("{net} is let in again by {asker}");
        Ok(blocked)
    }

    /// Closes the connections of an address, or the one of an address and port, and says how many they were. The
    /// client may connect again at once.
    ///
    /// # Errors
    /// The sentence to show: no address, or no connection of it.
    pub fn disconnect(&self, peer: &str, asker: Asker) -> Result<usize, String> {
        let closed = match (peer.parse::<SocketAddr>(), peer.parse::<IpAddr>()) {
            (Ok(wanted), _) => self
                .clients
                .close(|peer| peer == SocketAddr::new(wanted.ip().to_canonical(), wanted.port())),
            (_, Ok(wanted)) => self
                .clients
                .close(|peer| peer.ip() == wanted.to_canonical()),
            _ => {
                return Err(format!(
                    "\"{peer}\" is no address; write it as `penstock ctl clients` shows it, with or \
                     without the port"
                ));
            }
        };
        if closed == 0 {
            return Err(format!(
                "{peer} has no connection; `penstock ctl clients` lists them"
            ));
        }
        tracing::info!("{peer} is disconnected by {asker}; connections closed: {closed}");
        Ok(closed)
    }
}
