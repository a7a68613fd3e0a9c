//! Names of the parts of a stack for its users: ports, connections, listeners, sockets; and the
//! events that name them. An event is reported once for each change, not for as long as a condition
//! holds: read until `WouldBlock`.
//!
//! Called by: everybody. A handle never means another object later. Only the number of a port may
//! be used again.

use slotmap::new_key_type;
use tcp::Events;

/// The number of a port. A new port may get the number of a removed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortId(pub u16);

impl PortId {
    /// The scope identifier of this port's link (RFC 4007 section 6), as in `fe80::1%1`. 0 means no
    /// link in particular.
    pub const fn scope_id(self) -> u32 {
        self.0 as u32 + 1
    }

    /// The port of a scope identifier.
    pub const fn of_scope(scope_id: u32) -> Option<PortId> {
        match scope_id.checked_sub(1) {
            Some(number) if number <= u16::MAX as u32 => Some(PortId(number as u16)),
            _ => None,
        }
    }
}

new_key_type! {
    /// A connection.
    pub struct TcpHandle;

    /// A listener.
    pub struct ListenerHandle;

    /// A SYN that waits for the program to complete, refuse or ignore it.
    pub struct RequestHandle;

    /// A UDP socket.
    pub struct UdpHandle;

    /// An echo socket.
    pub struct PingHandle;
}

/// An event that a stack reports to its program.
///
/// ```
/// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
/// use wirespeed::pair::{PairConfig, pair};
/// use wirespeed::{Event, Instant};
///
/// let (mut end, _other) = pair(&PairConfig::new([1, 2]));
/// end.stack.poll(Instant::from_nanos(1));
/// while let Some(event) = end.stack.next_event() {
///     match event {
///         Event::Tcp(connection, what) => println!("{connection:?}: {what:?}"),
///         Event::Accept(listener) => drop(end.stack.tcp_accept(listener)),
///         Event::Udp(socket) => drop(end.stack.udp_receive(socket)),
///         other => println!("{other:?}"),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Events of a connection that was opened here or accepted. The events of a connection that is
    /// not accepted yet are held back.
    Tcp(TcpHandle, Events),
    /// The same of a connection that has a tag ([`crate::Stack::tcp_set_tag`]), which stands here
    /// in place of its handle.
    Tagged(u64, Events),
    /// A connection waits to be accepted.
    Accept(ListenerHandle),
    /// A datagram arrived, or an error about one that did not reach its destination.
    Udp(UdpHandle),
    /// An echo request was answered, or an error came about it.
    Ping(PingHandle),
    /// A datagram for another host waits: [`crate::Stack::foreign_receive`].
    Foreign,
    /// A neighbour at this port broadcasts to another address than the port does: see
    /// [`crate::Stack::other_broadcasters`]. Once a minute at most, for all ports.
    OtherBroadcast(PortId),
    /// The state of one of a port's addresses changed by itself: a tentative address is ours now,
    /// or another host has it. [`crate::Stack::addresses`] returns the current states.
    Address(PortId),
}

/// The queue of events is on the packet path: a tag takes the place of a handle.
const _: () = assert!(size_of::<Event>() <= 16);
