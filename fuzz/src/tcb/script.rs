//! A script for one connection, decoded byte by byte: its settings, how it opens, then steps.
//!
//! Called by: the targets. The fields of a segment are mostly relative to the state of the
//! connection: otherwise random bytes would hardly ever be inside a window. One kind of step sets
//! them to anything.

use arbitrary::{Result, Unstructured};
use base::{Duration, Instant, Mss, SeqNumber, Switch, Switches, WindowScale};
use tcp::cc::Algorithm;
use tcp::{Config, Ecn, Error, MtuProbing, Opening, Segment, State, path, usrreq};
use wire::tcp::{FastOpen, Flags, Options, SackBlocks, Timestamps};

use super::{Bench, Start, Transcript, opening};

/// Steps of a script.
const STEPS_MAX: usize = 400;

/// Decode and play; a script may end anywhere.
pub(crate) fn play(data: &[u8], predict: bool) -> Transcript {
    let mut u = Unstructured::new(data);
    let Ok(mut bench) = begin(&mut u, predict) else { return Transcript::default() };
    for _ in 0..STEPS_MAX {
        if u.is_empty() || step(&mut bench, &mut u).is_err() {
            break;
        }
        bench.check();
    }
    bench.finish()
}

/// A size whose number of bits is drawn first, so that small ones and large ones both come.
fn size(u: &mut Unstructured<'_>, most: u32) -> Result<u32> {
    let shift = u32::from(u.arbitrary::<u8>()? & 31);
    Ok((u.arbitrary::<u32>()? >> shift).min(most))
}

/// A span of time of any scale up to weeks.
fn span(u: &mut Unstructured<'_>) -> Result<Duration> {
    let shift = u32::from(u.arbitrary::<u8>()? % 51);
    let mantissa = u64::from(u.arbitrary::<u8>()?);
    Ok(Duration::from_nanos((mantissa << shift) >> 7))
}

fn begin(u: &mut Unstructured<'_>, predict: bool) -> Result<Bench> {
    let (config, opening) = (config(u)?, any_opening(u)?);
    let mut switches = Switches::default();
    let off: u16 = u.arbitrary()?;
    for (bit, &switch) in Switch::ALL.iter().enumerate() {
        // Mostly all is on: two bytes have to agree that one is off.
        if off >> (bit & 15) & 1 != 0 && off & 0x0101 == 0x0101 {
            switches = switches.with(switch, false);
        }
    }
    let start = Start {
        config,
        opening,
        switches,
        pool_bytes: *u.choose(&[1 << 24, 1 << 24, 1 << 17])?,
        predict,
        now: *u.choose(&[
            // Older than any round trip that a peer may make us believe in.
            Instant::from_nanos(100_000_000_000),
            // Just before 32 bits of milliseconds run out.
            Instant::from_nanos((u32::MAX as u64 - 50) * 1_000_000),
        ])?,
    };
    let mut bench = if u.arbitrary()? {
        let (syn, options) = (syn(u)?, syn_options(u)?);
        Bench::listen(&start, &syn, &options)
    } else {
        Bench::connect(&start)
    };
    bench.visit();
    if u.ratio(3, 4)? {
        // Most scripts do more with a connection that is open.
        hand_shake(&mut bench, u)?;
    }
    Ok(bench)
}

fn config(u: &mut Unstructured<'_>) -> Result<Config> {
    let bits: u16 = u.arbitrary()?;
    let has = |bit: u16| bits & bit != 0;
    let mut config = Config {
        algorithm: *u.choose(Algorithm::ALL)?,
        no_delay: has(1),
        timestamps: !has(2),
        sack: !has(4),
        window_scaling: !has(8),
        mtu_probing: *u.choose(&[
            MtuProbing::AfterBlackHole,
            MtuProbing::Always,
            MtuProbing::Off,
        ])?,
        ecn: *u.choose(&[Ecn::Accept, Ecn::On, Ecn::Off])?,
        keepalive_idle: has(16).then(|| Duration::from_secs(20)),
        user_timeout: has(32).then(|| Duration::from_secs(7)),
        retries_max: if has(64) { 2 } else { 15 },
        ..Config::default()
    };
    if has(128) {
        config.set_fixed_buffers(size(u, 1 << 20)?, size(u, 1 << 20)?);
    }
    Ok(config)
}

fn any_opening(u: &mut Unstructured<'_>) -> Result<Opening> {
    let mss = *u.choose(&[1460, 1460, 1220, 536, 8_960, 28])?;
    let super_max_bytes = *u.choose(&[0, 0, 65_160, 3_000])?;
    let path = *u.choose(&[None, None, Some((Mss(500), Instant::from_nanos(104_000_000_000)))])?;
    let iss = if u.arbitrary()? { SeqNumber(1) } else { opening().iss };
    Ok(Opening {
        mss: Mss(mss),
        super_max_bytes,
        path,
        offload_checksum: super_max_bytes > 0 && u.arbitrary()?,
        iss,
        ..opening()
    })
}

fn syn(u: &mut Unstructured<'_>) -> Result<Segment> {
    let ecn = if u.arbitrary()? { Flags::ECE.with(Flags::CWR) } else { Flags::NONE };
    Ok(Segment {
        seq: SeqNumber(*u.choose(&[u32::MAX - 100, 7, 0x7fff_ffff])?),
        ack: SeqNumber(0),
        len: 0,
        window: u.arbitrary()?,
        urgent: 0,
        flags: Flags::SYN | ecn,
        ce: false,
        timestamps: None,
    })
}

fn syn_options(u: &mut Unstructured<'_>) -> Result<Options> {
    let bits: u8 = u.arbitrary()?;
    let cookie: [u8; 8] = if bits & 7 == 7 { u.arbitrary()? } else { [0; 8] };
    Ok(Options {
        mss: (bits & 1 != 0).then(|| u.arbitrary()).transpose()?,
        window_scale: (bits & 2 == 0).then_some(WindowScale::new(bits >> 4)),
        sack_permitted: bits & 4 == 0,
        timestamps: (bits & 8 == 0).then_some(Timestamps { value: 1_000, echo: 0 }),
        user_timeout_s: (bits & 15 == 15).then(|| u.arbitrary()).transpose()?,
        sack: SackBlocks::EMPTY,
        fast_open: FastOpen::new(&cookie, bits & 16 == 0).filter(|_| bits & 7 == 7),
    })
}

/// The other half of the handshake, as an honest peer does it.
fn hand_shake(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let (mut seg, mut options) = if bench.tcb.state == State::SynSent {
        let syn = syn(u)?;
        (Segment { flags: syn.flags.without(Flags::CWR) | Flags::ACK, ..syn }, syn_options(u)?)
    } else {
        let flags = Flags::ACK;
        (Segment { seq: bench.tcb.rcv_nxt, flags, ..syn(u)? }, Options::default())
    };
    seg.ack = bench.tcb.snd_nxt;
    options.timestamps = timestamps(bench, 0, 0);
    seg.timestamps = options.timestamps;
    bench.segment(&seg, &options);
    bench.visit();
    Ok(())
}

/// The peer's timestamps: `ahead` of the last that it sent, and an echo of ours, `ago`.
fn timestamps(bench: &Bench, ahead: i8, ago: u8) -> Option<Timestamps> {
    let value = bench.tcb.ts_recent.wrapping_add_signed(ahead.into());
    let ours = bench.cx.now_ms.wrapping_add(opening().ts_offset);
    Some(Timestamps { value, echo: ours.wrapping_sub(ago.into()) })
}

fn step(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    match u.arbitrary::<u8>()? {
        0..=79 => likely_segment(bench, u)?,
        80..=111 => sack_segment(bench, u)?,
        112..=119 => any_segment(bench, u)?,
        what @ 120..=143 => {
            let len = size(u, 100_000)? as usize;
            bench.write(len, if what % 4 == 3 { 5_000 } else { 0 });
        }
        144..=147 => bench.write_mbuf(u.arbitrary::<u16>()?.into()),
        148..=163 => {
            let len = size(u, 200_000)? as usize;
            bench.read(len);
        }
        164..=167 => bench.read_mbuf(),
        168..=183 => {
            let by = span(u)?;
            bench.wait(by);
        }
        184..=199 => bench.wait_for_deadline(),
        200..=223 => bench.device_sends(u.arbitrary::<u8>()?.into()),
        224..=231 => call(bench, u)?,
        232..=239 => news_of_the_path(bench, u)?,
        240..=243 => bench.exhaust(u.arbitrary()?),
        // A visit, like the one that ends most steps.
        _ => {}
    }
    if u.ratio(3, 4)? {
        bench.visit();
        if bench.withheld.is_empty() {
            bench.laws.visited(&bench.tcb);
        }
    }
    Ok(())
}

/// A segment near what is expected.
fn likely_segment(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let (seg, options) = near(bench, u)?;
    bench.segment(&seg, &options);
    Ok(())
}

fn near(bench: &Bench, u: &mut Unstructured<'_>) -> Result<(Segment, Options)> {
    let tcb = &bench.tcb;
    let how: u8 = u.arbitrary()?;
    let seq = match how & 7 {
        0..=3 => tcb.rcv_nxt,
        4 => tcb.rcv_nxt + u32::from(u.arbitrary::<u16>()?),
        5 => tcb.rcv_nxt - u32::from(u.arbitrary::<u16>()?),
        6 => tcb.rcv_adv - u32::from(u.arbitrary::<u8>()?),
        _ => tcb.rcv_nxt - 1,
    };
    let flight = tcb.in_flight();
    let ack = match how >> 3 & 7 {
        0..=2 => tcb.snd_nxt,
        3 | 4 => tcb.snd_una,
        5 => tcb.snd_una + size(u, flight)?,
        6 => tcb.snd_una + u32::from(tcb.snd_mss.0).min(flight),
        _ => tcb.snd_nxt + u32::from(u.arbitrary::<u8>()?),
    };
    let flags = match how >> 6 {
        0..=2 => Flags::ACK,
        _ => Flags(u.arbitrary::<u8>()?),
    };
    let len = if u.arbitrary()? { size(u, 20_000)? } else { 0 };
    let window = *u.choose(&[0xffff, 0x4000, 0, 1, 700])?;
    let stamp: u8 = u.arbitrary()?;
    let timestamps = match stamp & 7 {
        0..=5 => timestamps(bench, (stamp >> 6) as i8, stamp >> 3 & 7),
        6 => timestamps(bench, -((stamp >> 3) as i8), 0),
        _ => None,
    };
    let seg = Segment { seq, ack, len, window, urgent: 0, flags, ce: stamp == 0xf8, timestamps };
    Ok((seg, Options { timestamps, ..Options::default() }))
}

/// An ACK that tells what has arrived out of order, true or not.
fn sack_segment(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let (mut seg, mut options) = near(bench, u)?;
    if u.arbitrary()? {
        (seg.ack, seg.flags) = (bench.tcb.snd_una, Flags::ACK);
    }
    let flight = bench.tcb.in_flight();
    for _ in 0..u.int_in_range(1..=4)? {
        let from = size(u, flight.saturating_add(2_000))?;
        let wild = u.ratio(1, 16)?;
        let left = if wild { SeqNumber(u.arbitrary()?) } else { bench.tcb.snd_una + from };
        options.sack.push(left, left + size(u, 1 << 17)?);
    }
    bench.segment(&seg, &options);
    Ok(())
}

/// A segment of any kind.
fn any_segment(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let timestamps = Some(Timestamps { value: u.arbitrary()?, echo: u.arbitrary()? });
    let seg = Segment {
        seq: SeqNumber(u.arbitrary()?),
        ack: SeqNumber(u.arbitrary()?),
        len: size(u, 60_000)?,
        window: u.arbitrary()?,
        urgent: u.arbitrary()?,
        flags: Flags(u.arbitrary()?),
        ce: u.arbitrary()?,
        timestamps,
    };
    let options = Options { timestamps, ..syn_options(u)? };
    bench.segment(&seg, &options);
    Ok(())
}

/// A call of a user.
fn call(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let (tcb, cx) = (&mut bench.tcb, &mut bench.cx);
    match u.int_in_range(0..=9)? {
        0 => usrreq::shutdown_write(tcb),
        1 => {
            // Waiting data is discarded, and nothing comes after it.
            bench.read += tcb.receive.len() as u64;
            usrreq::shutdown_read(tcb, cx);
        }
        2 => usrreq::close(tcb, cx),
        3 => usrreq::abort(tcb, cx),
        4 => usrreq::set_no_delay(tcb, u.arbitrary()?),
        5 => tcb.set_keepalive(u.arbitrary::<bool>()?.then(|| Duration::from_secs(3)), cx.now),
        6 => {
            let (receive, send) = (size(u, 1 << 22)?, size(u, 1 << 22)?);
            let tuned = u.arbitrary()?;
            usrreq::configure(tcb, |c| resize(c, receive, send, tuned), cx);
            bench.laws.configured(bench.tcb.config());
        }
        7 => {
            let _ = usrreq::writable(tcb, cx);
        }
        8 => usrreq::lose_network(tcb, cx),
        _ => usrreq::give_way(tcb),
    }
    Ok(())
}

fn resize(config: &mut Config, receive: u32, send: u32, tuned: bool) {
    config.set_fixed_buffers(receive, send);
    if tuned {
        config.receive_buffer_max_bytes = receive.saturating_mul(4);
        config.send_buffer_max_bytes = send.saturating_mul(4);
    }
}

/// Reports about a path, from ICMP and the stack.
fn news_of_the_path(bench: &mut Bench, u: &mut Unstructured<'_>) -> Result<()> {
    let (tcb, now) = (&mut bench.tcb, bench.cx.now);
    let mss = Mss(u.arbitrary::<u16>()? & 0x3fff);
    match u.int_in_range(0..=6)? {
        0 => path::soft_error(tcb, Error::HostUnreachable),
        1 => path::hard_error(tcb, Error::ProtocolUnreachable),
        2 => path::host_unreachable(tcb),
        3 => {
            let _ = path::too_big(tcb, mss, now);
        }
        4 => {
            let _ = path::learnt(tcb, mss, now);
        }
        5 => {
            let _ = path::link_carries(tcb, mss, now);
        }
        _ => {
            let _ = path::take_news(tcb);
        }
    }
    Ok(())
}
