//! What sniffers on both sides of the router saw, beside the rules that were in force: which
//! packets no rules passed, and which packets left untranslated.
//!
//! Called by: `soak.rs`, at the end. Captures are tcpdump's, of Ethernet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use super::plan::{Epoch, MANY, NEVER, SOMETIMES};

/// A packet that the router sends may be seen this much later: the machine is busy.
const SLACK: Duration = Duration::from_millis(100);
const RST: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A TCP segment or a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    at: SystemTime,
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    src_port: u16,
    dst_port: u16,
    is_reset: bool,
}

/// A side of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Inside,
    /// Outside, at the port whose prefix is translated.
    Wan,
    /// Outside, where IPv6 is not translated.
    Dmz,
}

/// The frames of a capture that are TCP or UDP.
pub(super) fn frames(path: &Path) -> Result<Vec<Frame>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let magic = bytes.get(..4).context("a capture without a header")?;
    ensure!(magic == 0xa1b2_c3d4_u32.to_le_bytes(), "a capture of another kind: {magic:x?}");
    let mut rest = bytes.get(24..).context("a capture without a header")?;
    let mut all = Vec::new();
    while let Some((header, behind)) = rest.split_at_checked(16) {
        let word = |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| header[4 * n + k]));
        // tcpdump was ended in the middle of a frame.
        let Some((frame, behind)) = behind.split_at_checked(word(2) as usize) else { break };
        let since = Duration::new(word(0).into(), word(1) * 1_000);
        all.extend(parsed(frame, SystemTime::UNIX_EPOCH + since));
        rest = behind;
    }
    Ok(all)
}

fn parsed(frame: &[u8], at: SystemTime) -> Option<Frame> {
    let (ip, kind) = (frame.get(14..)?, frame.get(12..14)?);
    let (src, dst, protocol, transport): (IpAddr, IpAddr, u8, &[u8]) = match *kind {
        [8, 0] => {
            let source: [u8; 4] = ip.get(12..16)?.try_into().ok()?;
            let dest: [u8; 4] = ip.get(16..20)?.try_into().ok()?;
            let transport = ip.get(usize::from(ip[0] & 15) * 4..)?;
            (Ipv4Addr::from(source).into(), Ipv4Addr::from(dest).into(), ip[9], transport)
        }
        [0x86, 0xdd] => {
            let source: [u8; 16] = ip.get(8..24)?.try_into().ok()?;
            let dest: [u8; 16] = ip.get(24..40)?.try_into().ok()?;
            (Ipv6Addr::from(source).into(), Ipv6Addr::from(dest).into(), ip[6], ip.get(40..)?)
        }
        _ => return None,
    };
    if protocol != TCP && protocol != UDP {
        return None;
    }
    let port = |n: usize| Some(u16::from_be_bytes([*transport.get(n)?, *transport.get(n + 1)?]));
    let is_reset = protocol == TCP && transport.get(13)? & RST != 0;
    Some(Frame { at, src, dst, protocol, src_port: port(0)?, dst_port: port(2)?, is_reset })
}

/// Hosts behind the router.
fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.segments()[0] == 0xfd00,
    }
}

/// The host on the other side; the router's own addresses end in 1 or come by DHCP.
fn is_outside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !is_inside(address.into()) && address.octets()[3] == 2,
        IpAddr::V6(address) => {
            let segments = address.segments();
            (segments[0], segments[7]) == (0x2001, 2) && segments[2] != 0xf
        }
    }
}

/// What was counted.
#[derive(Default)]
pub(super) struct Judged {
    /// Packets that no rules passed, on the side that they were sent.
    pub(super) forbidden: u64,
    /// Packets that should not have passed, with the reason.
    pub(super) passed: Vec<String>,
    /// Packets on the far side that rules may pass.
    pub(super) allowed: u64,
    /// Datagrams that rules passed, as sent, by epoch and port.
    offered: BTreeMap<(usize, u16), u64>,
    /// The same on the far side.
    arrived: BTreeMap<(usize, u16), u64>,
}

impl Judged {
    /// Judge the frames of a side.
    pub(super) fn side(&mut self, side: Side, frames: &[Frame], epochs: &[Epoch]) {
        for frame in frames {
            let is_towards_host = match side {
                Side::Inside => is_inside(frame.dst),
                Side::Wan | Side::Dmz => is_outside(frame.dst),
            };
            if is_towards_host {
                self.came(side, frame, epochs);
            } else {
                self.sent(side, frame, epochs);
            }
        }
    }

    /// A frame that the router sent.
    fn came(&mut self, side: Side, frame: &Frame, epochs: &[Epoch]) {
        let is_translated = side == Side::Wan || side == Side::Dmz && frame.src.is_ipv4();
        if is_translated && is_inside(frame.src) {
            self.passed.push(format!("untranslated: {frame:?}"));
        }
        // The router itself resets flows that a rule rejects.
        if frame.is_reset {
            return;
        }
        if frame.dst_port == NEVER || frame.src_port == NEVER {
            self.passed.push(format!("no rules pass it: {frame:?}"));
        }
        let Some(port) = sometimes(frame) else {
            self.allowed += 1;
            return;
        };
        let Some((n, epoch)) = at(epochs, frame.at) else { return };
        if !epoch.passes(port) {
            self.passed.push(format!("the rules of the time do not pass {port}: {frame:?}"));
            return;
        }
        self.allowed += 1;
        if side != Side::Inside && frame.protocol == UDP {
            *self.arrived.entry((n, port)).or_default() += 1;
        }
    }

    /// A frame that a host sent to the router.
    fn sent(&mut self, side: Side, frame: &Frame, epochs: &[Epoch]) {
        if frame.dst_port == NEVER || frame.src_port == NEVER {
            self.forbidden += 1;
        }
        if side != Side::Inside {
            return;
        }
        let Some(port) = sometimes(frame) else { return };
        let Some((n, epoch)) = at(epochs, frame.at) else { return };
        if !epoch.passes(port) {
            self.forbidden += 1;
        } else if frame.protocol == UDP && !epoch.is_disturbed && frame.at + SLACK < epoch.until {
            *self.offered.entry((n, port)).or_default() += 1;
        }
    }

    /// Datagrams that rules passed, as sent and as arrived, while all links were up.
    pub(super) fn datagrams(&self) -> (u64, u64) {
        let arrived = |key: &(usize, u16)| self.arrived.get(key).copied().unwrap_or(0);
        let of_offered = self.offered.iter().map(|(key, sent)| arrived(key).min(*sent));
        (self.offered.values().sum(), of_offered.sum())
    }
}

/// The port that rules pass at times, of a datagram to it or an answer.
fn sometimes(frame: &Frame) -> Option<u16> {
    let is_it = |port: &u16| (SOMETIMES..SOMETIMES + MANY).contains(port);
    [frame.dst_port, frame.src_port].into_iter().find(is_it)
}

/// The epoch that a time is well within, and its number.
fn at(epochs: &[Epoch], time: SystemTime) -> Option<(usize, &Epoch)> {
    let n = epochs.partition_point(|epoch| epoch.from + SLACK <= time).checked_sub(1)?;
    epochs.get(n).filter(|epoch| time < epoch.until).map(|epoch| (n, epoch))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;
    use crate::interop::soaking::Random;

    fn frame(src: &str, dst: &str, dst_port: u16, at: SystemTime) -> Frame {
        let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
        Frame { at, src, dst, protocol: UDP, src_port: 6000, dst_port, is_reset: false }
    }

    #[test]
    fn what_passes_against_the_rules_is_found() {
        let mut epoch = Plan::new(&mut Random::new(3)).in_force();
        epoch.until += Duration::from_secs(10);
        let (time, ports) = (epoch.from + Duration::from_secs(1), SOMETIMES..SOMETIMES + MANY);
        let good = ports.clone().find(|port| epoch.passes(*port)).unwrap();
        let bad = ports.clone().find(|port| !epoch.passes(*port)).unwrap();
        let out = |port| frame("203.0.113.1", "203.0.113.2", port, time);
        let early = frame("203.0.113.1", "203.0.113.2", bad, epoch.from);
        let leak = frame("10.0.0.2", "203.0.113.2", 7000, time);
        let epochs = [epoch];
        let judge = |frame: Frame| {
            let mut judged = Judged::default();
            judged.side(Side::Dmz, &[frame], &epochs);
            judged.passed.len()
        };
        assert_eq!([out(good), out(7000), early].map(judge), [0, 0, 0]);
        assert_eq!([out(bad), out(NEVER), leak].map(judge), [1, 1, 1]);
        let answer = Frame { src_port: bad, ..frame("203.0.113.2", "10.0.0.2", 6000, time) };
        let mut judged = Judged::default();
        judged.side(Side::Inside, &[answer, frame("10.0.0.2", "203.0.113.2", good, time)], &epochs);
        assert_eq!((judged.passed.len(), judged.datagrams()), (1, (1, 0)));
    }

    #[test]
    fn frames_are_read() {
        let mut ip = vec![0; 14 + 20 + 20];
        (ip[12], ip[14], ip[23], ip[26], ip[33]) = (8, 0x45, TCP, 10, 2);
        (ip[34], ip[35], ip[47]) = (0x1f, 0x40, RST);
        let read = parsed(&ip, SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(
            (read.src, read.src_port, read.is_reset),
            ("10.0.0.0".parse().unwrap(), 8000, true)
        );
        assert!(
            (0..ip.len()).all(|len| parsed(&ip[..len.min(40)], SystemTime::UNIX_EPOCH).is_none())
        );
    }
}
