//! What a program sends in the name of other hosts: echo replies, and ICMP errors about packets to
//! them. Errors quote a packet that is made of its flow's key, because the packet itself is gone
//! when the program learns that it did not arrive.
//!
//! Called by: programs. `socket/udp/between.rs` sends datagrams. RFC 792, RFC 4443, RFC 1122
//! section 3.2.2. Limit: `foreign_errors_per_second`; it is apart from the limits of this host's
//! own errors, which bear a traceroute of one guest badly: all errors of a gateway go to one host.

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, Instant, Limit, Owner};
use inet::icmp::{self, ErrorKind, Report, Unreachable};
use inet::ip_input::is_martian_source;
use inet::{Sender, Vrf};
use wire::protocol;

use super::{ForeignFlow, ForeignKind};
use crate::config::IpSettings;
use crate::handles::RequestHandle;
use crate::icmp::send_report;
use crate::next_hop::source;
use crate::stack::Stack;
use crate::{frag, neighbours, resolve};

impl Stack {
    /// Reply to an echo request of `to` in the name of `from`, which need not be ours, with the
    /// identifier and the sequence number of the request; TTL, type of service and mark are those
    /// of `ip`. There is no rate limit: the program decides.
    ///
    /// # Errors
    /// The named reason: no route or buffer, addresses of two versions, or a host that cannot be.
    pub fn echo_reply(
        &mut self,
        (from, to): (IpAddr, SocketAddr),
        (id, seq): (u16, u16),
        ip: IpSettings,
        data: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        self.core.set_now(now);
        check_ends(self, from, to.ip())?;
        if icmp::HEADER_LEN + data.len() > frag::output::transport_max(to.ip()) {
            return Err(DropReason::IpTooBig);
        }
        let protocol = icmp_of(from);
        let local = SocketAddr::new(from, 0);
        let egress = resolve::route(self, local, to, protocol, &Owner::program(), ip);
        neighbours::act(self);
        let egress = egress?;
        let most = self.path_mtus.mtu(to.ip(), egress.mtu, self.core.cx.now);
        let sum = self.core.cx.ladder.sum(data);
        let header = icmp::echo_reply((id, seq), (from, to.ip()), data.len(), sum);
        frag::output::send(self, &egress, &header, data, most)?;
        self.core.cx.counters.add(Counter::ForeignEchoReplies, 1);
        Ok(())
    }

    /// Send an ICMP error to the sender of a datagram that went to another host, in the name of
    /// `from`: a router on the way, or the destination. It quotes the IP header of the datagram and
    /// the eight bytes behind it, made of `about`; `payload_len` is how many bytes of payload the
    /// datagram had. [`ErrorKind::Transient`] is sent as "time exceeded in transit", as traceroute
    /// needs it.
    ///
    /// # Errors
    /// The named reason; [`DropReason::IcmpRateLimited`] beyond `foreign_errors_per_second`.
    ///
    /// ```
    /// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
    /// use wirespeed::pair::{PairConfig, pair};
    /// use wirespeed::{ErrorKind, Foreign, Instant, Owner, Route, StackConfig, Unreachable};
    ///
    /// let foreign = Foreign { udp: true, ..Foreign::default() };
    /// let stack = StackConfig { foreign, ..StackConfig::new([1, 2]) };
    /// let (mut guest, mut gateway) = pair(&PairConfig { stack, ..PairConfig::new([1, 2]) });
    /// guest.stack.add_route(Route::new("0.0.0.0/0".parse()?, Some(gateway.addr), guest.port.0));
    /// let now = Instant::from_nanos(1);
    /// let socket = guest.stack.udp_bind("0.0.0.0:0".parse()?, Owner::program())?;
    /// guest.stack.udp_send(socket, "198.51.100.53:53".parse()?, b"which?", now)?;
    /// guest.stack.poll(now);
    /// gateway.stack.poll(now);
    ///
    /// let mut datagrams = Vec::new();
    /// gateway.stack.foreign_receive(&mut datagrams, 64);
    /// let (flow, len) = (datagrams[0].flow, datagrams[0].payload.len());
    /// let error = ErrorKind::Unreachable(Unreachable::Port); // nobody listens there
    /// gateway.stack.icmp_error(&flow, len, error, flow.dst.ip(), now).expect("room");
    /// gateway.stack.poll(now);
    /// guest.stack.poll(now);
    /// let error = guest.stack.udp_take_error(socket);
    /// assert_eq!(error, Some(("198.51.100.53:53".parse()?, Unreachable::Port)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn icmp_error(
        &mut self,
        about: &ForeignFlow,
        payload_len: usize,
        error: ErrorKind,
        from: IpAddr,
        now: Instant,
    ) -> Result<(), DropReason> {
        self.core.set_now(now);
        let ends = (about.src, about.dst);
        let (ip_protocol, header) = match about.kind {
            ForeignKind::Udp => {
                let length = (wire::udp::HEADER_LEN + payload_len).min(usize::from(u16::MAX));
                let [a, b] = about.src.port().to_be_bytes();
                let [c, d] = about.dst.port().to_be_bytes();
                let [e, f] = (length as u16).to_be_bytes();
                (protocol::UDP, [a, b, c, d, e, f, 0, 0])
            }
            ForeignKind::Echo { id, seq } => {
                (icmp_of(about.src.ip()), icmp::quoted_echo_request((id, seq), about.src.is_ipv4()))
            }
        };
        let len = header.len() + payload_len;
        report(self, ends, (ip_protocol, &header, len), error, from)
    }

    /// Answer a SYN that waits for a decision with an ICMP error instead of a RST: the peer's
    /// connect fails with "no route to host", for example. It is from our address towards the peer,
    /// or, if there is none, from the SYN's destination. Within `foreign_errors_per_second`; the
    /// SYN goes without an answer beyond that.
    ///
    /// ```
    /// # mod wirespeed { pub use {base::*, wirespeed_stack::*, tcp}; }
    /// use wirespeed::pair::{PairConfig, pair};
    /// use wirespeed::{Event, Instant, ListenConfig, Owner, Route, Unreachable, tcp};
    ///
    /// let (mut guest, mut gateway) = pair(&PairConfig::new([1, 2]));
    /// guest.stack.add_route(Route::new("0.0.0.0/0".parse()?, Some(gateway.addr), guest.port.0));
    /// let config = ListenConfig { inspect: true, ..ListenConfig::default() };
    /// let listener = gateway.stack.tcp_listen("0.0.0.0:0".parse()?, config)?;
    ///
    /// let (to, now) = ("198.51.100.80:80".parse()?, Instant::from_nanos(1));
    /// let tcp = tcp::Config::default();
    /// let connection = guest.stack.tcp_connect(to, None, &tcp, Owner::program(), now)?;
    /// guest.stack.poll(now);
    /// gateway.stack.poll(now);
    /// assert_eq!(gateway.stack.next_event(), Some(Event::Accept(listener)));
    /// let (request, ..) = gateway.stack.tcp_request(listener).expect("a SYN waits");
    /// gateway.stack.tcp_unreachable(request, Unreachable::Port);
    /// gateway.stack.poll(now);
    /// guest.stack.poll(now);
    /// let (_, error) = guest.stack.tcp_state(connection).expect("it is kept");
    /// assert_eq!(error, Some(tcp::Error::Refused));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tcp_unreachable(&mut self, handle: RequestHandle, why: Unreachable) {
        let Some(request) = self.requests.take(handle) else { return };
        let syn = &request.syn;
        let (peer, dst) = (syn.remote, syn.local);
        // Linux looks at ports and sequence number, others at the whole header.
        let mut header = [0; wire::tcp::HEADER_LEN];
        let fields = wire::tcp::Header {
            src_port: peer.port(),
            dst_port: dst.port(),
            seq: syn.seg.seq,
            ack: syn.seg.ack,
            header_len: wire::tcp::HEADER_LEN,
            flags: syn.seg.flags,
            window: 0,
            urgent: 0,
        };
        fields.emit(&mut header);
        let ours = source(self, peer, Sender::Program).unwrap_or(dst.ip());
        let error = ErrorKind::Unreachable(why);
        let quoted = (protocol::TCP, &header[..], header.len());
        if let Err(reason) = report(self, (peer, dst), quoted, error, ours) {
            self.core.drops.count(reason);
        }
    }
}

/// The protocol number of ICMP beside this address.
fn icmp_of(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 }
}

/// Send an error about a packet between `ends`: its protocol, the first bytes behind its IP header,
/// and how many bytes there were in all.
fn report(
    stack: &mut Stack,
    (src, dst): (SocketAddr, SocketAddr),
    (ip_protocol, header, len): (u8, &[u8], usize),
    error: ErrorKind,
    from: IpAddr,
) -> Result<(), DropReason> {
    check_ends(stack, from, src.ip())?;
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(DropReason::IpMartianDestination);
    }
    let (what, at_least) = match error {
        ErrorKind::Unreachable(why) => (Report::Unreachable(why), 0),
        // A report of an MTU is believed if the packet was larger.
        ErrorKind::TooBig(mtu) => (Report::TooBig(mtu), mtu.saturating_add(1)),
        ErrorKind::Transient => (Report::HopLimit, 0),
    };
    let core = &mut stack.core;
    let limit = Limit::ForeignErrorsPerSecond;
    if !stack.foreign.errors.admits(limit, core.cx.now, &mut core.cx.budget) {
        return Err(DropReason::IcmpRateLimited);
    }
    let quote = icmp::quote((src.ip(), dst.ip()), (ip_protocol, header), len.max(at_least));
    let to = match src {
        SocketAddr::V4(_) => SocketAddr::new(src.ip(), 0),
        // With its scope.
        SocketAddr::V6(mut to) => {
            to.set_port(0);
            SocketAddr::V6(to)
        }
    };
    send_report(stack, &quote, (from, to), (what, Vrf::NONE))?;
    stack.core.cx.counters.add(Counter::ForeignErrors, 1);
    Ok(())
}

/// Can hosts have both addresses, the source and the destination of an answer?
///
/// # Errors
/// [`DropReason::IpMartianSource`], [`DropReason::IpMartianDestination`].
fn check_ends(stack: &Stack, from: IpAddr, to: IpAddr) -> Result<(), DropReason> {
    let is_host = |addr: IpAddr| !is_martian_source(addr) && !stack.is_broadcast_to(addr);
    if !is_host(from) {
        return Err(DropReason::IpMartianSource);
    }
    let reaches = is_host(to) && from.is_ipv4() == to.is_ipv4();
    if reaches { Ok(()) } else { Err(DropReason::IpMartianDestination) }
}
