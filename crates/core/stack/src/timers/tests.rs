use super::*;
use base::Duration;
use slotmap::SlotMap;

/// The wheel is compared with a plain sorted list: every entry fires once, never early, and at most
/// a tick late.
#[test]
fn wheel_equals_a_sorted_list() {
    let mut keys: SlotMap<TcpHandle, u64> = SlotMap::with_key();
    let mut wheel = Wheel::default();
    let mut now = Instant::from_nanos(5);
    let mut seed = 1u64;
    let mut pending = 0;
    for round in 0..3000u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let span = 1u64 << (10 + (seed >> 58) % 36);
        let deadline = now + Duration::from_nanos((seed >> 20) % span);
        let handle = keys.insert(deadline.as_nanos());
        wheel.insert(handle, deadline, now);
        pending += 1;
        now = match round % 3 {
            0 => now + Duration::from_nanos((seed >> 30) % (1 << 27)),
            1 if wheel.next_deadline() != Instant::NEVER => now.max(wheel.next_deadline()),
            _ => now,
        };
        let mut due = Vec::new();
        wheel.advance(now, &mut due);
        for handle in due {
            let deadline = keys.remove(handle).expect("handed out once");
            assert!(deadline <= now.as_nanos(), "a timer fired early");
            pending -= 1;
        }
        let late = keys.values().filter(|&&d| d + (2 << TICK_SHIFT) < now.as_nanos()).count();
        assert_eq!(late, 0);
        assert_eq!(wheel.entries, pending);
        if let Some(&first) = keys.values().min() {
            assert!(wheel.next_deadline().as_nanos() <= first + (2 << TICK_SHIFT));
        }
    }
}

/// The clock may begin anywhere: on a machine that has been up for a year the wheel must not count
/// all the ticks since.
#[test]
fn an_empty_wheel_is_turned_to_now_in_one_step() {
    let mut keys: SlotMap<TcpHandle, ()> = SlotMap::with_key();
    let mut wheel = Wheel::default();
    let now = Instant::from_nanos(365 * 24 * 3_600 * 1_000_000_000);
    wheel.insert(keys.insert(()), now + Duration::from_millis(40), now);
    assert_eq!(wheel.tick, now.as_nanos() >> TICK_SHIFT);
    let mut due = Vec::new();
    wheel.advance(now + Duration::from_millis(20), &mut due);
    assert!(due.is_empty());
    wheel.advance(now + Duration::from_millis(42), &mut due);
    assert_eq!(due.len(), 1);
}

/// One timer is days away, and the wheel is not looked at before: it advances by steps, which are
/// wraps of a level, not ticks.
#[test]
fn a_far_deadline_is_reached_in_few_steps() {
    for hours in [1, 30, 24 * 9] {
        let mut keys: SlotMap<TcpHandle, ()> = SlotMap::with_key();
        let mut wheel = Wheel::default();
        let start = Instant::from_nanos(77 << TICK_SHIFT);
        let deadline = start + Duration::from_secs(3_600 * hours);
        wheel.insert(keys.insert(()), deadline, start);
        let (mut steps, last) = (0, deadline.as_nanos() >> TICK_SHIFT);
        while wheel.tick + 1 < last && wheel.on_level[0] == 0 {
            wheel.tick = wheel.next_turn().min(last);
            if wheel.tick & (SLOTS as u64 - 1) == 0 {
                wheel.cascade();
            }
            steps += 1;
        }
        assert!(steps <= LEVELS * SLOTS, "{hours} hours: {steps} steps");
        let mut due = Vec::new();
        wheel.advance(deadline + Duration::from_millis(2), &mut due);
        assert_eq!(due.len(), 1, "{hours} hours");
        assert_eq!((wheel.entries, wheel.on_level), (0, [0; LEVELS]));
    }
}
