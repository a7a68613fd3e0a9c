//! The engine over sockets of the host, compiled with this crate.
//!
//! Called by: programs whose own crate is not optimised. A generic function is compiled in the crate
//! that calls it with its types, with that crate's level of optimisation; these functions have no
//! types to choose.

use gateway::{Around, Gateway, Policy, Ready, Token};
use stack::Event;

use crate::datagrams::Socket;
use crate::host::Host;
use crate::tcp::Tcp;

/// An engine whose outside is [`Host`].
pub type HostGateway = Gateway<Tcp, Socket>;

/// What a turn of such an engine works with.
pub type HostAround<'a> = Around<'a, Host, dyn Policy + 'a>;

/// [`Gateway::event`].
#[inline(never)]
pub fn event(engine: &mut HostGateway, event: Event) -> bool {
    engine.event(event)
}

/// [`Gateway::ready`].
#[inline(never)]
pub fn ready(engine: &mut HostGateway, token: Token, ready: Ready) {
    engine.ready(token, ready);
}

/// [`Gateway::turn`].
#[inline(never)]
pub fn turn(engine: &mut HostGateway, around: &mut HostAround<'_>) {
    engine.turn(around);
}
