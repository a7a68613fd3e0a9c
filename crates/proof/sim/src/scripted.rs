//! Scripted situations in virtual time: one lost segment at the tail, a window that closes and
//! opens. The stack has its default settings unless a function says otherwise.
//!
//! Called by: benches, tests. All situations have the same path: 100 Mb/s, round trip 40 ms, no
//! impairments.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::{Duration, Instant, IpVersion};
use link::Settings;

use crate::app::{Finish, Read, Script, Write};
use crate::flow::FlowSettings;
use crate::goodput::two_hosts;
use crate::host::PortSettings;
use crate::violation::Violation;
use crate::world::World;

/// The round trip.
pub const RTT: Duration = Duration::from_millis(40);

const ONE_WAY: Duration = Duration::from_millis(20);
const RATE_BPS: u64 = 100_000_000;

/// The number of the direction from the client; the next constant is the direction to the client.
const THERE: usize = 0;
const BACK: usize = 1;

/// Bytes of the request; the next constant is the bytes of the reply.
const REQUEST_BYTES: u64 = 200;
const REPLY_BYTES: u64 = 20 << 10;
/// Exchanges before the measured one, in which the congestion window grows.
const WARM_TURNS: u64 = 8;

/// Bytes that the reader reads before it stops.
const BEFORE_STOP_BYTES: u64 = 100_000;
/// How long the window stays closed.
const SHUT: Duration = Duration::from_secs(5);
/// The time after which a situation has failed.
const LATEST: Duration = Duration::from_secs(600);

/// The result of [`tail_loss`].
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// The time from the write of the request until the reply's last byte was read.
    pub completion: Duration,
    /// The longest time that the reader, the sender's peer, delays an ACK.
    pub ack_delay: Duration,
}

/// A request on a warm connection. The last segment of its reply, which has 20 KB, is lost once.
///
/// Nagle's algorithm is off at both ends, as in programs that exchange requests and replies. With
/// it the last segment would wait for an ACK before it is sent and could be lost. Eight exchanges
/// without a loss come first. Time runs from the client's write of the ninth request, which follows
/// immediately after the read of the eighth reply, until the client has read the last byte of the
/// ninth reply.
///
/// # Errors
/// The streams differ, or the last segment was never sent or never arrived.
pub fn tail_loss(seed: u64) -> Result<Tail, Violation> {
    let config = tcp::Config { no_delay: true, ..tcp::Config::default() };
    let (mut client, mut server) = (vec![Write::AwaitOpen], Vec::new());
    for turn in 1..=WARM_TURNS + 1 {
        client.extend([Write::Bytes(REQUEST_BYTES), Write::AwaitRead(turn * REPLY_BYTES)]);
        server.extend([Write::AwaitRead(turn * REQUEST_BYTES), Write::Bytes(REPLY_BYTES)]);
    }
    let ends = |writes| Script { writes, reads: vec![Read::ToEnd], finish: Finish::Close };
    let mut world = world(seed, config, (ends(client), ends(server)))?;
    let end_offset = ((WARM_TURNS + 1) * REPLY_BYTES) as u32;
    let (mut first_byte, mut is_spent) = (None, false);
    world.set_hook(
        BACK,
        Box::new(move |_, seen| {
            if seen.len == 0 {
                return true;
            }
            let end = *first_byte.get_or_insert(seen.seq) + end_offset;
            let is_tail = seen.seq.lt(end) && (seen.seq + seen.len).ge(end);
            // Drop the last segment once; let its retransmission pass.
            !is_tail || core::mem::replace(&mut is_spent, true)
        }),
    );
    let asked = read_reaches(&mut world, WARM_TURNS * REPLY_BYTES)?;
    let done = read_reaches(&mut world, (WARM_TURNS + 1) * REPLY_BYTES)?;
    if world.dropped_by_hook(BACK) != 1 {
        return Err(failed(&format!(
            "{} segments were lost instead of one",
            world.dropped_by_hook(BACK)
        )));
    }
    Ok(Tail { completion: done.since(asked), ack_delay: config.ack_delay })
}

/// The result of [`window_opened`] or [`update_lost`].
#[derive(Clone, Copy, Debug)]
pub struct Resumed {
    /// The time from the reader's first read after its stop, which opens the window, until it reads
    /// a byte that was not yet in its buffer.
    pub took: Duration,
    /// The time between the last probe before the window opened and the next probe; zero if there
    /// was no next probe.
    pub probe_interval: Duration,
}

/// A bulk transfer whose reader stops. So its window is closed for five seconds, counted from the
/// time when the sender learns of it. Then the reader reads everything in its buffer at once, and
/// the window opens.
///
/// # Errors
/// The streams differ, the window never closed, or no data was sent afterwards.
pub fn window_opened(seed: u64) -> Result<Resumed, Violation> {
    let shut = learn(seed)?;
    resume(seed, shut.stop_at, shut.at + SHUT, false)
}

/// Like [`window_opened`], but the window opens at the worst moment, a millisecond after a probe
/// was answered. That probe is the first one sent five seconds or more after the window closed, and
/// its answer still shows a closed window. From then on every segment of the reader is lost until
/// the next probe is sent. So the sender learns of the open window only from the answer to its next
/// probe.
///
/// # Errors
/// The streams differ, the window never closed, or no data was sent afterwards.
pub fn update_lost(seed: u64) -> Result<Resumed, Violation> {
    let shut = learn(seed)?;
    let Some(&probe) = shut.probes.iter().find(|&&at| at >= shut.at + SHUT) else {
        return Err(failed("no probe was sent"));
    };
    let answered = probe + ONE_WAY + Duration::from_millis(1);
    resume(seed, shut.stop_at, answered, true)
}

/// What happens when in a run whose reader never resumes.
struct Shut {
    /// When the reader stops.
    stop_at: Instant,
    /// When the sender has learned that the window is closed.
    at: Instant,
    /// When the sender sent each segment from then on.
    probes: Vec<Instant>,
}

/// The times of the segments in a direction.
type Moments = Rc<RefCell<Vec<Instant>>>;

fn stopping(seed: u64, stop: Duration) -> Result<(World, Moments), Violation> {
    let writes = vec![Write::AwaitOpen, Write::Bytes(u64::MAX)];
    let reads = vec![Read::Bytes(BEFORE_STOP_BYTES), Read::Stop(stop), Read::ToEnd];
    let sender = Script { writes, reads: vec![], finish: Finish::Close };
    let reader = Script { writes: vec![], reads, finish: Finish::Close };
    let mut world = world(seed, tcp::Config::default(), (sender, reader))?;
    let sent = Moments::default();
    let seen_at = Rc::clone(&sent);
    world.set_hook(
        THERE,
        Box::new(move |at, _| {
            seen_at.borrow_mut().push(at);
            true
        }),
    );
    Ok((world, sent))
}

fn learn(seed: u64) -> Result<Shut, Violation> {
    let (mut world, sent) = stopping(seed, LATEST)?;
    let stop_at = received_reaches(&mut world, BEFORE_STOP_BYTES)?;
    let is_shut = |world: &World| world.info(0).is_some_and(|info| info.snd_wnd == 0);
    let at = world
        .run_until_that(Instant::ZERO + LATEST, is_shut)?
        .ok_or_else(|| failed("the window never closed"))?;
    sent.borrow_mut().clear();
    world.run_until(at + SHUT + Duration::from_secs(125))?;
    let probes = sent.borrow().clone();
    Ok(Shut { stop_at, at, probes })
}

fn resume(
    seed: u64,
    stop_at: Instant,
    opens_at: Instant,
    is_lost: bool,
) -> Result<Resumed, Violation> {
    let (mut world, sent) = stopping(seed, opens_at.since(stop_at))?;
    if is_lost {
        let (sent, before) = (Rc::clone(&sent), Cell::new(None));
        world.set_hook(
            BACK,
            Box::new(move |at, _| {
                if at < opens_at {
                    return true;
                }
                let so_far = sent.borrow().len();
                let at_opening = before.get().unwrap_or(so_far);
                before.set(Some(at_opening));
                so_far > at_opening
            }),
        );
    }
    let opened = received_reaches(&mut world, BEFORE_STOP_BYTES + 1)?;
    let buffered = world.received(0);
    let resumed = received_reaches(&mut world, buffered + 1)?;
    if is_lost && world.dropped_by_hook(BACK) == 0 {
        return Err(failed("the reader reported no window"));
    }
    let sent = sent.borrow();
    let last = sent.iter().rev().find(|&&at| at < opened);
    let next = sent.iter().find(|&&at| at >= opened);
    let probe_interval = match (last, next) {
        (Some(&last), Some(&next)) => next.since(last),
        _ => Duration::ZERO,
    };
    Ok(Resumed { took: resumed.since(opened), probe_interval })
}

fn world(seed: u64, config: tcp::Config, scripts: (Script, Script)) -> Result<World, Violation> {
    let mut world = two_hosts(seed);
    let path = Settings { rate_bps: Some(RATE_BPS), delay: ONE_WAY, ..Settings::default() };
    let port = PortSettings::default();
    world.join(0, (0, 1), (&port, &port), (path.clone(), path), true);
    let (hosts, network, version) = ((0, 1), 0, IpVersion::V4);
    let (config, at) = ((config, config), Instant::ZERO);
    world
        .add_flow(FlowSettings { hosts, network, version, config, scripts, at })
        .map_err(|error| failed(&format!("{error:?}")))?;
    Ok(world)
}

fn read_reaches(world: &mut World, bytes: u64) -> Result<Instant, Violation> {
    reaches(world, |world| world.end(0, false).read >= bytes)
}

fn received_reaches(world: &mut World, bytes: u64) -> Result<Instant, Violation> {
    reaches(world, |world| world.received(0) >= bytes)
}

fn reaches(world: &mut World, is_so: impl Fn(&World) -> bool) -> Result<Instant, Violation> {
    let reached = world.run_until_that(Instant::ZERO + LATEST, is_so)?;
    reached.ok_or_else(|| failed("no more data arrived"))
}

fn failed(what: &str) -> Violation {
    Violation::new("script", what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_lost_once_and_comes_all_the_same() {
        let tail = tail_loss(1).expect("one segment is lost");
        // Request, reply, and at least one round trip to detect the loss.
        assert!(tail.completion > RTT + RTT, "{tail:?}");
        assert!(tail.completion < Duration::from_secs(3), "{tail:?}");
    }

    #[test]
    fn a_window_that_opens_is_used_a_round_trip_later() {
        let resumed = window_opened(1).expect("the window opens");
        assert!(resumed.took >= RTT && resumed.took < RTT + RTT, "{resumed:?}");
    }

    #[test]
    fn a_lost_update_costs_a_probe_interval() {
        let resumed = update_lost(1).expect("the window opens");
        assert!(resumed.took > RTT + RTT && resumed.probe_interval > RTT + RTT, "{resumed:?}");
    }
}
