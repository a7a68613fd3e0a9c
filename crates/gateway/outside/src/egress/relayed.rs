//! Sessions whose datagrams a proxy relays: their control connections in the host's epoll.
//!
//! Called by: `egress.rs`. `via/relay.rs` has what is said to the proxy.

use gateway::{Failure, Outgoing, Outside, Ready, SessionKey, Token};

use super::{Egress, EgressSocket, Outlet};
use crate::via::{NO_DATAGRAMS, RELAYS, Turn};

impl Egress {
    /// The control connection of a relay is ready.
    pub(super) fn relay_ready(&mut self, number: usize, ready: Ready) {
        let Some(relayed) = self.relays.all.get_mut(number) else { return };
        let what = match relayed.turn(ready) {
            Turn::Waits { writes: true } => Ready::READABLE.and(Ready::WRITABLE),
            Turn::Waits { writes: false } => Ready::READABLE,
            Turn::Wakes(token, ready, refused) => {
                self.wakes.push_back((token, ready));
                match refused {
                    None => Ready::READABLE,
                    Some(refused) => {
                        self.relays.are_refused |= refused == NO_DATAGRAMS;
                        self.host.refused(refused);
                        // It is not waited for any more.
                        let _ = self.host.unwatch(relayed.control());
                        return;
                    }
                }
            }
        };
        // A failure leaves it waiting for what it waited for.
        let _ = self.host.watch(relayed.control(), RELAYS + number as u32, what);
        let waiting = relayed.take_waiting();
        let host = &mut self.host;
        for (to, payload) in waiting {
            let what = Outgoing { to, ttl: 64, tos: 0, seq: 0, segment_size: 0, payload: &payload };
            // The guest's program repeats what is lost.
            let _ = relayed.send(&what, |socket, what| host.send(socket, what));
        }
        self.host.flush();
    }

    /// A session whose datagrams the proxy relays; `None` if it relays none.
    pub(super) fn open_relayed(
        &mut self,
        token: Token,
        key: &SessionKey,
    ) -> Option<Result<EgressSocket, Failure>> {
        if self.relays.are_refused {
            return None;
        }
        let relayed = match self.host.begin_relay(token, key)? {
            Ok(relayed) => relayed,
            Err(why) => return Some(Err(why)),
        };
        let number = self.relays.all.insert(relayed);
        let both = Ready::READABLE.and(Ready::WRITABLE);
        let fd = self.relays.all[number].control();
        if self.host.watch(fd, RELAYS + number as u32, both).is_err() {
            self.close(Outlet::Relayed(number));
            return Some(Err(Failure::Full));
        }
        Some(Ok(Outlet::Relayed(number)))
    }
}
