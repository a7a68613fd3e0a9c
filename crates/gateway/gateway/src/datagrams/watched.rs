//! Datagrams that the policy sees before they are sent: the first ones of QUIC have a server's
//! name.
//!
//! Called by: `up.rs`, for peers whose policy asked for that.

use stack::{ForeignDatagram, Unreachable};

use super::SessionId;
use super::session::Class;
use super::up::{ends_of, refuse};
use crate::around::Around;
use crate::gateway::Gateway;
use crate::outside::{Failure, Outside};
use crate::policy::{Glance, Policy};
use crate::report::End;

impl<T, S> Gateway<T, S> {
    /// May these datagrams leave? After a refusal their destination is no peer of the session any
    /// more, and a session without peers ends.
    pub(super) fn passes<O, P>(
        &mut self,
        id: SessionId,
        datagram: &ForeignDatagram,
        around: &mut Around<'_, O, P>,
    ) -> bool
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let (protocol, ends) = ends_of(&datagram.flow);
        let (payload, size) = (datagram.payload.as_slice(), datagram.segment_size);
        match around.policy.datagrams(&ends, payload, size.into()) {
            Glance::Pass => return true,
            Glance::More => {
                self.counts.datagrams_held += 1;
                return false;
            }
            Glance::Refuse => self.counts.datagrams_refused += 1,
        }
        if let Some(session) = self.sessions.slots.get_mut(id) {
            let is_over = session.peers.len() == 1 && session.class != Class::Published;
            if let Some(peer) = session.peers.remove(ends.remote) {
                self.report_peer((protocol, ends), End::Refused, &peer);
            }
            if is_over {
                self.end_session(id, End::Refused, around);
            }
        }
        refuse(around.stack, datagram, Failure::Unreachable(Unreachable::Port), around.now);
        false
    }
}
