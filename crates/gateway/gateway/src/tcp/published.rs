//! Published ports: a connection that the outside has accepted becomes one to the guest, from the
//! client's own address.
//!
//! Called by: the owner of listeners of the outside; `run.rs`.

use core::net::SocketAddr;

use base::Owner;
use stack::{ConnectError, IpSettings, TcpHandle};

use crate::around::Around;
use crate::flow::{Flow, FlowId, Leg, State, bit, second};
use crate::gateway::Gateway;
use crate::outside::{Ends, Outside};
use crate::policy::Policy;
use crate::report::End;

impl<T, S> Gateway<T, S> {
    /// A client has connected to a published port of the outside: connect to the guest's port `to`
    /// from the client's address. If the guest cannot see that address, because it is a loopback
    /// address, is in the guest's own network or of the other version, the connection comes from
    /// the gateway's. If the guest does not take it, the client's connection is reset.
    pub fn accept_published<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        mut outer: T,
        client: SocketAddr,
        to: SocketAddr,
        around: &mut Around<'_, O, P>,
    ) {
        let ends = Ends { guest: to, remote: client };
        if !self.has_room(&ends, around) {
            self.counts.unanswered += 1;
            around.outside.tcp_abort(outer);
            return;
        }
        let local = self.config.seen_by_guest(client, to);
        let Ok(handle) = self.connect_to_guest(to, local, around) else {
            self.counts.refused_inbound += 1;
            around.outside.tcp_abort(outer);
            return;
        };
        let mut flow = Flow::new(ends, Leg::Tcp(handle), State::Connecting, around.now);
        flow.set(bit::INBOUND);
        let id = self.wait(flow);
        around.stack.tcp_set_tag(handle, Some(id.token().0));
        around.outside.tcp_adopt(id.token(), &mut outer);
        if let Some(flow) = self.flows.get_mut(id) {
            flow.outer = Some(outer);
        }
    }

    fn connect_to_guest<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &self,
        to: SocketAddr,
        local: Option<SocketAddr>,
        around: &mut Around<'_, O, P>,
    ) -> Result<TcpHandle, ConnectError> {
        let ip = IpSettings { transparent: local.is_some(), ..IpSettings::default() };
        let Around { stack, now, .. } = around;
        let mut connect = |local, ip| {
            stack.tcp_connect_with(to, local, &self.config.tcp, Owner::program(), ip, *now)
        };
        match connect(local, ip) {
            // The same client has such a flow, of the other direction perhaps.
            Err(ConnectError::AddressInUse) if local.is_some() => {
                connect(None, IpSettings::default())
            }
            made => made,
        }
    }

    /// Has the guest taken the connection? If it refused, the flow is gone.
    pub(crate) fn taken<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) -> bool {
        let Some(flow) = self.flows.get_mut(id) else { return false };
        if flow.has(bit::HOST_EVENT)
            && let Some(outer) = &mut flow.outer
        {
            flow.bits &= !bit::HOST_EVENT;
            if let Err(why) = around.outside.tcp_outcome(outer) {
                self.reset(id, End::ResetByOutside(why), around);
                return false;
            }
        }
        if flow.has(bit::CONNECTED) {
            flow.state = State::Open;
            flow.active_s = second(around.now);
            flow.set(bit::HOST_READABLE | bit::HOST_WRITABLE);
            self.unwait(id);
            self.counts.opened_inbound += 1;
            return true;
        }
        if flow.has(bit::GUEST_CLOSED) {
            self.not_taken(id, around);
        }
        false
    }

    /// The guest has refused a connection, or did not answer.
    pub(crate) fn not_taken<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) {
        self.counts.refused_inbound += 1;
        self.reset(id, End::NotTaken, around);
    }
}
