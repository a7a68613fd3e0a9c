//! Calls of ordinary sockets that `mod.rs` does not have: the state of a connection, whether it can
//! be written, peeking at received data, options, and urgent data.
//!
//! Called by: programs, `net`. Nothing here waits, and nothing is on the packet path.

use tcp::usrreq::{self, CallError};
use tcp::{Config, Error, State, urgent};

use core::net::SocketAddr;

use crate::config::IpSettings;
use crate::connections::Pcb;
use crate::handles::{ListenerHandle, TcpHandle};
use crate::stack::Stack;
use crate::tx;

/// What a write announces about the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Nothing.
    Anything,
    /// The next write comes soon: a segment that is not full waits until the next write that
    /// announces nothing, an ACK, or a time-out. MSG_MORE of Linux.
    More,
    /// The next write is another record: no segment has data of both. MSG_EOR.
    Record,
}

impl Stack {
    /// The state of a connection, and its error if it has ended with one; `None` if the handle is
    /// not valid any more.
    pub fn tcp_state(&self, handle: TcpHandle) -> Option<(State, Option<Error>)> {
        self.connections.get(handle).map(|p| (p.tcb.state, p.tcb.error))
    }

    /// Give a connection a tag, for example the place of its flow in a table of the program's: its
    /// events are [`crate::Event::Tagged`] from now on, so that no map from handles is needed.
    /// `None` removes the tag. `false` if the handle means nothing any more.
    ///
    /// ```
    /// # mod wirespeed { pub use {base::*, wirespeed_stack::*, tcp}; }
    /// use wirespeed::pair::{PairConfig, pair};
    /// use wirespeed::{Event, Instant, Owner, tcp};
    ///
    /// let (mut end, mut other) = pair(&PairConfig::new([1, 2]));
    /// let (to, now) = (std::net::SocketAddr::new(other.addr, 7), Instant::from_nanos(1));
    /// let tcp = tcp::Config::default();
    /// let connection = end.stack.tcp_connect(to, None, &tcp, Owner::program(), now)?;
    /// let mut flows = vec![("first", connection)];
    /// end.stack.tcp_set_tag(connection, Some(0));
    /// end.stack.poll(now); // the SYN leaves
    /// other.stack.poll(now); // nobody listens: a RST leaves
    /// end.stack.poll(now);
    /// let Some(Event::Tagged(tag, what)) = end.stack.next_event() else { panic!("an event") };
    /// assert!(what.has(tcp::Events::CLOSED));
    /// let (name, connection) = flows.remove(tag as usize);
    /// # assert_eq!(name, "first");
    /// end.stack.tcp_close(connection);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tcp_set_tag(&mut self, handle: TcpHandle, tag: Option<u64>) -> bool {
        let pcb = self.connections.get_mut(handle);
        pcb.map(|pcb| pcb.tag = tag).is_some()
    }

    /// How many bytes a write would take now; never 0.
    ///
    /// # Errors
    /// [`CallError`]; after [`CallError::WouldBlock`] an event reports when there is room.
    pub fn tcp_writable(&mut self, handle: TcpHandle) -> Result<usize, CallError> {
        let pcb = self.connections.get_mut(handle).ok_or(CallError::Closed)?;
        usrreq::writable(&mut pcb.tcb, &mut self.core.cx)
    }

    /// Copy received data to `into`, but leave it in the receive buffer. 0 means that the peer has
    /// closed and all data was read.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn tcp_peek(&mut self, handle: TcpHandle, into: &mut [u8]) -> Result<usize, CallError> {
        let pcb = self.connections.get_mut(handle).ok_or(CallError::Closed)?;
        usrreq::peek(&mut pcb.tcb, into)
    }

    /// Has the peer acknowledged everything that was written, including our FIN if one is queued?
    pub fn tcp_is_sent(&self, handle: TcpHandle) -> bool {
        let sent = |tcb: &tcp::Tcb| tcb.unsent_bytes() == 0 && tcb.in_flight() == 0;
        self.connections.get(handle).is_none_or(|p| sent(&p.tcb))
    }

    /// Turn Nagle's algorithm off (`true`) or on; `None` if the handle is not valid any more.
    pub fn tcp_set_no_delay(&mut self, handle: TcpHandle, on: bool) -> Option<()> {
        let pcb = self.connections.get_mut(handle)?;
        usrreq::set_no_delay(&mut pcb.tcb, on);
        self.connections.mark_dirty(handle);
        tx::output(self);
        Some(())
    }

    /// Hold back a segment that is not full until more is written (`true`), or release a segment
    /// that is held back; a time-out releases it as well. TCP_CORK of Linux, TCP_NOPUSH of BSD.
    pub fn tcp_set_cork(&mut self, handle: TcpHandle, on: bool) -> Option<()> {
        let pcb = self.connections.get_mut(handle)?;
        usrreq::set_cork(&mut pcb.tcb, on);
        self.connections.mark_dirty(handle);
        tx::output(self);
        Some(())
    }

    /// [`Stack::tcp_write`] with `follows`, which announces the next write.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn tcp_write_part(
        &mut self,
        handle: TcpHandle,
        data: &[u8],
        follows: Follows,
    ) -> Result<usize, CallError> {
        let corked = self.connections.get(handle).is_some_and(|p| usrreq::cork(&p.tcb));
        let hold = follows != Follows::Anything && !corked;
        if let (true, Some(pcb)) = (hold, self.connections.get_mut(handle)) {
            // Until it is marked, no part of the write leaves except whole units.
            usrreq::set_cork(&mut pcb.tcb, true);
        }
        let written = self.tcp_write(handle, data);
        if !hold {
            if let (Follows::More, Some(pcb)) = (follows, self.connections.get_mut(handle)) {
                usrreq::more_follows(&mut pcb.tcb);
            }
            return written;
        }
        let whole = written == Ok(data.len());
        if let Some(pcb) = self.connections.get_dirty(handle) {
            match follows {
                Follows::More => usrreq::more_follows(&mut pcb.tcb),
                Follows::Record if whole => usrreq::end_record(&mut pcb.tcb),
                Follows::Record | Follows::Anything => {}
            }
            if follows == Follows::Record {
                usrreq::set_cork(&mut pcb.tcb, false);
            }
        }
        tx::output(self);
        if let Some(pcb) = self.connections.get_mut(handle) {
            usrreq::forget_cork(&mut pcb.tcb);
        }
        written
    }

    /// The number of connections that wait to be accepted at a listener.
    pub fn tcp_waiting(&mut self, listener: ListenerHandle) -> usize {
        self.listeners.get_mut(listener).map_or(0, |l| l.accepted.len())
    }

    /// Change the settings of the connections that a listener will accept from now on.
    pub fn tcp_configure_listener(
        &mut self,
        listener: ListenerHandle,
        change: impl FnOnce(&mut Config),
    ) -> Option<()> {
        let listener = self.listeners.get_mut(listener)?;
        change(std::sync::Arc::make_mut(&mut listener.config));
        Some(())
    }

    /// Is Nagle's algorithm off?
    pub fn tcp_no_delay(&self, handle: TcpHandle) -> Option<bool> {
        self.connections.get(handle).map(|p| usrreq::no_delay(&p.tcb))
    }

    /// Change the settings of one connection from now on: buffers, user timeout, keepalive.
    pub fn tcp_configure(
        &mut self,
        handle: TcpHandle,
        change: impl FnOnce(&mut Config),
    ) -> Option<()> {
        let pcb = self.connections.get_mut(handle)?;
        usrreq::configure(&mut pcb.tcb, change, &mut self.core.cx);
        // The connection's deadlines may be earlier now.
        self.connections.mark_dirty(handle);
        tx::output(self);
        Some(())
    }

    /// The settings of a connection.
    pub fn tcp_config(&self, handle: TcpHandle) -> Option<&Config> {
        self.connections.get(handle).map(|p| p.tcb.config())
    }

    /// The settings for the IP header of a connection's packets; `None` if the handle is not valid.
    pub fn tcp_ip(&self, handle: TcpHandle) -> Option<IpSettings> {
        let pcb = self.connections.get(handle)?;
        let (tos, ttl) = pcb.template.tos_ttl();
        Some(IpSettings { ttl, tos, ..IpSettings::by(pcb.by) })
    }

    /// Change the settings for the IP header from the next packet on; the VRF stays. Frames that
    /// wait for their departure time keep the old settings. RFC 9293 MUST-48, SHLD-21, SHLD-22,
    /// MUST-49.
    pub fn tcp_set_ip(&mut self, handle: TcpHandle, ip: IpSettings) -> Option<()> {
        let pcb = self.connections.get_mut(handle)?;
        pcb.template.set_tos_ttl(ip.tos, ip.ttl);
        if pcb.by.mark != ip.mark {
            (pcb.by.mark, pcb.seen) = (ip.mark, Pcb::NEVER_SEEN);
        }
        Some(())
    }

    /// Is the port of `local` used by another listener, by a connection or by a record in
    /// TIME-WAIT? Only a listener at exactly the same address prevents listening; this call is for
    /// programs that want the port for themselves.
    pub fn tcp_port_is_used(&self, local: SocketAddr) -> bool {
        let ip = (!local.ip().is_unspecified()).then_some(local.ip());
        self.listeners.overlaps(ip, local.port()) || self.connections.use_port(ip, local.port())
    }

    /// Like [`Stack::tcp_write`], but the last byte is urgent. The urgent data is announced to the
    /// peer at once, even while its window is zero, and the urgent mark is at that byte (RFC 6093:
    /// the byte stays in the stream). If not all bytes were taken, nothing is marked: write the
    /// remaining bytes in the same way. MSG_OOB.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn tcp_write_urgent(&mut self, handle: TcpHandle, data: &[u8]) -> Result<usize, CallError> {
        let Some((&last, before)) = data.split_last() else { return Ok(0) };
        let written = if before.is_empty() { 0 } else { self.tcp_write(handle, before)? };
        if written < before.len() {
            return Ok(written);
        }
        let pcb = self.connections.get_dirty(handle).ok_or(CallError::Closed)?;
        match urgent::write(&mut pcb.tcb, last, &mut self.core.cx) {
            Ok(()) => Ok(data.len()),
            Err(_) if written > 0 => Ok(written),
            Err(error) => Err(error),
        }
    }

    /// How many bytes there are to read up to the end of the announced urgent data, including those
    /// that have not arrived; 0 if there are none. [`tcp::Events::URGENT`] reports new urgent data.
    pub fn tcp_urgent_left(&self, handle: TcpHandle) -> Option<u64> {
        self.connections.get(handle).map(|p| urgent::left(&p.tcb))
    }

    /// The last urgent byte, if it was received and not read. It stays in the stream, so a read
    /// returns it again. A socket that delivers it out of band, as recv(2) does with MSG_OOB, drops
    /// it from the stream itself.
    pub fn tcp_urgent_byte(&mut self, handle: TcpHandle) -> Option<u8> {
        urgent::byte(&mut self.connections.get_mut(handle)?.tcb)
    }

    /// Is the next byte to read the last urgent one? A read stops before that byte, so that this
    /// call can find it. SIOCATMARK, sockatmark(3).
    pub fn tcp_at_mark(&self, handle: TcpHandle) -> Option<bool> {
        self.connections.get(handle).map(|p| urgent::at_mark(&p.tcb))
    }
}
