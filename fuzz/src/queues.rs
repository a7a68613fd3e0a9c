//! The timer wheel and the release queue against plain lists: everything comes out once, in order,
//! neither early nor much too late.
//!
//! Called by: the targets `wheel` and `release`, through `stack::internals`.

use arbitrary::{Result, Unstructured};
use base::Instant;
use mbuf::{Flags, Pool};
use stack::internals::{Release, Wheel};

/// Steps of a script.
const STEPS_MAX: usize = 300;
/// A tick of the wheel; timers may come late by two of them.
const TICK_NS: u64 = 1 << 20;

/// A span of any scale below 2^`bits` ns.
fn span(u: &mut Unstructured<'_>, bits: u32) -> Result<u64> {
    let shift = u32::from(u.arbitrary::<u8>()?) % (bits - 1);
    Ok((u64::from(u.arbitrary::<u16>()?) << shift) >> 15)
}

/// Any deadlines, any times.
pub fn wheel(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let mut wheel = Wheel::default();
    let mut now = u.arbitrary::<u64>().unwrap_or(0) >> 8;
    let mut waiting: Vec<u64> = Vec::new();
    let mut live = 0;
    for _ in 0..STEPS_MAX {
        if u.is_empty() {
            break;
        }
        let Ok(what) = u.arbitrary::<u8>() else { break };
        // The wheel has four levels, eleven days; but its driver looks at it four times a second:
        // hours in one step would only be millions of ticks.
        let bits = if what & 3 < 2 { 51 } else { 37 };
        let Ok(by) = span(&mut u, bits) else { break };
        let at = |ns| Instant::from_nanos(ns);
        match what & 3 {
            0 | 1 => {
                let deadline = now + by;
                wheel.insert(waiting.len() as u32, at(deadline), at(now));
                waiting.push(deadline);
                live += 1;
                continue;
            }
            2 => now += by,
            _ if wheel.next_deadline() != Instant::NEVER => {
                now = now.max(wheel.next_deadline().as_nanos());
            }
            _ => {}
        }
        live -= due(&mut wheel, &mut waiting, now);
        let first = waiting.iter().filter(|&&d| d != u64::MAX).min();
        if let Some(&first) = first {
            assert!(wheel.next_deadline().as_nanos() <= first + 2 * TICK_NS, "it wakes too late");
        }
    }
    // Step by step to the end: as many looks as slots that have something, and turns.
    for _ in 0..2_000 {
        if wheel.next_deadline() == Instant::NEVER {
            break;
        }
        now = now.max(wheel.next_deadline().as_nanos());
        live -= due(&mut wheel, &mut waiting, now);
    }
    let far = waiting.iter().any(|&d| d != u64::MAX && d > now + 2 * TICK_NS);
    assert!(live == 0 || far, "{live} never came");
}

/// Take the timers that are due, each once and not early; taken ones are marked.
fn due(wheel: &mut Wheel, waiting: &mut [u64], now: u64) -> usize {
    let due = wheel.advance(Instant::from_nanos(now));
    for &number in &due {
        let deadline = core::mem::replace(&mut waiting[number as usize], u64::MAX);
        assert!(deadline != u64::MAX, "handed out twice");
        assert!(deadline <= now, "{} ns early", deadline - now);
    }
    let late = waiting.iter().find(|&&d| d != u64::MAX && d + 2 * TICK_NS < now);
    assert_eq!(late, None, "it is {now} and a deadline has passed");
    due.len()
}

/// Any departures, any ports, ports that go.
pub fn release(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let mut pool = Pool::new(8 << 20);
    let mut queue = Release::default();
    let mut model: Vec<(u64, u32, u16)> = Vec::new();
    let (mut now, mut number) = (0u64, 0u32);
    for _ in 0..STEPS_MAX {
        if u.is_empty() {
            break;
        }
        let (Ok(what), Ok(by)) = (u.arbitrary::<u8>(), span(&mut u, 40)) else { break };
        let port = u16::from(what >> 6);
        match what & 3 {
            0 | 1 => {
                let Some(mut frame) = pool.copy_of(&number.to_be_bytes()) else { break };
                frame.set_time(Instant::from_nanos(now + by));
                frame.set(Flags::PACED);
                queue.push(port, frame);
                model.push((now + by, number, port));
                number += 1;
            }
            2 => now += by,
            _ if what & 0x3c == 0 => {
                let before = model.len();
                model.retain(|&(.., p)| p != port);
                let gone = queue.forget_port(port, &mut pool);
                assert_eq!(gone as usize, before - model.len());
            }
            _ => pop_all(&mut queue, &mut model, now, &mut pool),
        }
        let first = model.iter().min().map_or(u64::MAX, |&(at, ..)| at);
        assert_eq!(queue.next_departure().as_nanos(), first);
    }
    pop_all(&mut queue, &mut model, u64::MAX, &mut pool);
    assert!(model.is_empty());
    drop(queue);
    assert_eq!(pool.outstanding(), 0);
}

fn pop_all(queue: &mut Release, model: &mut Vec<(u64, u32, u16)>, now: u64, pool: &mut Pool) {
    model.sort_unstable();
    let due = model.partition_point(|&(at, ..)| at <= now);
    for (_, number, port) in model.drain(..due) {
        let (from, frame) = queue.pop(Instant::from_nanos(now)).expect("one is due");
        assert_eq!((from, frame.as_slice()), (port, &number.to_be_bytes()[..]));
        pool.free(frame);
    }
    assert!(queue.pop(Instant::from_nanos(now)).is_none(), "one more than is due");
}
