//! The forwarder: a listener for connections to any destination.
//!
//! Called by: programs that are proxies, sandboxes or VPN clients.

use core::ffi::c_int;
use net::Forwarder;

use crate::calls::open_new;
use crate::error::{Call, Error};
use crate::open::{Doorway, Open};
use crate::socket::{Kind, Socket};
use crate::types::{ws_sock, ws_stack};
use crate::{entry, handles};

fn forwarder(stack: ws_stack, half_open_max: u32) -> Call<i64> {
    let stack = handles::stack(stack)?;
    let half_open_max = half_open_max.max(1) as usize;
    let forwarder = Forwarder::new(&stack.net, tcp::Config::default(), half_open_max)?;
    let handle = handles::add_socket(&stack, Kind::Stream, false, |_| {})?;
    open_new(handle, Open::Forwarder(Doorway::new(forwarder)))
}

fn admit(socket: &Socket) -> Call<()> {
    let request = socket.take_asked().ok_or_else(|| {
        Error::invalid("the socket is no connection of a forwarder, or was admitted already")
    })?;
    socket.await_open(request.answer()?.into())
}

/// Take every connection that no listener of the stack takes, to any address and port: a proxy's
/// ingress. The packets have to reach the stack: their senders have a route to it, and the stack
/// one back. ws_accept() takes a connection before it is answered; ws_getsockname() of that socket
/// is the destination that the peer asked for. Then ws_admit() answers it, or ws_close() refuses
/// it. At most half_open_max handshakes are under way at once. A stack has one forwarder at most.
///
/// Returns the forwarder, a socket to accept from; -EADDRINUSE if the stack has one, -ENOBUFS at a
/// limit; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_forwarder(stack: ws_stack, half_open_max: u32) -> ws_sock {
    entry::call(|| forwarder(stack, half_open_max))
}

/// Answer a connection that ws_accept() took from a forwarder, and wait until it is open, if the
/// call may wait. From then on the socket is an ordinary stream.
///
/// Returns 0; -EINPROGRESS as ws_connect(); -ENOBUFS at a limit, -ECONNRESET and others if the peer
/// gave up; -EINVAL if the socket is not such a connection; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_admit(socket: ws_sock) -> c_int {
    entry::status(|| admit(&*handles::socket(socket)?))
}
