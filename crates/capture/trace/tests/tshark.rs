//! The trace sets the same marks on every segment as Wireshark's analysis. Both tshark and the
//! trace get random conversations, which no real host would have.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use testbed::{Case, Need, in_place};
use wirespeed_trace::{Marks, NAMES, Trace};

const TSHARK: &[Need] = &[Need::TSHARK];

const CASES: &[Case] = &[("every_segment_has_the_marks_of_tshark", TSHARK, random)];

fn main() -> ExitCode {
    in_place(&[CASES])
}

/// A random number generator with a seed: splitmix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// One end of a conversation: its next sequence number, the number up to which the other end has
/// acknowledged, and the segments that it has sent, with their sizes.
struct End {
    next: u32,
    acked: u32,
    window: u16,
    sent: Vec<(u32, u32)>,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

struct Conversation {
    draws: Draws,
    v6: bool,
    vlan: bool,
    ends: [End; 2],
    time_ns: u64,
    frames: Vec<(u64, Vec<u8>)>,
}

impl Conversation {
    fn new(seed: u64) -> Conversation {
        let mut draws = Draws(seed);
        // Some initial sequence numbers are chosen so that the numbers wrap.
        let mut isn = || draws.of(&[1, 77_000, u32::MAX - 5_000, u32::MAX / 2 - 3_000]);
        let ends =
            [isn(), isn()].map(|next| End { next, acked: next, window: 500, sent: Vec::new() });
        let (v6, vlan) = (draws.is(50), draws.is(30));
        Conversation {
            draws,
            v6,
            vlan,
            ends,
            time_ns: 1_700_000_000_000_000_000,
            frames: Vec::new(),
        }
    }

    /// Append a segment to the capture.
    fn frame(&mut self, from: usize, seq: u32, flags: u8, len: u32, options: &[u8]) {
        let end = &self.ends[from];
        let ack = if flags & ACK != 0 { self.ends[1 - from].acked } else { 0 };
        let mut tcp = Vec::new();
        let ports = [40_000_u16, 80];
        tcp.extend(ports[from].to_be_bytes());
        tcp.extend(ports[1 - from].to_be_bytes());
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.push(((20 + options.len()) / 4 * 16) as u8);
        tcp.push(flags);
        tcp.extend(end.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.extend(vec![7; len as usize]);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if self.vlan {
            frame.extend([0x81, 0, 0, 9]);
        }
        match self.v6 {
            true => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((tcp.len() as u16).to_be_bytes());
                frame.extend([6, 64]);
                for host in [from, 1 - from] {
                    frame.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host as u16).octets());
                }
            }
            false => {
                frame.extend([8, 0, 0x45, 0]);
                frame.extend((20 + tcp.len() as u16).to_be_bytes());
                frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
                for host in [from, 1 - from] {
                    frame.extend(Ipv4Addr::new(192, 0, 2, host as u8 + 1).octets());
                }
            }
        }
        frame.extend(tcp);
        self.frames.push((self.time_ns, frame));
    }

    fn handshake(&mut self) {
        let scale = self.draws.of(&[&[][..], &[3, 3, 4, 1], &[3, 3, 0, 1]]);
        let first = self.ends[0].next;
        self.frame(0, first, SYN, 0, scale);
        if self.draws.is(20) {
            self.pass();
            self.frame(0, first, SYN, 0, scale);
        }
        self.pass();
        self.ends[0].next = first.wrapping_add(1);
        self.ends[0].acked = first.wrapping_add(1);
        let second = self.ends[1].next;
        self.frame(1, second, SYN | ACK, 0, scale);
        self.pass();
        self.ends[1].next = second.wrapping_add(1);
        self.ends[1].acked = second.wrapping_add(1);
        self.frame(0, first.wrapping_add(1), ACK, 0, &[]);
    }

    fn pass(&mut self) {
        let us = self.draws.of(&[3, 40, 400, 2_000, 2_990, 3_010, 9_000, 19_000, 21_000, 300_000]);
        self.time_ns += us * 1_000;
    }

    /// One action of an end, drawn at random.
    fn step(&mut self) {
        self.pass();
        let from = self.draws.below(2) as usize;
        let next = self.ends[from].next;
        match self.draws.below(20) {
            0..=6 => self.data(from),
            7..=9 => self.again(from),
            10..=14 => self.acknowledge(from),
            15 => self.ends[from].window = self.draws.of(&[0, 0, 500, 501, 65_535]),
            // Keep-alives and window probes.
            16 => {
                let len = self.draws.below(2) as u32;
                self.frame(from, next.wrapping_sub(1), ACK, len, &[]);
            }
            17 => self.frame(from, next, ACK, 1, &[]),
            18 => self.frame(from, next, ACK, 0, &[]),
            _ => self.end(from),
        }
    }

    /// Send new data, parts of which are left out of the capture.
    fn data(&mut self, from: usize) {
        let flags = ACK | if self.draws.is(3) { FIN } else { 0 };
        for _ in 0..=self.draws.below(6) {
            let len = self.draws.of(&[1, 2, 100, 1_000, 1_448, 4_000]);
            let seq = self.ends[from].next;
            self.ends[from].sent.push((seq, len));
            if !self.draws.is(10) {
                self.frame(from, seq, flags, len, &[]);
            }
            let fin = u32::from(flags & FIN);
            self.ends[from].next = seq.wrapping_add(len + fin);
        }
    }

    /// Draw one of the last segments that an end has sent.
    fn recent(&mut self, from: usize, most: usize) -> Option<(u32, u32)> {
        let sent = &self.ends[from].sent;
        let recent = sent.get(sent.len().saturating_sub(most)..)?;
        (!recent.is_empty()).then(|| self.draws.of(recent))
    }

    /// Send earlier data once more, or a part of it, or more than it.
    fn again(&mut self, from: usize) {
        if let Some((seq, len)) = self.recent(from, 12) {
            let len = self.draws.of(&[len, len, len, len.div_ceil(2), len + 10]);
            self.frame(from, seq, ACK, len, &[]);
        }
    }

    /// Send an acknowledgment, perhaps a repeated one, with or without SACK.
    fn acknowledge(&mut self, from: usize) {
        let (next, other) = (self.ends[from].next, 1 - from);
        if let Some((seq, len)) = self.recent(other, 8)
            && self.draws.is(70)
        {
            let ack = seq.wrapping_add(self.draws.of(&[0, len]));
            if (ack.wrapping_sub(self.ends[other].acked) as i32) > 0 || self.draws.is(3) {
                self.ends[other].acked = ack;
            }
        }
        let mut options = Vec::new();
        if self.draws.is(30) {
            let left = self.ends[other].acked.wrapping_add(self.draws.of(&[10, 1_448, 2_896]));
            options.extend([1, 1, 5, 10]);
            options.extend(left.to_be_bytes());
            options.extend(left.wrapping_add(1_448).to_be_bytes());
        }
        for _ in 0..=self.draws.of(&[0, 0, 1, 3, 4]) {
            self.frame(from, next, ACK, 0, &options);
            self.time_ns += self.draws.of(&[10_000, 1_000_000]);
        }
    }

    /// End the connection, or begin another one between the same ports.
    fn end(&mut self, from: usize) {
        let next = self.ends[from].next;
        match self.draws.below(12) {
            0 => self.frame(from, next, RST, 0, &[]),
            1 => self.frame(from, next, RST | ACK, 0, &[]),
            2 => {
                self.frame(from, next, FIN | ACK, 0, &[]);
                self.ends[from].next = next.wrapping_add(1);
            }
            3 => {
                let isn = self.draws.next() as u32;
                for end in &mut self.ends {
                    end.sent.clear();
                    (end.next, end.acked) = (isn, isn);
                }
                self.handshake();
            }
            _ => {}
        }
    }
}

/// A pcap file with times in nanoseconds.
fn pcap(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1];
    bytes.extend(head.iter().flat_map(|word| word.to_le_bytes()));
    for (time_ns, frame) in frames {
        let len = frame.len() as u32;
        let record = [(time_ns / 1_000_000_000) as u32, (time_ns % 1_000_000_000) as u32, len, len];
        bytes.extend(record.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

/// For each frame, the stream and the marks that tshark reports.
fn tshark(path: &PathBuf) -> Vec<(String, Marks)> {
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-o",
        "tcp.desegment_tcp_streams:FALSE",
        "-T",
        "fields",
        "-e",
        "tcp.stream",
    ]);
    for (_, name) in NAMES {
        command.args(["-e", &format!("tcp.analysis.{name}")]);
    }
    let output = command.arg("-r").arg(path).output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let marks = |fields: &[&str]| {
        let set = NAMES.iter().zip(fields).filter(|(_, field)| !field.is_empty());
        compared(Marks(set.map(|((mark, _), _)| mark.0).sum()))
    };
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            (fields[0].to_owned(), marks(&fields[1..]))
        })
        .collect()
}

/// The marks that are compared: all but one. When an ACK of data that is not in the capture is
/// repeated, tshark may set this mark again or not, depending on packets long before.
fn compared(marks: Marks) -> Marks {
    Marks(marks.0 & !Marks::ACK_LOST_SEGMENT.0)
}

fn names(marks: Marks) -> Vec<&'static str> {
    NAMES.iter().filter(|(mark, _)| marks.contains(*mark)).map(|(_, name)| *name).collect()
}

fn random() {
    let seeds = std::env::var("SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let mut differing = 0;
    for seed in 1..=seeds {
        let mut conversation = Conversation::new(seed);
        if conversation.draws.is(75) {
            conversation.handshake();
        }
        for _ in 0..400 {
            conversation.step();
        }
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("random-{seed}.pcap"));
        fs::write(&path, pcap(&conversation.frames)).expect("room");
        let theirs = tshark(&path);
        assert_eq!(theirs.len(), conversation.frames.len());
        let mut trace = Trace::default();
        for (index, (time_ns, frame)) in conversation.frames.iter().enumerate() {
            let taken = trace.take(0, 1, *time_ns, frame, frame.len() as u32);
            let (stream, marks) = taken.expect("the packet is traced");
            let (their_stream, their_marks) = &theirs[index];
            let marks = compared(marks);
            if stream.to_string() != *their_stream || marks != *their_marks {
                let (ours, theirs) = (names(marks), names(*their_marks));
                println!(
                    "{}, frame {}: stream {stream} {ours:?}, tshark: {their_stream} {theirs:?}",
                    path.display(),
                    index + 1
                );
                differing += 1;
                break;
            }
        }
    }
    assert_eq!(differing, 0, "of {seeds} captures differ; the files are kept");
}
