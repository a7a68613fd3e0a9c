//! Two correct TCPs with the filter between them, over paths that lose, repeat and reorder: what
//! either of them would use passes, and segments outside of their windows do not.

use super::*;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n.max(1))) >> 32) as u32
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}

/// One TCP. Positions count from its SYN, which is at 0; its FIN is at `total`.
struct Peer {
    iss: u32,
    scale: Option<u8>,
    /// The window that its buffer allows, in bytes.
    buffer: u32,
    /// Data, with the SYN before it: positions 1 to `total`.
    total: u32,
    una: u32,
    nxt: u32,
    /// The highest position that the other side has let it send up to.
    edge: u32,
    /// Received in order, from the other side's SYN on.
    rcv_nxt: u32,
    /// Received out of order: begin and end.
    ahead: Vec<(u32, u32)>,
    /// The right edge that it has advertised, which it never takes back.
    rcv_edge: u32,
    rcv_iss: u32,
    has_syn: bool,
}

impl Peer {
    fn new(random: &mut Random, scales: bool) -> Peer {
        let scale = scales.then(|| random.below(15) as u8);
        let most = 65_535 << scale.unwrap_or(0).min(5);
        Peer {
            iss: random.next() as u32,
            scale,
            buffer: 3_000 + random.below(most - 3_000),
            total: 1 + random.below(400_000),
            una: 0,
            nxt: 0,
            edge: 1,
            rcv_nxt: 0,
            ahead: Vec::new(),
            rcv_edge: 0,
            rcv_iss: 0,
            has_syn: false,
        }
    }

    /// The window to advertise: a random part of the buffer, but no right edge is taken back.
    fn window(&mut self, random: &mut Random, shift: u8) -> u16 {
        let open = if random.one_in(8) { 0 } else { self.buffer - random.below(self.buffer / 2) };
        let wanted = open.max(self.rcv_edge.saturating_sub(self.rcv_nxt));
        let field = wanted.div_ceil(1 << shift).min(65_535);
        self.rcv_edge = self.rcv_edge.max(self.rcv_nxt + (field << shift));
        field as u16
    }

    fn segment(&mut self, random: &mut Random, at: u32, len: u32, shift: u8) -> Segment {
        let syn = at == 0;
        let fin = !syn && len > 0 && at + len > self.total;
        let mut flags = Flags::NONE;
        flags = if syn { flags | Flags::SYN } else { flags };
        flags = if fin { flags | Flags::FIN } else { flags };
        flags = if self.has_syn { flags | Flags::ACK } else { flags };
        let window = self.window(random, if syn { 0 } else { shift });
        let ack = SeqNumber(if self.has_syn { self.rcv_iss.wrapping_add(self.rcv_nxt) } else { 0 });
        let edges = self.ahead.iter().map(|&(_, end)| end).max();
        let sack = edges.map_or(ack, |end| SeqNumber(self.rcv_iss.wrapping_add(end)));
        let data = len - u32::from(syn) - u32::from(fin);
        let seq = SeqNumber(self.iss.wrapping_add(at));
        Segment { seq, ack, len: data, window, flags, scale: self.scale.filter(|_| syn), sack }
    }

    /// What it sends now: new data, old data again, an ACK, a keep-alive.
    fn send(&mut self, random: &mut Random, shift: u8) -> Option<Segment> {
        if self.nxt == 0 || !self.has_syn || self.una == 0 {
            self.nxt = 1;
            return Some(self.segment(random, 0, 1, shift));
        }
        let end = self.total + 1;
        let room = self.edge.min(end).saturating_sub(self.nxt);
        match random.below(10) {
            0..=4 if room > 0 => {
                let (at, len) = (self.nxt, room.min(1 + random.below(3_000)));
                self.nxt += len;
                Some(self.segment(random, at, len, shift))
            }
            5 | 6 if self.una < self.nxt => {
                // Anything that is not acknowledged, most likely the first of it.
                let behind = if random.one_in(3) { random.below(self.nxt - self.una) } else { 0 };
                let at = self.una + behind;
                let len = (self.nxt - at).min(1 + random.below(3_000));
                Some(self.segment(random, at, len, shift))
            }
            7 if self.una == self.nxt && (2..end).contains(&self.nxt) => {
                Some(self.segment(random, self.nxt - 1, 0, shift))
            }
            8 if self.una == self.nxt && self.nxt < end && self.edge == self.nxt => {
                // A probe of the closed window, one byte behind it.
                self.nxt += 1;
                Some(self.segment(random, self.nxt - 1, 1, shift))
            }
            _ => Some(self.segment(random, self.nxt, 0, shift)),
        }
    }

    fn position(&self, seq: SeqNumber) -> i64 {
        i64::from(seq.since(SeqNumber(self.rcv_iss.wrapping_add(self.rcv_nxt))))
            + i64::from(self.rcv_nxt)
    }

    /// Would this segment tell it anything?
    fn is_useful(&self, seg: &Segment) -> bool {
        if !self.has_syn {
            return seg.flags.contains(Flags::SYN);
        }
        let acked = i64::from(seg.ack.since(SeqNumber(self.iss.wrapping_add(self.una))));
        let has_new = self.position(seg.end()) > i64::from(self.rcv_nxt);
        self.is_acceptable(seg) && (has_new || acked > 0)
    }

    /// RFC 9293 section 3.4: a segment that is not acceptable is dropped with its ACK.
    fn is_acceptable(&self, seg: &Segment) -> bool {
        let (begin, end) = (self.position(seg.seq), self.position(seg.end()));
        end >= i64::from(self.rcv_nxt) && begin <= i64::from(self.rcv_edge.max(1))
    }

    fn receive(&mut self, seg: &Segment, shift: u8) {
        if seg.flags.contains(Flags::SYN) && !self.has_syn {
            (self.has_syn, self.rcv_iss) = (true, seg.seq.0);
            self.rcv_edge = self.rcv_edge.max(1);
        }
        if !self.has_syn || !self.is_acceptable(seg) {
            return;
        }
        let (begin, end) = (self.position(seg.seq), self.position(seg.end()));
        let end = end.min(i64::from(self.rcv_edge) + 1);
        if begin >= 0 && begin < end {
            self.ahead.push((begin as u32, end as u32));
        }
        while let Some(at) = self.ahead.iter().position(|&(begin, _)| begin <= self.rcv_nxt) {
            let (_, end) = self.ahead.swap_remove(at);
            self.rcv_nxt = self.rcv_nxt.max(end);
        }
        if seg.flags.contains(Flags::ACK) {
            let acked = seg.ack.0.wrapping_sub(self.iss);
            if acked <= self.nxt {
                self.una = self.una.max(acked);
                let scale = if seg.flags.contains(Flags::SYN) { 0 } else { shift };
                self.edge = self.edge.max(acked + (u32::from(seg.window) << scale));
            }
        }
    }

    fn is_done(&self) -> bool {
        self.una > self.total
    }
}

/// A path: a segment is lost, or stays for a while.
fn take(path: &mut Vec<Segment>, random: &mut Random) -> Option<Segment> {
    let depth = 1 + random.below(6);
    let at = random.below(depth.min(path.len() as u32)) as usize;
    if at >= path.len() {
        return None;
    }
    if random.one_in(20) {
        return path.get(at).copied();
    }
    Some(path.remove(at))
}

/// What nobody has sent: outside of both windows by more than a window, or with an ACK of data that
/// is far from being sent.
fn attack(l: &mut Ladder, peers: &[Peer; 2], random: &mut Random) {
    let from = random.below(2) as usize;
    let (me, other) = (&peers[from], &peers[from ^ 1]);
    if !other.has_syn || !me.has_syn || l.c.phase != Phase::TcpEstablished {
        return;
    }
    // A window is less than 2^21 bytes here, and one that is scaled up may be rounded up.
    const FAR: u32 = 1 << 22;
    let distance = FAR + random.below(1 << 29);
    let right = me.iss.wrapping_add(other.rcv_edge).wrapping_add(distance);
    let left = me.iss.wrapping_add(me.una).wrapping_sub(distance);
    let seq = if random.one_in(2) { right } else { left };
    let good_ack = me.rcv_iss.wrapping_add(me.rcv_nxt);
    let flags = [ACK, RST, FIN_ACK, RST_ACK][random.below(4) as usize];
    let segment = seg(flags, seq, good_ack, random.below(1_000));
    assert_eq!(l.send(from, segment), Err(FilterWindow), "{segment:?}");
    let far_ack = me.rcv_iss.wrapping_add(other.nxt).wrapping_add(1 + random.below(1 << 29));
    let segment = seg(ACK, me.iss.wrapping_add(me.nxt), far_ack, 0);
    assert_eq!(l.send(from, segment), Err(FilterWindow), "{segment:?}");
}

/// One connection from its SYN to its last ACK. Returns how many segments the filter has dropped,
/// all of them without use.
fn connection(seed: u64) -> (u32, Ladder) {
    let mut random = Random(seed);
    let scales = [random.below(4) != 0, random.below(4) != 0];
    let mut peers = scales.map(|scale| Peer::new(&mut random, scale));
    let both = scales[0] && scales[1];
    let shifts = [0, 1].map(|at| if both { peers[at].scale.unwrap_or(0) } else { 0 });
    for (peer, shift) in peers.iter_mut().zip(shifts) {
        peer.buffer = peer.buffer.min(65_535 << shift);
    }
    let first = peers[0].send(&mut random, 0).expect("a SYN");
    let mut l = Ladder::begin(first);
    // Before and behind the filter, in both directions.
    let mut before: [Vec<Segment>; 2] = [Vec::new(), Vec::new()];
    let mut behind: [Vec<Segment>; 2] = [vec![first], Vec::new()];
    let mut dropped = 0;
    for _ in 0..200_000 {
        let from = random.below(2) as usize;
        match random.below(8) {
            // The server says nothing until it has the SYN.
            0..=2 if before[from].len() < 12 && (from == 0 || peers[1].has_syn) => {
                let sent = peers[from].send(&mut random, shifts[from]);
                before[from].extend(sent.filter(|_| !random.one_in(12)));
            }
            3..=4 => {
                let Some(segment) = take(&mut before[from], &mut random) else { continue };
                match l.send(from, segment) {
                    Ok(Effect::NewFlow) => panic!("{seed}: {segment:?}"),
                    Ok(_) if random.one_in(12) => {}
                    Ok(_) => behind[from].push(segment),
                    Err(reason) => {
                        let to = &peers[from ^ 1];
                        assert!(
                            !to.is_useful(&segment),
                            "{seed}: {reason:?} {segment:?} {:?}",
                            l.c
                        );
                        dropped += 1;
                    }
                }
            }
            5..=6 => {
                let Some(segment) = take(&mut behind[from], &mut random) else { continue };
                peers[from ^ 1].receive(&segment, shifts[from]);
            }
            _ => attack(&mut l, &peers, &mut random),
        }
        if peers.iter().all(Peer::is_done) {
            return (dropped, l);
        }
    }
    panic!("{seed}: the connection hangs, {:?}", l.c);
}

#[test]
fn what_two_correct_tcps_use_passes_and_what_they_cannot_have_sent_does_not() {
    let mut closed = 0;
    for seed in 1..400 {
        let (_, l) = connection(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        closed += u32::from(matches!(l.phase(), Phase::TcpTimeWait | Phase::TcpClosing));
    }
    assert_eq!(closed, 399);
}
