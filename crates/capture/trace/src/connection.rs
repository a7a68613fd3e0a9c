//! One connection: its two directions, its handshake, and the direction that each segment counts
//! for.
//!
//! Called by: `trace`.

use core::net::SocketAddr;

use base::SeqNumber;
use wire::tcp::Flags;

use crate::marks::Marks;
use crate::packet::Segment;
use crate::rules;
use crate::side::{Counts, Graph, Side, Used};

/// A connection, as the capture shows it. The client is the end that sent the SYN; without a SYN,
/// the end that sent the first segment.
#[derive(Debug)]
pub struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    interface: u32,
    first_ns: u64,
    last_ns: u64,
    /// The side of the client, then that of the server.
    sides: [Side; 2],
    syn_ns: Option<u64>,
    handshake_ns: Option<u64>,
}

/// Read access to one direction of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Direction<'a> {
    side: &'a Side,
}

impl<'a> Direction<'a> {
    /// The counts of this direction.
    pub fn counts(&self) -> &'a Counts {
        &self.side.counts
    }

    /// The points of this direction's time-sequence graph.
    pub fn graph(&self) -> &'a Graph {
        &self.side.graph
    }

    /// The MSS that this direction's SYN announced.
    pub fn mss(&self) -> Option<u16> {
        self.side.mss
    }

    /// Whether this direction's SYN permits SACK.
    pub fn sack_permitted(&self) -> bool {
        self.side.sack_permitted
    }

    /// The quantile `of` (0 to 1) of the direction's round trips, in ns, from the samples that were
    /// kept. `None` if there are none.
    pub fn rtt_quantile_ns(&self, of: f64) -> Option<u64> {
        let points = self.side.graph.round_trips.points();
        let mut sorted: Vec<u64> = points.iter().map(|point| point.rtt_ns).collect();
        sorted.sort_unstable();
        let index = (sorted.len().saturating_sub(1) as f64 * of).round() as usize;
        sorted.get(index).copied()
    }
}

impl Connection {
    pub(crate) fn new(segment: &Segment, interface: u32) -> Connection {
        let is_answer = segment.flags.contains(Flags::SYN.with(Flags::ACK));
        let (client, server) = match is_answer {
            true => (segment.dst, segment.src),
            false => (segment.src, segment.dst),
        };
        Connection {
            client,
            server,
            interface,
            first_ns: segment.time_ns,
            last_ns: segment.time_ns,
            sides: Default::default(),
            syn_ns: None,
            handshake_ns: None,
        }
    }

    /// The address of the end that connected.
    pub fn client(&self) -> SocketAddr {
        self.client
    }

    /// The address that the client connected to.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// The interface of the capture that saw the connection.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// The time of the connection's first segment, in ns since 1970.
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// The time of the connection's last segment, in ns since 1970.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// The time from the SYN to the ACK that ends the handshake, in ns. `None` if the capture does
    /// not have the whole handshake.
    pub fn handshake_ns(&self) -> Option<u64> {
        self.handshake_ns
    }

    /// The data that the client sent, and its acknowledgments.
    pub fn from_client(&self) -> Direction<'_> {
        Direction { side: &self.sides[0] }
    }

    /// The data that the server sent, and its acknowledgments.
    pub fn from_server(&self) -> Direction<'_> {
        Direction { side: &self.sides[1] }
    }

    /// Is the scale of windows unknown? Then windows are drawn with the values of the headers.
    pub fn is_scale_unknown(&self) -> bool {
        self.sides.iter().any(|side| side.scale.is_none())
    }

    /// Does this segment begin another connection between the same ports?
    pub(crate) fn is_reused_by(&self, segment: &Segment) -> bool {
        let is_syn = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        let side = &self.sides[usize::from(segment.src != self.client)];
        is_syn && side.base.is_some_and(|base| base != segment.seq)
    }

    /// Count a segment, and return its marks.
    pub(crate) fn take(&mut self, segment: &Segment, reused: bool, used: &mut Used) -> Marks {
        self.last_ns = self.last_ns.max(segment.time_ns);
        let from_server = segment.src != self.client;
        let [client, server] = &mut self.sides;
        let (fwd, rev) = if from_server { (server, client) } else { (client, server) };
        let is_syn = segment.flags.contains(Flags::SYN);
        if fwd.base.is_none() {
            fwd.base = Some(if is_syn { segment.seq } else { segment.seq - 1 });
        }
        if is_syn {
            fwd.scale = Some(segment.options.window_scale.map(|scale| scale.shift()));
            fwd.mss = segment.options.mss;
            fwd.sack_permitted = segment.options.sack_permitted;
        }
        let mut marks = rules::judge(fwd, rev, segment, self.handshake_ns);
        if reused {
            marks.set(Marks::REUSED_PORTS);
        }
        fwd.sent(segment, marks, used);
        // RFC 7323 section 2.2: windows are scaled only if both SYNs had the option, and the window
        // of a SYN is never scaled.
        let shift = match (is_syn, fwd.scale, rev.scale) {
            (false, Some(Some(shift)), Some(Some(_))) => shift,
            _ => 0,
        };
        let window = u64::from(segment.window) << shift;
        // The window of a RST has no meaning.
        if !segment.flags.contains(Flags::RST) {
            fwd.counts.window_max = fwd.counts.window_max.max(window);
            if segment.flags.contains(Flags::ACK) {
                rev.acknowledged(segment, window, used);
            }
        }
        self.handshake(segment, from_server);
        marks
    }

    /// Measure the round trip of the handshake.
    fn handshake(&mut self, segment: &Segment, from_server: bool) {
        let (is_syn, is_ack) =
            (segment.flags.contains(Flags::SYN), segment.flags.contains(Flags::ACK));
        if is_syn && !is_ack {
            self.syn_ns = Some(segment.time_ns);
        } else if is_ack && !is_syn && !from_server && self.handshake_ns.is_none() {
            let begins = |side: &Side, number: SeqNumber| side.base == Some(number - 1);
            let [client, server] = &self.sides;
            let both = client.scale.is_some() && server.scale.is_some();
            if both && begins(client, segment.seq) && begins(server, segment.ack) {
                let since = self.syn_ns.and_then(|syn_ns| segment.time_ns.checked_sub(syn_ns));
                self.handshake_ns = since;
            }
        }
    }

    /// Free the state that only the rules need, because no more segments will come.
    pub(crate) fn end(&mut self, used: &mut Used) {
        for side in &mut self.sides {
            side.outstanding.clear(&mut used.outstanding);
        }
    }

    /// Shorten all series to the limit.
    pub(crate) fn fit(&mut self, used: &mut Used) {
        for side in &mut self.sides {
            side.fit(used);
        }
    }
}
