//! The future that a program spawns, which drives the stack. Called by programs. After each turn of
//! the driver it takes the datagrams for other hosts: it answers echo requests, and the rest goes
//! to the `UdpSocket`. It ends when the program drops its `Stack`; then the streams fail.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use net::{DriverFuture, Net, TokioTimer};

use crate::queue::Room;
use crate::udp::Inbox;

/// Drives the stack; spawn it.
pub type Runner = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

pub(crate) struct Running {
    pub(crate) driver: DriverFuture<TokioTimer>,
    pub(crate) net: Net,
    pub(crate) inbox: Inbox,
    pub(crate) room: Room,
}

impl Future for Running {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.room.is_closed() || Pin::new(&mut self.driver).poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        match self.inbox.take_foreign(&self.net) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Running {
    /// Streams and sinks may outlive the runner: they end with it.
    fn drop(&mut self) {
        self.room.end();
    }
}
