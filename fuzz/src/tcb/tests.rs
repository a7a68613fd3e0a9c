//! The bench itself: scripts that must get somewhere, and laws that must notice.

use super::*;

fn start() -> Start {
    Start {
        config: Config::default(),
        opening: opening(),
        switches: Switches::default(),
        pool_bytes: 1 << 24,
        predict: true,
        now: Instant::from_nanos(5_000_000_000),
    }
}

fn segment(bench: &Bench, flags: Flags, len: u32) -> Segment {
    Segment {
        seq: bench.tcb.rcv_nxt,
        ack: bench.tcb.snd_nxt,
        len,
        window: 0xffff,
        urgent: 0,
        flags,
        ce: false,
        timestamps: None,
    }
}

fn open() -> Bench {
    let mut bench = Bench::connect(&start());
    bench.visit();
    let seg = Segment { seq: SeqNumber(99), ..segment(&bench, Flags::SYN | Flags::ACK, 0) };
    bench.segment(&seg, &Options::default());
    bench.visit();
    assert_eq!(bench.tcb.state, State::Established);
    bench
}

#[test]
fn both_streams_are_compared_and_the_end_leaves_nothing() {
    let mut bench = open();
    bench.write(10_000, 0);
    bench.visit();
    let seg = segment(&bench, Flags::ACK, 3_000);
    bench.segment(&seg, &Options::default());
    let early = Segment { seq: bench.tcb.rcv_nxt + 500, ..segment(&bench, Flags::ACK, 500) };
    bench.segment(&early, &Options::default());
    let fill = segment(&bench, Flags::ACK, 700);
    bench.segment(&fill, &Options::default());
    bench.read(100_000);
    assert_eq!((bench.read, bench.written), (4_000, 10_000));
    bench.check();
    assert!(bench.finish().rows.len() > 5);
}

#[test]
#[should_panic(expected = "of the peer's stream")]
fn a_byte_at_the_wrong_place_is_noticed() {
    let mut bench = open();
    let seg = segment(&bench, Flags::ACK, 10);
    bench.segment(&seg, &Options::default());
    bench.read += 1;
    bench.read(10);
}

#[test]
#[should_panic(expected = "nobody gave back")]
fn a_buffer_that_is_lost_is_noticed() {
    let mut bench = open();
    let m = bench.cx.pool.alloc(100).expect("memory");
    std::mem::forget(m);
    bench.finish();
}

#[test]
#[should_panic(expected = "the edge falls back")]
fn a_window_that_is_taken_back_is_noticed() {
    let mut bench = open();
    bench.write(100, 0);
    bench.visit();
    bench.laws = {
        let mut laws = Laws::new(&opening(), &Config::default());
        let ahead = Header {
            src_port: 80,
            dst_port: 4_000,
            seq: bench.tcb.snd_nxt,
            ack: bench.tcb.rcv_adv + 100_000,
            header_len: 20,
            flags: Flags::ACK,
            window: 0xffff,
            urgent: 0,
        };
        laws.edges(&bench.tcb, &ahead, &Options::default());
        laws
    };
    let seg = segment(&bench, Flags::ACK, 3_000);
    bench.segment(&seg, &Options::default());
    bench.visit();
}

/// A buffer made smaller in SYN-RECEIVED: the SYN-ACK that goes again offers what the first did.
#[test]
fn a_syn_ack_sent_again_takes_back_nothing() {
    let mut bench = Bench::connect(&start());
    bench.visit();
    let syn = Segment { seq: SeqNumber(99), ..segment(&bench, Flags::SYN, 0) };
    bench.segment(&syn, &Options::default());
    bench.visit();
    assert_eq!(bench.tcb.state, State::SynReceived);
    // Far beyond the window: its ACK says what is offered.
    let far = Segment { seq: bench.tcb.rcv_nxt + 1_000_000, ..segment(&bench, Flags::ACK, 10) };
    bench.segment(&far, &Options::default());
    bench.visit();
    usrreq::configure(&mut bench.tcb, |c| c.set_fixed_buffers(4_096, 4_096), &mut bench.cx);
    bench.wait_for_deadline();
    bench.visit();
    assert_eq!(bench.tcb.info().retransmits, 1, "it went again, and the law of edges looked");
}

/// The MSS falls while the device still has the segment, and no buffer is left that a piece could
/// be cut with, only one to copy to: nothing is sent that is larger than a segment.
#[test]
fn a_piece_that_cannot_be_cut_is_not_sent_again_whole() {
    let mut bench = open();
    let before = bench.held.len();
    bench.write(536, 0);
    bench.visit();
    assert_eq!(bench.held.len(), before + 1, "one segment of data");
    let now = bench.cx.now;
    assert!(tcp::path::too_big(&mut bench.tcb, Mss(500), now));
    let spare: Vec<Mbuf> = (0..8).map(|_| bench.cx.pool.alloc(1_500).expect("memory")).collect();
    let mut of = bench.cx.pool.alloc(1_500).expect("memory");
    while let Some(share) = bench.cx.pool.share(&mut of) {
        bench.withheld.push(share);
        if bench.withheld.len().is_multiple_of(60_000) {
            bench.withheld.push(of);
            of = bench.cx.pool.alloc(1_500).expect("memory");
        }
    }
    bench.withheld.push(of);
    spare.into_iter().skip(4).for_each(|m| bench.cx.pool.free(m));
    // The law of sizes looks at what is sent.
    bench.visit();
    bench.wait_for_deadline();
    bench.visit();
    bench.exhaust(false);
    bench.wait_for_deadline();
    bench.visit();
    assert!(bench.tcb.info().retransmits > 0, "it goes again when there are buffers");
}

/// Without SACK, duplicate ACKs stand for segments that nobody can name. When the path's MTU falls,
/// all data in flight is lost: none of it may count as arrived, too.
#[test]
fn duplicate_acks_do_not_stand_for_what_is_lost() {
    let mut bench = open();
    bench.write(5_000, 0);
    bench.visit();
    let again = segment(&bench, Flags::ACK, 0);
    for _ in 0..2 {
        bench.segment(&Segment { ack: bench.tcb.snd_una, ..again }, &Options::default());
    }
    assert!(bench.tcb.info().sacked_bytes > 0, "they were counted");
    let now = bench.cx.now;
    assert!(tcp::path::too_big(&mut bench.tcb, Mss(500), now));
    bench.check();
}
