//! Datagrams from and to any host, as a stream and a sink. Called by programs.
//!
//! The stack checks what arrives and reassembles fragments. Limit: `udp_buffer_size` datagrams wait
//! for the program; what comes then is dropped, as UDP is.

use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_core::Stream;
use futures_sink::Sink;
use net::Net;
use stack::{ForeignDatagram, ForeignKind, IpSettings, UdpError};

use crate::queue::Room;

/// A payload, its source and its destination.
pub type UdpMsg = (Vec<u8>, SocketAddr, SocketAddr);

/// Datagrams that the stack takes at a time.
const TAKE_MAX: usize = 64;

/// The datagrams that wait for the program.
#[derive(Clone)]
pub(crate) struct Inbox(Arc<Mutex<Waiting>>);

struct Waiting {
    datagrams: VecDeque<UdpMsg>,
    limit: usize,
    waker: Option<Waker>,
    /// The runner's; kept for its memory.
    taken: Vec<ForeignDatagram>,
}

impl Inbox {
    /// With a limit of 0 no datagram is kept.
    pub(crate) fn new(limit: usize) -> Inbox {
        let (datagrams, taken) = (VecDeque::new(), Vec::new());
        Inbox(Arc::new(Mutex::new(Waiting { datagrams, limit, waker: None, taken })))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answer the echo requests for other hosts that the stack has, and keep the datagrams.
    ///
    /// # Errors
    /// The stack has ended.
    pub(crate) fn take_foreign(&self, net: &Net) -> io::Result<()> {
        let mut waiting = self.lock();
        let waiting = &mut *waiting;
        let before = waiting.datagrams.len();
        net.with_stack(|stack| {
            while stack.foreign_receive(&mut waiting.taken, TAKE_MAX) > 0 {
                for datagram in waiting.taken.drain(..) {
                    let (flow, bytes) = (datagram.flow, datagram.payload.as_slice());
                    match flow.kind {
                        ForeignKind::Echo { id, seq } => {
                            let ends = (flow.dst.ip(), flow.src);
                            let (now, ip) = (stack.now(), IpSettings::default());
                            // The stack counts a reply that it cannot send; the sender asks again.
                            let _ = stack.echo_reply(ends, (id, seq), ip, bytes, now);
                        }
                        ForeignKind::Udp if waiting.datagrams.len() < waiting.limit => {
                            waiting.datagrams.push_back((bytes.to_vec(), flow.src, flow.dst));
                        }
                        ForeignKind::Udp => {}
                    }
                    stack.give_back(datagram.payload);
                }
            }
        })?;
        if waiting.datagrams.len() > before
            && let Some(waker) = waiting.waker.take()
        {
            waker.wake();
        }
        Ok(())
    }
}

impl Drop for Inbox {
    /// The reader sees the end of the stack when the runner drops its inbox.
    fn drop(&mut self) {
        if let Some(waker) = self.lock().waker.take() {
            waker.wake();
        }
    }
}

/// Both directions.
pub struct UdpSocket {
    read: ReadHalf,
    write: WriteHalf,
}

/// The datagrams that arrive, as a stream, which ends with the stack.
pub struct ReadHalf {
    inbox: Inbox,
    net: Net,
    /// Set if this half takes datagrams from the stack, because there is no runner that does.
    alone: Option<Room>,
}

/// The datagrams that leave, as a sink: the payload, the source in whose name it is sent, and the
/// destination.
pub struct WriteHalf {
    net: Net,
    room: Room,
    /// Waits until the queue of packets has room.
    pending: Option<UdpMsg>,
}

impl UdpSocket {
    pub(crate) fn new(net: &Net, inbox: Inbox, room: Room, takes: bool) -> UdpSocket {
        let alone = takes.then(|| room.clone());
        let read = ReadHalf { inbox, net: net.clone(), alone };
        UdpSocket { read, write: WriteHalf { net: net.clone(), room, pending: None } }
    }

    /// The directions, for two tasks.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (self.read, self.write)
    }
}

impl Stream for ReadHalf {
    type Item = UdpMsg;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<UdpMsg>> {
        {
            let mut waiting = self.inbox.lock();
            if let Some(datagram) = waiting.datagrams.pop_front() {
                return Poll::Ready(Some(datagram));
            }
            waiting.waker = Some(cx.waker().clone());
        }
        let looked = if let Some(room) = &self.alone {
            if room.poll_closed(cx) {
                return Poll::Ready(None);
            }
            self.net
                .wake_for_polled(cx.waker().clone())
                .and_then(|()| self.inbox.take_foreign(&self.net))
        } else {
            self.net.with_stack(|_| ())
        };
        if looked.is_err() {
            return Poll::Ready(None);
        }
        self.inbox.lock().datagrams.pop_front().map_or(Poll::Pending, |msg| Poll::Ready(Some(msg)))
    }
}

impl WriteHalf {
    /// Send what is pending.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((payload, from, to)) = &self.pending {
            let sent = self.net.with_stack(|stack| {
                let now = stack.now();
                stack.udp_send_between(*from, *to, IpSettings::default(), payload, now)
            })?;
            match sent {
                Err(UdpError::WouldBlock) => {
                    if self.room.poll(cx).is_ready() {
                        // The driver has not used the room yet: it runs first.
                        cx.waker().wake_by_ref();
                    }
                    return Poll::Pending;
                }
                sent => {
                    self.pending = None;
                    sent.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Sink<UdpMsg> for WriteHalf {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, item: UdpMsg) -> io::Result<()> {
        if item.1.is_ipv4() != item.2.is_ipv4() {
            let text = "source and destination differ in their IP version; use one for both";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.pending = Some(item);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }
}
