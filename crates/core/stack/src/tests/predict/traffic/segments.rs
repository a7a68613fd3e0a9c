//! The peer's segments: the expected one, or one that differs in one property.

use base::SeqNumber;
use tcp::Tcb;
use wire::checksum::Sum;
use wire::tcp::Flags;

use super::Traffic;
use crate::tests::craft::{Tcp, mark, number, timestamps_option};

impl Traffic {
    /// Gives the stacks one segment, or a burst of segments.
    pub(super) fn segments(&mut self) {
        let Some(mut segment) = self.expected() else { return };
        let Some(handle) = self.peer.as_ref().map(|p| p.handle) else { return };
        let count = if self.rng.one_in(4) { 2 + self.rng.below(5) } else { 1 };
        let train = self.rng.one_in(2);
        // Linux numbers its packets, other systems use random numbers; in some bursts flows
        // alternate.
        let numbered = self.rng.one_in(2);
        let mut id = self.rng.next() as u16;
        let alternating = train && count > 1 && self.rng.one_in(3);
        let followed = self.followed();
        for _ in 0..count {
            let what = if self.rng.one_in(3) { self.change(&mut segment) } else { "as expected" };
            let len = segment.payload.len();
            self.twins.log.push(format!(
                "{what}: seq {:x} ack {:x} {:?} len {len} window {} options {:x?}",
                segment.seq.0, segment.ack.0, segment.flags, segment.window, segment.options
            ));
            if self.rng.one_in(4) {
                segment.flags = segment.flags | Flags::PSH;
            }
            let ce = self.rng.one_in(15);
            let noted = if count == 1 { self.note(&segment, ce, handle) } else { None };
            let before = self.predicted();
            let mut frame = self.twins.on.tcp_frame(&segment);
            if ce {
                self.twins.log.push("marked".to_owned());
                mark(&mut frame);
            }
            if numbered {
                id = if self.rng.one_in(4) { self.rng.next() as u16 } else { id.wrapping_add(1) };
                number(&mut frame, id);
            }
            if noted.is_none() && frame[14] >> 4 == 4 && self.rng.one_in(15) {
                let at = self.rng.pick(&[18, 19, 24, 25]);
                self.twins.log.push(format!("with another byte {at} in its IP header"));
                frame[at] ^= self.rng.pick(&[1, 0x80, 0xff]);
            }
            if noted.is_none() && self.rng.one_in(20) {
                self.twins.log.push(mislead(&mut frame, self.rng.below(3)).to_owned());
            }
            let broken = noted.is_none() && self.rng.one_in(20);
            if let (true, Some(last)) = (broken, frame.last_mut()) {
                self.twins.log.push("with a wrong checksum".to_owned());
                *last ^= 0x55;
            }
            if count > 1 && len == 0 {
                // The link pads the frame, and a leader's frame must be that long.
                frame.resize(frame.len().max(120), 0);
            }
            self.twins.inject(&frame);
            if alternating {
                self.stray(&segment);
            }
            if count == 1 || !train {
                self.twins.poll();
            }
            if noted == Some(false) {
                let log = &self.twins.log[self.twins.log.len().saturating_sub(6)..];
                assert_eq!(self.predicted(), before + 1, "not predicted: {log:#?}");
            }
            // The next segment of the burst follows this one.
            segment.seq += len as u32;
        }
        self.twins.poll();
        if alternating {
            self.seen.followed_apart += self.followed() - followed;
        }
    }

    /// Gives the stacks a frame of another flow or protocol between two of the peer's.
    fn stray(&mut self, segment: &Tcp) {
        if self.rng.one_in(10) {
            self.twins.log.push("a datagram between".to_owned());
            let datagram = [0, 9, 0, 9, 0, 8, 0, 0];
            let frame = self.twins.on.frame(wire::protocol::UDP, &datagram);
            self.twins.inject(&frame);
            return;
        }
        self.twins.log.push("another's segment between".to_owned());
        let mut other = segment.clone();
        other.ports.0 ^= 1;
        let frame = self.twins.on.tcp_frame(&other);
        self.twins.inject(&frame);
    }

    fn followed(&self) -> u64 {
        self.twins.on.stack.counters().of(base::Counter::TcpFollowed)
    }

    /// The segment that a correct peer would send now.
    fn expected(&mut self) -> Option<Tcp> {
        let peer = self.peer.as_mut()?;
        if self.rng.one_in(12) {
            peer.window = self.rng.pick(&[300, 2_000, 20_000, 65_535]);
        }
        let (ports, window, timestamps) = (peer.ports, peer.window, peer.timestamps);
        let options = self.timestamps(timestamps);
        let handle = self.peer.as_ref()?.handle;
        let Some(pcb) = self.twins.on.stack.connections.get(handle) else {
            // The connection is over, so this is a late segment.
            let (seq, ack) = (self.peer.as_ref()?.irs + 1, self.peer.as_ref()?.iss + 1);
            let (flags, payload) = (Flags::ACK, vec![7; self.rng.below(3) as usize]);
            return Some(Tcp { ports, seq, ack, flags, window, urgent: 0, options, payload });
        };
        let tcb = &pcb.tcb;
        let (seq, flight) = (tcb.rcv_nxt, tcb.snd_nxt.since(tcb.snd_una) as u32);
        let most = tcb.rcv_wnd().min(1_100);
        let len = if self.rng.one_in(3) { 0 } else { self.rng.below(most + 1) };
        let ack = match self.rng.below(4) {
            0 if flight > 0 => tcb.snd_una + (1 + self.rng.below(flight)),
            1 if len > 0 => tcb.snd_una,
            _ => tcb.snd_nxt,
        };
        let payload = text(seq, len);
        Some(Tcp { ports, seq, ack, flags: Flags::ACK, window, urgent: 0, options, payload })
    }

    /// Changes one property; returns the name of the change.
    fn change(&mut self, s: &mut Tcp) -> &'static str {
        match self.rng.below(21) {
            0 => self.set(s, Flags::SYN, "SYN"),
            20 => {
                s.ports.0 ^= 1;
                "another's port"
            }
            1 if self.rng.one_in(3) => self.set(s, Flags::FIN, "FIN"),
            1 => {
                let flags = self.rng.pick(&[Flags::ECE, Flags::CWR, Flags::ECE | Flags::CWR]);
                self.set(s, flags, "ECE or CWR")
            }
            2 if self.rng.one_in(4) => self.set(s, Flags::RST, "RST"),
            2 => {
                s.seq += 1 + self.rng.below(100);
                self.set(s, Flags::RST, "RST in the window")
            }
            3 => {
                s.urgent = self.rng.below(2_000) as u16;
                self.set(s, Flags::URG, "URG")
            }
            4 => {
                s.flags = Flags::NONE;
                "no ACK"
            }
            5..11 => self.change_options(s),
            11 => {
                s.window = 0;
                "window shut"
            }
            _ => self.change_numbers(s),
        }
    }

    fn set(&mut self, s: &mut Tcp, flags: Flags, name: &'static str) -> &'static str {
        s.flags = s.flags | flags;
        if flags == Flags::SYN && self.rng.one_in(2) {
            s.flags = Flags::SYN;
        }
        name
    }

    fn change_options(&mut self, s: &mut Tcp) -> &'static str {
        let clock = self.clock();
        let Some(tcb) = self.tcb() else { return "unchanged" };
        let (una, flight) = (tcb.snd_una, tcb.snd_nxt.since(tcb.snd_una) as u32);
        let recent = tcb.ts_recent;
        match self.rng.below(7) {
            0 => {
                let age = self.rng.pick(&[1, 5, 100_000, 1 << 30]);
                s.options = timestamps_option(recent.wrapping_sub(age), 0);
                "old timestamp"
            }
            1 => {
                s.options = timestamps_option(recent, clock);
                "equal timestamp"
            }
            2 => {
                s.options = timestamps_option(clock.wrapping_add(self.rng.below(300)), 1);
                "timestamp of the future"
            }
            3 if s.options.is_empty() => {
                s.options = timestamps_option(clock, 0);
                "timestamps never agreed"
            }
            3 => {
                s.options.clear();
                "no timestamp"
            }
            4 => {
                s.options.extend_from_slice(self.rng.pick(&[&[1, 1, 1, 1], &[8, 1, 0, 0]]));
                "odd options"
            }
            _ => {
                if self.rng.one_in(2) {
                    (s.ack, s.payload) = (una, Vec::new());
                }
                let left = una + self.rng.below(flight + 2);
                let right = left + self.rng.below(flight + 2);
                s.options.extend_from_slice(&[1, 1, 5, 10]);
                s.options.extend_from_slice(&left.0.to_be_bytes());
                s.options.extend_from_slice(&right.0.to_be_bytes());
                "SACK"
            }
        }
    }

    fn change_numbers(&mut self, s: &mut Tcp) -> &'static str {
        let Some(tcb) = self.tcb() else { return "unchanged" };
        let (una, nxt, window) = (tcb.snd_una, tcb.snd_nxt, tcb.rcv_wnd());
        let len = s.payload.len() as u32;
        match self.rng.below(9) {
            0 => {
                let back = self.rng.pick(&[1, 50, 1_000, 1 << 30]);
                s.seq = s.seq - back;
                s.payload = text(s.seq, len);
                "old seq"
            }
            1 => {
                let ahead = self.rng.pick(&[1, 50, 3_000, window]);
                s.seq += ahead;
                s.payload = text(s.seq, len);
                "early seq"
            }
            2 => {
                s.ack = una - self.rng.pick(&[1, 100, 70_000, 1 << 30]);
                "old ACK"
            }
            3 => {
                s.ack = nxt + self.rng.pick(&[1, 100, 1 << 30]);
                "ACK of what was not sent"
            }
            4 | 5 => {
                (s.ack, s.payload) = (una, Vec::new());
                "duplicate ACK"
            }
            6 => {
                // Data past the right edge of the window, if that is near.
                s.payload = text(s.seq, (window + 1 + self.rng.below(20)).min(1_200));
                "too long"
            }
            7 => {
                // The segment overtook others, so the windows of those are out of date.
                s.seq += self.rng.pick(&[1, 50, window]).min(window);
                (s.payload, s.window) = (Vec::new(), self.rng.pick(&[40, 700, 30_000]));
                "early, another window"
            }
            _ => {
                s.window = self.rng.pick(&[1, 40, 700, 65_535]);
                "other window"
            }
        }
    }

    fn tcb(&self) -> Option<&Tcb> {
        let handle = self.peer.as_ref()?.handle;
        self.twins.on.stack.connections.get(handle).map(|p| &p.tcb)
    }
}

/// Makes the frame one for another host, of another protocol, or with another kind of packet.
fn mislead(frame: &mut [u8], how: u32) -> &'static str {
    match how {
        0 => {
            frame[5] ^= 1;
            "for another link address"
        }
        1 => {
            frame[13] ^= 0x40;
            "of another ethertype"
        }
        _ => {
            other_protocol(frame);
            "of another protocol"
        }
    }
}

/// Sets UDP's protocol number, and updates both checksums.
fn other_protocol(frame: &mut [u8]) {
    let [tcp, udp] = [wire::protocol::TCP, wire::protocol::UDP].map(u16::from).map(Sum::of_be16);
    let is_v6 = frame[14] >> 4 == 6;
    let (protocol_at, sum_at) = if is_v6 { (14 + 6, 14 + 40 + 16) } else { (14 + 9, 14 + 20 + 16) };
    frame[protocol_at] = wire::protocol::UDP;
    // The protocol number is in the pseudo-header, and in the second half of a 16-bit word of
    // IPv4's header.
    let mut update = |at: usize| {
        let field = Sum::updated([frame[at], frame[at + 1]], tcp, udp);
        frame[at..at + 2].copy_from_slice(&field);
    };
    update(sum_at);
    if !is_v6 {
        update(14 + 10);
    }
}

/// The stream's bytes from `seq` on: the same at any time, from either sender.
fn text(seq: SeqNumber, len: u32) -> Vec<u8> {
    (0..len).map(|i| (seq + i).0.wrapping_mul(0x9e37_79b1).to_be_bytes()[0]).collect()
}
