//! Random connections: what correct hosts send, and what attackers, reboots and lossy paths make
//! of it.
//!
//! Called by: `flows.rs`. RFC 9293, RFC 5961, RFC 7323, RFC 2018.

use crate::flows::{Step, error};
use crate::packets::{Content, Segment};
use crate::random::Rng;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Distances from what is expected: within windows, at their edges, and far beyond.
const FAR: [u32; 12] =
    [1, 2, 100, 1_460, 16_000, 64_999, 65_535, 66_001, 70_000, 300_000, 20_000_000, 1 << 30];

/// One side as a correct host.
#[derive(Clone, Debug)]
struct Side {
    isn: u32,
    /// The next number that it sends.
    next: u32,
    /// Behind the last number that the other side has room for.
    edge: u32,
    window: u16,
    scale: Option<u8>,
    sack: bool,
}

struct Script<'a> {
    rng: &'a mut Rng,
    v6: bool,
    /// Nothing odd happens: the kernel knows less of windows after a simultaneous open.
    calm: bool,
    /// Segments are forged or late, and tell nobody of a window.
    forges: bool,
    sides: [Side; 2],
    steps: Vec<Step>,
}

/// The steps of a connection.
pub(crate) fn script(rng: &mut Rng, v6: bool) -> Vec<Step> {
    let sides = [0, 1].map(|_| {
        let isn = if rng.one_in(4) { u32::MAX - rng.below(3_000) } else { rng.next() as u32 };
        let window = rng.pick(&[1_000, 8_192, 29_200, 65_535]);
        let scale = (!rng.one_in(3)).then(|| rng.pick(&[0, 2, 7, 14]));
        Side { isn, next: isn, edge: isn, window, scale, sack: rng.one_in(2) }
    });
    let mut script = Script { rng, v6, calm: false, forges: false, sides, steps: Vec::new() };
    if !script.open() {
        return script.steps;
    }
    let (count, mut odd) = (script.rng.below(12), script.rng.below(3));
    for _ in 0..count {
        let is_odd = odd > 0 && !script.calm && script.rng.one_in(4);
        if is_odd {
            odd -= 1;
            script.forges = true;
            if !script.act_oddly() {
                return script.steps;
            }
            script.forges = false;
        } else {
            script.act();
        }
    }
    if script.rng.one_in(2) {
        script.close();
    }
    script.steps
}

impl Script<'_> {
    /// Add a segment of a side.
    fn send(&mut self, side: usize, name: &'static str, segment: Segment) {
        if !self.forges
            && segment.flags & (ACK | RST) == ACK
            && segment.ack == self.sides[1 - side].next
        {
            let both = self.sides.iter().all(|side| side.scale.is_some());
            let is_scaled = both && segment.flags & SYN == 0;
            let scale = self.sides[side].scale.filter(|_| is_scaled).unwrap_or(0);
            let window = u32::from(segment.window) << scale;
            self.sides[1 - side].edge = segment.ack.wrapping_add(window);
        }
        self.steps.push(Step::new(side == 0, name, Content::Tcp(segment)));
    }

    /// A segment as the side would send it next, without data.
    fn plain(&self, side: usize, flags: u8) -> Segment {
        let (me, other) = (&self.sides[side], &self.sides[1 - side]);
        let ack = if flags & ACK == 0 { 0 } else { other.next };
        Segment { seq: me.next, ack, flags, window: me.window, options: vec![], len: 0 }
    }

    fn syn(&mut self, side: usize, flags: u8, name: &'static str) {
        let me = &self.sides[side];
        let mut options = vec![2, 4, 5, 0xb4];
        if let Some(scale) = me.scale {
            options.extend([1, 3, 3, scale]);
        }
        if me.sack {
            options.extend([1, 1, 4, 2]);
        }
        let (me_isn, me_next) = (me.isn, me.next);
        let segment = Segment { seq: me_isn, options, ..self.plain(side, flags) };
        if me_next == me_isn {
            self.sides[side].next = me_isn.wrapping_add(1);
        }
        self.send(side, name, segment);
    }

    /// The handshake; `false` if there is none, and what follows would mean nothing.
    fn open(&mut self) -> bool {
        match self.rng.below(20) {
            0 => {
                // The middle of a connection that nobody has seen begin.
                for side in &mut self.sides {
                    side.next = side.next.wrapping_add(5_000);
                }
                let segment = Segment { len: 100, ..self.plain(0, ACK | PSH) };
                self.send(0, "data without a handshake", segment);
                let segment = self.plain(1, ACK);
                self.send(1, "ACK without a handshake", segment);
                return false;
            }
            1 => {
                let first =
                    self.rng.pick(&[SYN | ACK, RST, RST | ACK, FIN | ACK, FIN, 0, SYN | FIN]);
                let segment = self.plain(0, first);
                self.send(0, "first segment that begins nothing", segment);
                return false;
            }
            2 => {
                self.syn(0, SYN, "SYN");
                let segment = Segment { seq: 0, ..self.plain(1, RST | ACK) };
                self.send(1, "refusal", segment);
                if self.rng.one_in(2) {
                    self.syn(0, SYN, "SYN after a refusal");
                    self.syn(1, SYN | ACK, "SYN-ACK");
                    let segment = self.plain(0, ACK);
                    self.send(0, "third segment", segment);
                    return true;
                }
                return false;
            }
            3 => {
                self.syn(0, SYN, "SYN");
                let ack = self.sides[0].next.wrapping_add(self.rng.pick(&[1, u32::MAX, 9_999]));
                let segment = Segment { ack, ..self.plain(1, SYN | ACK) };
                self.send(1, "SYN-ACK of another SYN", segment);
                let segment = Segment { seq: self.sides[0].next, ack: 0, ..self.plain(1, RST) };
                self.send(1, "RST without ACK", segment);
                return false;
            }
            4 => {
                self.calm = true;
                self.syn(0, SYN, "SYN");
                self.syn(1, SYN, "SYN of the other side");
                self.syn(0, SYN | ACK, "SYN-ACK of a simultaneous open");
                self.syn(1, SYN | ACK, "SYN-ACK of a simultaneous open");
            }
            5 => {
                self.syn(0, SYN, "SYN");
                let segment = Segment { len: 100, ..self.plain(0, ACK | PSH) };
                self.send(0, "data before the SYN-ACK", segment);
                let segment = Segment { len: 10, ..self.plain(1, ACK | PSH) };
                self.send(1, "data instead of a SYN-ACK", segment);
                return false;
            }
            6 => {
                self.syn(0, SYN, "SYN");
                self.syn(1, SYN | ACK, "SYN-ACK");
                let ack = self.sides[1].next.wrapping_add(self.rng.pick(&[1, 5, u32::MAX]));
                let segment = Segment { ack, ..self.plain(0, ACK) };
                self.send(0, "third segment with a wrong number", segment);
                return false;
            }
            _ => self.handshake(),
        }
        true
    }

    fn handshake(&mut self) {
        self.syn(0, SYN, "SYN");
        if self.rng.one_in(8) {
            self.syn(0, SYN, "SYN again");
        }
        self.syn(1, SYN | ACK, "SYN-ACK");
        if self.rng.one_in(8) {
            self.syn(1, SYN | ACK, "SYN-ACK again");
        }
        let segment = self.plain(0, ACK);
        self.send(0, "third segment", segment);
    }

    fn data(&mut self, side: usize) {
        let len = self.rng.pick(&[1, 100, 536, 999, 1_400]);
        let room = self.sides[side].edge.wrapping_sub(self.sides[side].next);
        if room < len as u32 || room > 1 << 31 {
            let segment = self.plain(side, ACK);
            self.send(side, "ACK", segment);
            return;
        }
        let segment = Segment { len, ..self.plain(side, ACK | PSH) };
        self.sides[side].next = self.sides[side].next.wrapping_add(len as u32);
        self.send(side, "data", segment);
    }

    /// What correct hosts do.
    fn act(&mut self) {
        let side = self.rng.below(2) as usize;
        let other = self.sides[1 - side].next;
        match self.rng.below(16) {
            0..8 => {
                self.data(side);
                if self.rng.one_in(2) {
                    let segment = self.plain(1 - side, ACK);
                    self.send(1 - side, "ACK", segment);
                }
            }
            8 => {
                let plain = self.plain(side, ACK);
                let len = self.rng.below(2) as usize;
                let seq = plain.seq.wrapping_sub(1);
                self.send(side, "keep-alive", Segment { seq, len, ..plain });
            }
            9 => {
                let segment = Segment { window: 0, ..self.plain(side, ACK) };
                self.send(side, "window closed", segment);
                let segment = Segment { len: 1, ..self.plain(1 - side, ACK) };
                self.send(1 - side, "window probe", segment);
            }
            10 => {
                // The first of two segments is lost behind the router.
                let ack = other;
                self.data(1 - side);
                let left = self.sides[1 - side].next;
                self.data(1 - side);
                let right = self.sides[1 - side].next;
                if left == ack || right == left {
                    return;
                }
                let blocks = [left.to_be_bytes(), right.to_be_bytes()].concat();
                let options = [&[1, 1, 5, 10][..], &blocks].concat();
                self.send(side, "SACK", Segment { ack, options, ..self.plain(side, ACK) });
                let plain = self.plain(1 - side, ACK | PSH);
                let len = left.wrapping_sub(ack) as usize;
                self.send(1 - side, "data again", Segment { seq: ack, len, ..plain });
            }
            11 => {
                self.sides[side].window = self.rng.pick(&[500, 16_384, 65_535]);
                let segment = self.plain(side, ACK);
                self.send(side, "window changed", segment);
            }
            12 => {
                let about = Content::Tcp(Segment { len: 100, ..self.plain(1 - side, ACK) });
                let step = error(self.rng, self.v6, side == 0, about);
                self.steps.push(step);
            }
            _ => {
                let segment = self.plain(side, ACK);
                self.send(side, "ACK", segment);
            }
        }
    }

    /// What attackers, reboots and very late packets do; `false` if that is the end.
    fn act_oddly(&mut self) -> bool {
        let side = self.rng.below(2) as usize;
        let far = self.rng.pick(&FAR);
        let other = self.sides[1 - side].next;
        let plain = self.plain(side, ACK | PSH);
        match self.rng.below(14) {
            0 => {
                let segment = Segment { seq: plain.seq.wrapping_sub(far), len: 50, ..plain };
                self.send(side, "old data", segment);
            }
            1 => {
                let segment = Segment { seq: plain.seq.wrapping_add(far), len: 50, ..plain };
                self.send(side, "data ahead", segment);
            }
            2 => {
                let segment = Segment { ack: other.wrapping_sub(far), ..self.plain(side, ACK) };
                self.send(side, "old ACK", segment);
            }
            3 => {
                let segment = Segment { ack: other.wrapping_add(far), ..self.plain(side, ACK) };
                self.send(side, "ACK for data that was not sent", segment);
            }
            4 => {
                let left = other.wrapping_add(1_000).to_be_bytes();
                let right = other.wrapping_add(2_000).to_be_bytes();
                let options = [&[1, 1, 5, 10][..], &left, &right].concat();
                let segment = Segment { options, ..self.plain(side, ACK) };
                self.send(side, "SACK for data that was not sent", segment);
            }
            5 => {
                let plain = self.plain(side, RST);
                let back = self.rng.one_in(2);
                let seq = plain.seq.wrapping_add(if back { far.wrapping_neg() } else { far });
                self.send(side, "RST beside", Segment { seq, ..plain });
            }
            6 => self.syn(side, SYN, "SYN once more"),
            7 => self.syn(side, SYN | ACK, "SYN-ACK once more"),
            8 | 9 => return self.reboot(side),
            10 => {
                let mut about = self.plain(1 - side, ACK);
                about.seq = about.seq.wrapping_add(self.rng.pick(&[far, far.wrapping_neg()]));
                let step = error(self.rng, self.v6, side == 0, Content::Tcp(about));
                self.steps.push(Step { name: "error about another number", ..step });
            }
            11 => {
                let edge = self.sides[side].edge;
                let over = self.rng.pick(&[1, 2, 30, 49]);
                let segment = Segment { seq: edge.wrapping_sub(50 - over), len: 50, ..plain };
                self.send(side, "data over the edge", segment);
                // A forged segment that both let pass: what comes is no correct connection.
                return over > 1;
            }
            12 => return !self.fill(side),
            _ => {
                let flags = self.rng.pick(&[0, FIN, FIN | PSH | 32, SYN | FIN, SYN | RST, PSH]);
                let segment = self.plain(side, flags);
                self.send(side, "impossible flags", segment);
            }
        }
        true
    }

    /// A side has forgotten the connection and opens it anew; `false` if it learns that.
    fn reboot(&mut self, side: usize) -> bool {
        let isn = self.rng.next() as u32;
        let segment = Segment { seq: isn, ..self.plain(side, SYN) };
        self.send(side, "SYN after a reboot", segment);
        if !self.rng.one_in(2) {
            return true;
        }
        let challenge = self.plain(1 - side, ACK);
        let seq = challenge.ack;
        self.send(1 - side, "challenge ACK", challenge);
        let segment = Segment { seq, ..self.plain(side, RST) };
        self.send(side, "RST after a challenge", segment);
        false
    }

    /// A window of data, a FIN behind it, and the first data once more, because all were lost
    /// behind the router; `false` if the window is too large for that.
    fn fill(&mut self, side: usize) -> bool {
        let first = self.plain(side, ACK | PSH);
        let room = self.sides[side].edge.wrapping_sub(first.seq);
        if !(1..=66_000).contains(&room) {
            return false;
        }
        let mut left = room as usize;
        while left > 0 {
            let len = left.min(1_400);
            let segment = Segment { len, ..self.plain(side, ACK | PSH) };
            self.sides[side].next = self.sides[side].next.wrapping_add(len as u32);
            self.send(side, "data of a full window", segment);
            left -= len;
        }
        let segment = self.plain(side, FIN | ACK);
        self.send(side, "FIN behind a full window", segment);
        let len = 1_400.min(room as usize);
        self.send(side, "first data of a full window", Segment { len, ..first });
        true
    }

    fn close(&mut self) {
        if self.rng.one_in(3) {
            let side = self.rng.below(2) as usize;
            let segment = self.plain(side, RST | ACK);
            self.send(side, "RST", segment);
        } else {
            let first = self.rng.below(2) as usize;
            for side in [first, 1 - first] {
                let segment = self.plain(side, FIN | ACK);
                self.sides[side].next = self.sides[side].next.wrapping_add(1);
                self.send(side, "FIN", segment);
                let segment = self.plain(1 - side, ACK);
                self.send(1 - side, "ACK of a FIN", segment);
            }
        }
        let side = self.rng.below(2) as usize;
        match self.rng.below(4) {
            0 => self.data(side),
            1 => {
                let segment = self.plain(side, ACK);
                self.send(side, "ACK after the end", segment);
            }
            2 => {
                let isn = self.sides[0].next.wrapping_add(70_000);
                (self.sides[0].isn, self.sides[0].next) = (isn, isn);
                self.syn(0, SYN, "SYN of the next connection");
                let isn = self.rng.next() as u32;
                (self.sides[1].isn, self.sides[1].next) = (isn, isn);
                self.syn(1, SYN | ACK, "SYN-ACK of the next connection");
                let segment = self.plain(0, ACK);
                self.send(0, "third segment", segment);
                self.data(0);
            }
            _ => {}
        }
    }
}
