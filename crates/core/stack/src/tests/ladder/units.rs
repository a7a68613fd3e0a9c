//! A long write is sent in units: the first unit leaves before the last one is copied.

use std::io::IoSlice;

use base::{Counter, Switch};
use device::BURST;

use super::*;

const LONG: usize = 1_000_000;

/// A connection whose window, buffer and device hold several long writes. The limit of unsent bytes
/// is the default: 64 KB, or a sixteenth of the window if that is more.
fn setup() -> Setup {
    let mut setup = Setup::plain().ws(6).tcp(|c| c.send_buffer_bytes = 4_000_000);
    setup.pair.wire.depth = 4096;
    setup.pair.wire.depth_bytes = 8_000_000;
    setup
}

/// The congestion window admits a long write.
fn opened(setup: Setup) -> Ladder {
    let mut t = setup.established();
    for _ in 0..10 {
        while t.info().cwnd < LONG as u64 && write_what_goes(&mut t, 60_000) > 0 {
            t.collect();
        }
        t.take_seen();
        let all = t.wire.stack_next;
        t.send(seg().ack(all));
    }
    let info = t.info();
    assert!(info.cwnd >= LONG as u64 && info.in_flight == 0 && info.unsent == 0);
    t.take_seen();
    t
}

/// One write call, without a flush or poll after it.
fn write_what_goes(t: &mut Ladder, len: usize) -> usize {
    let data = wire_end::stream(t.written, len);
    let taken = t.end.stack.tcp_write(t.h(), &data).unwrap_or(0);
    t.written += taken;
    taken
}

/// At most 80 KB wait unsent, so a write of 1 MB has sent everything before that while it was
/// copying: when the call returns, the device has got it in full bursts.
#[test]
fn the_first_unit_of_a_long_write_leaves_before_the_last_is_copied() {
    let mut t = opened(setup());
    let from = t.wire.stack_next;
    let sent =
        |t: &Ladder| [Counter::TxBursts, Counter::TxFrames].map(|c| t.end.stack.counters().of(c));
    let before = sent(&t);
    assert_eq!(write_what_goes(&mut t, LONG), LONG);
    let full = LONG / (1000 * BURST);
    let [bursts, frames] = [0, 1].map(|i| (sent(&t)[i] - before[i]) as usize);
    assert_eq!((bursts, frames), (full, full * BURST), "not only full bursts left");
    let seen = t.wire.receive();
    assert_eq!(seen.len(), full * BURST);
    for (i, seen) in (0i64..).zip(&seen) {
        assert!(seg().seq(from + 1000 * i).data(1000).holds_for(seen), "{seen}");
    }
}

/// Without units the whole write is copied, up to the limit of unsent bytes, before anything
/// leaves.
#[test]
fn without_units_a_long_write_is_cut_at_what_may_wait() {
    let mut t = opened(setup());
    t.end.stack.set_switch(Switch::WriteUnits, false);
    let window = t.info().cwnd.min(u64::from(t.info().snd_wnd)) as usize;
    let limit = (t.setup.tcp.unsent_limit_bytes as usize).max(window / 16);
    assert_eq!(write_what_goes(&mut t, LONG), limit);
}

/// A smaller unit makes smaller bursts: the first one leaves earlier, and the end of the last one
/// waits.
#[test]
fn a_unit_as_configured_leaves_before_the_next_is_copied() {
    for (unit, counts_as) in [(8_000, 8_000), (1, 1_024), (usize::MAX, 64 * 1024)] {
        let mut setup = setup();
        setup.pair.stack.write_unit_bytes = unit;
        let mut t = opened(setup);
        assert_eq!(t.end.stack.write_unit_bytes(), counts_as);
        let before = t.end.stack.counters().of(Counter::TcpSegmentsOut);
        assert_eq!(write_what_goes(&mut t, LONG), LONG);
        let made = t.end.stack.counters().of(Counter::TcpSegmentsOut) - before;
        let whole = counts_as.max(1_001).next_multiple_of(1_000);
        let waits = LONG - made as usize * 1_000;
        assert!(waits <= whole, "{unit}: {waits} bytes have no header yet");
    }
}

/// Nagle's algorithm is off; a short header is in another buffer, as in an RPC call.
#[test]
fn no_segment_in_the_middle_of_a_write_is_short() {
    for tso_max_bytes in [0, 65_535] {
        let mut setup = setup().tcp(|c| c.no_delay = true);
        setup.pair.wire.offloads.tso_max_bytes = tso_max_bytes;
        let mut t = opened(setup);
        let data = wire_end::stream(t.written, LONG + 300);
        let (head, rest) = data.split_at(100);
        let parts = [head, &[], rest].map(IoSlice::new);
        let h = t.h();
        assert_eq!(t.end.stack.tcp_write_vectored(h, &parts), Ok(data.len()));
        t.end.stack.flush();
        let seen = t.wire.receive();
        let short: Vec<usize> =
            (0..seen.len()).filter(|&i| !seen[i].len.is_multiple_of(1000)).collect();
        assert_eq!(short, [seen.len() - 1], "{tso_max_bytes}: a short segment before the end");
        assert_eq!(seen.iter().map(|seen| seen.len).sum::<usize>(), data.len());
    }
}

/// A write that the connection took only in part, and that the program does not continue: an ACK
/// releases its end.
#[test]
fn a_write_given_up_in_the_middle_is_sent_to_its_end() {
    let unit = crate::StackConfig::WRITE_UNIT_BYTES;
    let mut t = setup()
        .tcp(|c| {
            c.no_delay = true;
            c.send_buffer_bytes = unit as u32;
            c.send_buffer_max_bytes = unit as u32;
        })
        .established();
    while t.info().cwnd < unit as u64 + 1000 || t.info().in_flight > 0 || t.info().unsent > 0 {
        if t.info().cwnd < unit as u64 + 1000 {
            write_what_goes(&mut t, unit);
        }
        t.collect();
        t.take_seen();
        let all = t.wire.stack_next;
        t.send(seg().ack(all));
    }
    let at = t.wire.stack_next;
    assert_eq!(write_what_goes(&mut t, LONG), unit);
    t.end.stack.flush();
    t.collect();
    let seen = t.take_seen();
    assert!(seen.iter().all(|seen| seen.len == 1000), "the short end did not wait");
    t.send(seg().ack(at + 1000));
    t.nothing();
    t.send(seg().ack(at + (unit / 1000 * 1000) as i64));
    let seen = t.take_seen();
    assert_eq!(seen.iter().map(|seen| seen.len).collect::<Vec<_>>(), [unit % 1000]);
}
