//! The model against arithmetic: when each packet arrives, and which ones do.

use base::{Duration, Instant};
use mbuf::{Mbuf, Pool};

use crate::{Aqm, Direction, Loss, Outage, Settings};

const HEADER: usize = 14;

fn packet(pool: &mut Pool, bytes: usize, number: u32) -> Mbuf {
    let mut data = vec![0; HEADER + bytes];
    data[HEADER..HEADER + 4].copy_from_slice(&number.to_be_bytes());
    pool.copy_of(&data).expect("the pool is large")
}

fn number(frame: &Mbuf) -> u32 {
    let bytes = frame.as_slice();
    u32::from_be_bytes([bytes[HEADER], bytes[HEADER + 1], bytes[HEADER + 2], bytes[HEADER + 3]])
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::ZERO + ms(n)
}

/// 12 Mb/s: a packet of 1,500 bytes takes 1 ms.
fn line() -> Settings {
    Settings { rate_bps: Some(12_000_000), delay: ms(10), ..Settings::default() }
}

/// All arrivals of a direction that is polled only at the times of `next_event`.
fn drain(direction: &mut Direction, pool: &mut Pool) -> Vec<(u32, Instant)> {
    let mut arrived = Vec::new();
    loop {
        let next = direction.next_event();
        if next == Instant::NEVER {
            return arrived;
        }
        while let Some((frame, at)) = direction.receive(next, pool) {
            arrived.push((number(&frame), at));
            pool.free(frame);
        }
    }
}

fn send_all(settings: Settings, count: u32) -> (Direction, Vec<(u32, Instant)>) {
    let mut pool = Pool::new(1 << 28);
    let mut direction = Direction::new(settings, 7);
    for n in 0..count {
        direction.send(packet(&mut pool, 1500, n), at(0), &mut pool);
    }
    let arrived = drain(&mut direction, &mut pool);
    drop(direction.next_lost());
    assert_eq!(pool.outstanding(), 0, "a packet was not freed");
    (direction, arrived)
}

#[test]
fn packets_arrive_one_transmission_apart_and_a_delay_later() {
    let (_, arrived) = send_all(line(), 3);
    assert_eq!(arrived, [(0, at(11)), (1, at(12)), (2, at(13))]);
}

#[test]
fn rounding_does_not_add_up() {
    // 7 Mb/s: 1,714,285.7 ns per packet; 700 packets take exactly 1.2 s.
    let settings = Settings { rate_bps: Some(7_000_000), queue_bytes: 2_000_000, ..line() };
    let (_, arrived) = send_all(settings, 700);
    assert_eq!(arrived.last(), Some(&(699, at(1210))));
}

#[test]
fn it_does_not_matter_when_somebody_looks() {
    let settings = Settings {
        loss: Loss::Random(0.2),
        late: 0.1,
        late_by: ms(4),
        jitter: ms(2),
        aqm: Aqm::CoDel { target: ms(5), interval: ms(20), ecn: false },
        ..line()
    };
    let run = |looks: &[u64]| {
        let mut pool = Pool::new(1 << 28);
        let mut direction = Direction::new(settings.clone(), 3);
        let mut arrived = Vec::new();
        for n in 0..200 {
            direction.send(packet(&mut pool, 1500, n), at(u64::from(n) / 2), &mut pool);
            if looks.contains(&u64::from(n)) {
                while let Some((frame, when)) = direction.receive(at(u64::from(n) / 2), &mut pool) {
                    arrived.push((number(&frame), when));
                }
            }
        }
        arrived.extend(drain(&mut direction, &mut pool));
        arrived
    };
    let all: Vec<u64> = (0..200).collect();
    assert_eq!(run(&[]), run(&all));
}

#[test]
fn a_full_queue_drops_the_newcomer() {
    // One packet in transmission, two in the queue.
    let (direction, arrived) = send_all(Settings { queue_bytes: 3000, ..line() }, 6);
    let numbers: Vec<u32> = arrived.iter().map(|a| a.0).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(direction.counts().queue_full, 3);
    assert_eq!(direction.counts().queue_bytes_max, 3000);
}

#[test]
fn late_packets_are_overtaken_and_none_is_lost() {
    let settings = Settings { late: 0.1, late_by: ms(5), ..line() };
    let (direction, arrived) = send_all(settings, 500);
    assert_eq!(arrived.len(), 500);
    let late = direction.counts().late;
    assert!((25..80).contains(&late), "{late} of 500 packets were late");
    for (n, when) in &arrived {
        let due = at(11 + u64::from(*n));
        assert!(*when == due || *when == due + ms(5), "{n} at {when:?}");
    }
    assert!(arrived.windows(2).all(|w| w[0].1 <= w[1].1), "in order of time");
}

#[test]
fn random_loss_takes_its_share() {
    let settings = Settings { loss: Loss::Random(0.1), queue_bytes: 1 << 26, ..line() };
    let (direction, arrived) = send_all(settings, 10_000);
    assert_eq!(arrived.len() as u64 + direction.counts().lost, 10_000);
    assert!((900..1100).contains(&direction.counts().lost), "{}", direction.counts().lost);
}

#[test]
fn bursts_of_loss_are_as_long_as_asked() {
    let loss = Loss::Burst { begin: 0.01, end: 0.2, good: 0.0, bad: 1.0 };
    let settings = Settings { loss, queue_bytes: 1 << 26, ..line() };
    let (direction, arrived) = send_all(settings, 20_000);
    let gaps = arrived.windows(2).filter(|w| w[1].0 != w[0].0 + 1).count() as f64;
    let mean = direction.counts().lost as f64 / gaps;
    assert!((4.0..6.0).contains(&mean), "the mean burst has {mean} packets, not about 5");
}

#[test]
fn what_is_exempt_is_never_impaired() {
    let settings = Settings {
        loss: Loss::Random(1.0),
        corrupt: 1.0,
        duplicate: 1.0,
        exempt_bytes: 100,
        ..line()
    };
    let mut pool = Pool::new(1 << 20);
    let mut direction = Direction::new(settings, 1);
    direction.send(packet(&mut pool, 100, 1), at(0), &mut pool);
    direction.send(packet(&mut pool, 101, 2), at(0), &mut pool);
    let arrived = drain(&mut direction, &mut pool);
    assert_eq!(arrived.iter().map(|a| a.0).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_flipped_bit_is_one_bit_of_a_copy() {
    let mut pool = Pool::new(1 << 20);
    let mut direction = Direction::new(Settings { corrupt: 1.0, ..line() }, 1);
    let sent = packet(&mut pool, 1000, 1);
    let before = sent.as_slice().to_vec();
    direction.send(sent, at(0), &mut pool);
    let (frame, _) = direction.receive(at(100), &mut pool).expect("the packet arrives");
    let differing: u32 =
        before.iter().zip(frame.as_slice()).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(differing, 1);
    assert_eq!(before[..HEADER], frame.as_slice()[..HEADER]);
    assert_eq!(frame.mark(), crate::CORRUPTED);
}

#[test]
fn duplicates_come_right_behind() {
    let (direction, arrived) = send_all(Settings { duplicate: 1.0, ..line() }, 2);
    assert_eq!(arrived, [(0, at(11)), (0, at(11)), (1, at(12)), (1, at(12))]);
    assert_eq!(direction.counts().duplicated, 2);
}

#[test]
fn nothing_passes_while_the_path_is_cut() {
    let outages = vec![Outage { from: at(2), until: at(4) }];
    // Transmissions end at 1, 2, 3, 4, 5 ms: those at 2 and 3 are lost.
    let (direction, arrived) = send_all(Settings { outages, ..line() }, 5);
    assert_eq!(arrived.iter().map(|a| a.0).collect::<Vec<_>>(), [0, 3, 4]);
    assert_eq!(direction.counts().cut, 2);
}

#[test]
fn codel_keeps_a_standing_queue_short() {
    // Packets come at 120 % of the rate, for 20 s.
    let aqm = Aqm::CoDel { target: ms(5), interval: ms(100), ecn: false };
    let delays = |aqm| {
        let mut pool = Pool::new(1 << 28);
        let mut direction = Direction::new(Settings { aqm, queue_bytes: 1 << 24, ..line() }, 1);
        let mut sojourns = Vec::new();
        for n in 0..24_000u32 {
            let now = Instant::from_nanos(u64::from(n) * 833_333);
            direction.send(packet(&mut pool, 1500, n), now, &mut pool);
            while let Some((frame, when)) = direction.receive(now, &mut pool) {
                let sent = Instant::from_nanos(u64::from(number(&frame)) * 833_333);
                sojourns.push(when.since(sent).as_micros());
                pool.free(frame);
            }
        }
        sojourns[sojourns.len() * 3 / 4..].iter().max().copied().unwrap_or(0)
    };
    let (with, without) = (delays(aqm), delays(Aqm::None));
    assert!(without > 2_000_000, "without CoDel the delay is only {without} us");
    assert!(with < 400_000, "with CoDel the delay is {with} us");
}

#[test]
fn settings_for_other_frames_do_not_miscount_those_that_wait() {
    let mut pool = Pool::new(1 << 20);
    let mut direction = Direction::new(line(), 1);
    for n in 0..3 {
        direction.send(packet(&mut pool, 1500, n), at(0), &mut pool);
    }
    let other = Settings { link: base::LinkKind::Ip, ..line() };
    direction.set_settings(other, at(0), &mut pool);
    let arrived = drain(&mut direction, &mut pool);
    assert_eq!(arrived, [(0, at(11)), (1, at(12)), (2, at(13))]);
}

/// The order and the times of arrivals must not depend on how often the caller polls.
#[test]
fn who_looks_more_often_sees_the_same() {
    let settings = Settings { jitter: ms(30), late: 0.3, late_by: ms(8), ..line() };
    let run = |every: u64| {
        let mut pool = Pool::new(1 << 22);
        let mut direction = Direction::new(settings.clone(), 3);
        for n in 0..300 {
            direction.send(packet(&mut pool, 1500, n), at(0), &mut pool);
        }
        let mut arrived = Vec::new();
        for look in 0..=1_000 / every {
            while let Some((frame, when)) = direction.receive(at(look * every), &mut pool) {
                arrived.push((number(&frame), when));
                pool.free(frame);
            }
        }
        arrived
    };
    let often = run(1);
    assert_eq!(often.len(), 300);
    assert!(often.is_sorted_by_key(|&(_, when)| when));
    for every in [7, 40, 1_000] {
        assert_eq!(run(every), often, "a look every {every} ms");
    }
}

#[test]
fn the_largest_settings_overflow_nothing() {
    let jitter = Settings { jitter: Duration::MAX, ..line() };
    let (direction, _) = send_all(jitter, 3);
    assert_eq!(direction.counts().sent, 3);
    // The whole time of each packet is left over as a remainder: 40,000 of them exceed 64 bits.
    let fast = Settings { rate_bps: Some(u64::MAX), queue_bytes: usize::MAX, ..line() };
    let mut pool = Pool::new(1 << 20);
    let mut direction = Direction::new(fast, 1);
    for n in 0..40_000 {
        let frame = pool.copy_of(&vec![0; 65_000]).expect("the last packet's buffer was freed");
        direction.send(frame, at(0), &mut pool);
        let (frame, _) =
            direction.receive(at(10 + n), &mut pool).expect("the packet arrives at once");
        pool.free(frame);
    }
}
