//! What a user of the polled API is told. Edges, not levels: read until `WouldBlock`.

use tcp::Events;

use crate::{ListenerHandle, PingHandle, PortId, TcpHandle, UdpHandle};

/// Something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// To a connection: one that was opened here, or accepted. Until then it is held back.
    Tcp(TcpHandle, Events),
    /// A connection waits to be accepted.
    Accept(ListenerHandle),
    /// A datagram came, or news of one that did not arrive.
    Udp(UdpHandle),
    /// Something came of an echo request.
    Ping(PingHandle),
    /// A neighbour at this port broadcasts to another address than the port does: see
    /// [`crate::Stack::other_broadcasters`]. Once a minute at most, for all ports.
    OtherBroadcast(PortId),
}
