//! A script for a whole stack, decoded byte by byte: frames, answers to what the stack said, calls
//! and time.
//!
//! Called by: the targets; `seeds.rs` writes the same bytes. The first byte of a step says its
//! kind; [`FRAME`] and [`WAIT`] are fixed so that recorded conversations can be written down.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use arbitrary::{Result, Unstructured};
use base::{Counters, Duration, Owner, SeqNumber};
use stack::{FastConnect, pair};
use tcp::Config;
use wire::tcp::{Flags, OPTIONS_LEN_MAX, Options, Timestamps};
use wire::{icmp, icmpv6, protocol};

use super::{Bench, FORWARD_PORT, LISTEN_PORT, REMOTE_PORT, Said, UDP_PORT, second_address};
use crate::craft::{self, Segment};

/// Steps of a script.
const STEPS_MAX: usize = 150;
/// A frame on the first wire as it is: two bytes of length, then its bytes.
pub(crate) const FRAME: u8 = 0;
/// This many units of 2^20 ns pass: two bytes.
pub(crate) const WAIT: u8 = 1;

/// One step of a script.
pub(crate) type Step = fn(&mut Bench, &mut Unstructured<'_>) -> Result<()>;

/// A host; the script's first byte says whether it knows its neighbours.
pub(crate) fn bench(u: &mut Unstructured<'_>) -> Bench {
    Bench::new(u.arbitrary::<u8>().unwrap_or(0) & 1 != 0)
}

/// Decode and play; a script may end anywhere.
pub(crate) fn play(
    data: &[u8],
    bench: impl FnOnce(&mut Unstructured<'_>) -> Bench,
    step: Step,
) -> Counters {
    run(data, bench, step).finish()
}

/// The bench at the end of a script.
pub(crate) fn run(
    data: &[u8],
    bench: impl FnOnce(&mut Unstructured<'_>) -> Bench,
    step: Step,
) -> Bench {
    let mut u = Unstructured::new(data);
    let mut bench = bench(&mut u);
    for _ in 0..STEPS_MAX {
        if u.is_empty() {
            break;
        }
        let done = step(&mut bench, &mut u);
        bench.poll();
        if done.is_err() {
            break;
        }
    }
    bench
}

pub(super) fn short_bytes(u: &mut Unstructured<'_>, most: usize) -> Result<Vec<u8>> {
    let len = usize::from(u.arbitrary::<u16>()?) % (most + 1);
    Ok(u.bytes(len.min(u.len()))?.to_vec())
}

fn wait(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let ticks: u64 = u.arbitrary::<u16>()?.into();
    bench.now += Duration::from_nanos(ticks << 20);
    Ok(())
}

pub(super) fn step(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    match u.arbitrary::<u8>()? {
        FRAME => {
            let len = usize::from(u16::from_be_bytes([u.arbitrary()?, u.arbitrary()?]));
            let frame = u.bytes(len.min(u.len()))?.to_vec();
            bench.inject(0, &frame);
        }
        WAIT => wait(bench, u)?,
        2..=31 => {
            let wire = usize::from(u.arbitrary::<bool>()?);
            let mut frame = short_bytes(u, 300)?;
            if u.ratio(7, 8)? {
                craft::fix_frame_checksums(&mut frame, bench.wires[wire].link);
            }
            bench.inject(wire, &frame);
        }
        32..=63 => transport(bench, u)?,
        64..=127 => answer(bench, u)?,
        128..=143 => reflect(bench, u)?,
        144..=163 => icmp_error(bench, u)?,
        164..=195 => handshake(bench, u)?,
        196..=211 => wait(bench, u)?,
        212..=227 => {
            let (index, how) = (u.arbitrary::<u8>()?, u.arbitrary()?);
            let len = usize::from(u.arbitrary::<u16>()? & 0x3fff);
            bench.use_connection(index.into(), how, len);
        }
        228..=250 => call(bench, u)?,
        _ => bench.stalled = u.arbitrary()?,
    }
    Ok(())
}

/// Addresses of a peer and of ours that go together, and the wire between them.
fn addresses(u: &mut Unstructured<'_>) -> Result<(usize, IpAddr, IpAddr)> {
    let host: u8 = u.arbitrary()?;
    Ok(match host & 3 {
        0 | 1 => {
            let peer = Ipv4Addr::new(192, 0, 2, if host & 4 == 0 { 2 } else { host });
            (0, IpAddr::V4(peer), pair::addresses(1)[0].addr)
        }
        2 => (0, pair::addresses(2)[1].addr, pair::addresses(1)[1].addr),
        _ => (1, IpAddr::V4(Ipv4Addr::new(198, 51, 100, host)), second_address()),
    })
}

/// A right IP header with anything behind it.
fn transport(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let (wire, theirs, ours) = addresses(u)?;
    let protocol = *u.choose(&[
        protocol::TCP,
        protocol::UDP,
        protocol::ICMP,
        protocol::ICMPV6,
        0,
        43,
        44,
        60,
    ])?;
    let mut bytes = short_bytes(u, 200)?;
    let port = *u.choose(&[LISTEN_PORT, UDP_PORT, FORWARD_PORT])?;
    if u.arbitrary()?
        && let Some(at) = bytes.get_mut(2..4)
    {
        at.copy_from_slice(&port.to_be_bytes());
    }
    if protocol == protocol::UDP && u.arbitrary()? {
        let len = bytes.len() as u16;
        if let Some(at) = bytes.get_mut(4..6) {
            at.copy_from_slice(&len.to_be_bytes());
        }
    }
    let packet = craft::packet(theirs, ours, protocol, &bytes);
    bench.inject_packet(wire, &packet);
    Ok(())
}

fn pick(bench: &Bench, u: &mut Unstructured<'_>) -> Result<Option<Said>> {
    if bench.said.is_empty() {
        return Ok(None);
    }
    let back = usize::from(u.arbitrary::<u8>()? & 15) % bench.said.len();
    Ok(bench.said.iter().rev().nth(back).cloned())
}

/// A segment that answers one of the stack's, near what it expects or not.
fn answer(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let Some(Said { wire, sent }) = pick(bench, u)? else { return Ok(()) };
    let Some((header, said, len)) = sent.tcp else { return Ok(()) };
    let how: u8 = u.arbitrary()?;
    let space = len
        + u32::from(header.flags.contains(Flags::SYN))
        + u32::from(header.flags.contains(Flags::FIN));
    let flags = match how & 7 {
        0..=3 => Flags::ACK,
        4 => Flags::ACK | Flags::FIN,
        5 => Flags::SYN | Flags::ACK,
        _ => Flags(u.arbitrary()?),
    };
    let seq = match how >> 3 & 3 {
        0..=2 => header.ack,
        _ => header.ack + u32::from(u.arbitrary::<u16>()?) - 0x8000,
    };
    let ack = match how >> 5 & 3 {
        0 | 1 => header.seq + space,
        2 => header.seq,
        _ => header.seq + u32::from(u.arbitrary::<u16>()?),
    };
    let options = if how & 0x80 == 0 { echo(header.seq, &said, u)? } else { short_bytes(u, 40)? };
    let segment = Segment {
        src: SocketAddr::new(sent.dst, header.dst_port),
        dst: SocketAddr::new(sent.src, header.src_port),
        seq,
        ack,
        flags,
        window: u.arbitrary()?,
        options,
        payload: short_bytes(u, 200)?,
    };
    bench.inject_packet(wire, &segment.packet());
    Ok(())
}

/// Options as a good peer has them: timestamps if the stack sends some, and maybe SACK blocks.
fn echo(seq: SeqNumber, said: &Options, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let timestamps = said.timestamps.map(|ts| Timestamps {
        value: ts.echo.wrapping_add(u.arbitrary::<u8>().unwrap_or(0).into()),
        echo: ts.value,
    });
    let mut options = Options { timestamps, ..Options::default() };
    if u.ratio(1, 4)? {
        let left = seq + u32::from(u.arbitrary::<u16>()?);
        options.sack.push(left, left + u32::from(u.arbitrary::<u16>()?));
    }
    let mut area = [0; OPTIONS_LEN_MAX];
    let len = options.emit(&mut area);
    Ok(area[..len].to_vec())
}

/// A packet of the stack's comes back, with ends exchanged and a byte changed.
fn reflect(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let Some(said) = pick(bench, u)? else { return Ok(()) };
    let mut packet = said.sent.packet.clone();
    let (at, len) = if said.sent.src.is_ipv4() { (12, 4) } else { (8, 16) };
    if u.ratio(3, 4)?
        && let Some(addresses) = packet.get_mut(at..at + 2 * len)
    {
        addresses.rotate_left(len);
    }
    let place = usize::from(u.arbitrary::<u16>()?) % packet.len().max(1);
    if let Some(byte) = packet.get_mut(place) {
        *byte ^= u.arbitrary::<u8>()?;
    }
    craft::fix_frame_checksums(&mut packet, base::LinkKind::Ip);
    bench.inject_packet(said.wire, &packet);
    Ok(())
}

/// A router complains about a packet of the stack's.
fn icmp_error(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let Some(said) = pick(bench, u)? else { return Ok(()) };
    let mut quote = said.sent.packet.clone();
    quote.truncate(usize::from(u.arbitrary::<u8>()?));
    let from =
        *u.choose(&[said.sent.dst, pair::addresses(2)[0].addr, pair::addresses(2)[1].addr])?;
    let (kind, code) = *u.choose(&[(3, 4), (3, 1), (3, 2), (11, 0), (2, 0), (1, 0), (4, 1)])?;
    let rest: [u8; 4] = u.arbitrary()?;
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&rest);
    message.extend_from_slice(&quote);
    let protocol = if said.sent.src.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
    debug_assert!(message.len() >= icmp::HEADER_LEN && message.len() >= icmpv6::HEADER_LEN);
    let packet = craft::packet(from, said.sent.src, protocol, &message);
    bench.inject_packet(said.wire, &packet);
    Ok(())
}

/// A packet to a listener.
pub(super) fn handshake(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    match u.arbitrary::<u8>()? {
        0..=127 => {
            let (wire, theirs, ours) = addresses(u)?;
            let port = *u.choose(&[LISTEN_PORT, LISTEN_PORT, FORWARD_PORT, 82])?;
            let flags = if u.ratio(7, 8)? { Flags::SYN } else { Flags(u.arbitrary()?) };
            let options = if u.arbitrary()? { short_bytes(u, 40)? } else { Vec::new() };
            let segment = Segment {
                src: SocketAddr::new(theirs, 1_000 + u16::from(u.arbitrary::<u8>()?)),
                dst: SocketAddr::new(ours, port),
                seq: SeqNumber(u.arbitrary::<u32>()? & 0xff00_00ff),
                ack: SeqNumber(u.arbitrary::<u16>()?.into()),
                flags,
                window: u.arbitrary()?,
                options,
                payload: short_bytes(u, 20)?,
            };
            bench.inject_packet(wire, &segment.packet());
        }
        128..=191 => answer(bench, u)?,
        192..=207 => wait(bench, u)?,
        208..=231 => requests(bench, u)?,
        232..=243 => {
            let (index, how) = (u.arbitrary::<u8>()?, u.arbitrary()?);
            bench.use_connection(index.into(), how, 100);
        }
        _ => listen_anew(bench, u)?,
    }
    Ok(())
}

/// A forwarder's decision about a SYN.
fn requests(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let Some((request, ..)) = bench.stack.tcp_request(bench.listeners[1]) else { return Ok(()) };
    match u.int_in_range(0..=3)? {
        0 => bench.stack.tcp_refuse(request),
        1 => bench.stack.tcp_ignore(request),
        _ => {
            if let Ok(handle) = bench.stack.tcp_complete(request) {
                bench.held.push(handle);
            }
            assert!(bench.stack.tcp_complete(request).is_err(), "a request decides once");
        }
    }
    Ok(())
}

/// A listener goes, and another comes in its place.
fn listen_anew(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let inspect = u.arbitrary::<bool>()?;
    let place = usize::from(inspect);
    bench.stack.tcp_unlisten(bench.listeners[place]);
    let port = [LISTEN_PORT, FORWARD_PORT][place];
    // An unspecified address with port 0 matches everything.
    let port = if inspect && u.ratio(1, 4)? { 0 } else { port };
    let fast_open = stack::FastOpenConfig {
        pending_max: u.int_in_range(0..=2)?,
        without_cookie: u.arbitrary()?,
        key: None,
    };
    let config = stack::ListenConfig {
        backlog: u.int_in_range(0..=4)?,
        inspect,
        fast_open,
        ..stack::ListenConfig::default()
    };
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
    bench.listeners[place] = bench.stack.tcp_listen(local, config).expect("it has just been left");
    Ok(())
}

/// A call of a user, other than those on connections.
fn call(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let (_, theirs, _) = addresses(u)?;
    let (how, len) = (u.arbitrary::<u8>()?, usize::from(u.arbitrary::<u16>()? & 0x7ff));
    let payload = vec![0x33; len];
    let (stack, now) = (&mut bench.stack, bench.now);
    match how % 8 {
        0 | 1 if bench.held.len() < 12 => {
            let to = SocketAddr::new(theirs, REMOTE_PORT);
            let config = Config { sack: how & 8 == 0, ..Config::default() };
            let (config, owner, ip) = (&config, Owner::program(), stack::IpSettings::default());
            let without_cookie = how & 32 == 0;
            let first = FastConnect {
                remote: to,
                local: None,
                config,
                owner,
                ip,
                first: &payload,
                without_cookie,
            };
            let made = if how & 16 == 0 {
                stack.tcp_connect_first(&first, now).map(|(handle, _)| handle)
            } else {
                stack.tcp_connect(to, None, config, Owner::program(), now)
            };
            if let Ok(handle) = made {
                bench.held.push(handle);
            }
        }
        2 => {
            let _ = stack.udp_send(bench.udp, SocketAddr::new(theirs, 9), &payload, now);
        }
        3 => {
            while let Some(datagram) = stack.udp_receive(bench.udp) {
                stack.give_back(datagram.payload);
            }
            let _ = stack.udp_take_error(bench.udp);
        }
        4 => {
            let _ = stack.ping_send(bench.ping, theirs, 1, &payload, now);
        }
        5 => {
            while let Some(echo) = stack.ping_receive(bench.ping) {
                if let Ok(m) = echo.outcome {
                    stack.give_back(m);
                }
            }
        }
        6 => {
            let _ = stack.connections_page(0, 3).rows.len() + stack.sockets_page(0, 3).rows.len();
        }
        _ => {
            let _ = stack.udp_connect(bench.udp, SocketAddr::new(theirs, 9));
        }
    }
    Ok(())
}
