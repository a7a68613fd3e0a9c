//! The bench itself: packets of a real peer get through, and a leak is noticed.

use base::Counter;

use super::*;

#[test]
fn an_empty_script_leaves_nothing() {
    any_frame(&[]);
    any_handshake(&[1]);
    any_neighbour(&[]);
    any_packet_to_forward(&[]);
}

#[test]
fn a_recorded_talk_is_repeated_to_its_end() {
    let talks = crate::seeds::all().into_iter().filter(|seed| seed.1.starts_with("talk-"));
    for (_, name, script) in talks.filter(|seed| seed.0 == "stack") {
        let counters = script::play(&script, script::bench, script::step);
        assert_eq!(counters.of(Counter::TcpAccepts), 1, "{name}");
        assert!(counters.of(Counter::TcpPredicted) > 0, "{name}");
        assert!(counters.of(Counter::IcmpEchoReplies) == 1, "{name}");
    }
}

#[test]
#[should_panic(expected = "nobody gave back")]
fn a_buffer_that_is_lost_is_noticed() {
    let mut bench = Bench::new(false);
    let m = bench.stack.pool().alloc(100).expect("memory");
    std::mem::forget(m);
    bench.finish();
}

#[test]
#[should_panic(expected = "a wrong checksum")]
fn a_frame_with_a_wrong_checksum_is_noticed() {
    let mut bench = Bench::new(false);
    let mut packet = craft::packet(
        second_address(),
        second_address(),
        wire::protocol::UDP,
        &[0, 1, 0, 2, 0, 8, 0, 0],
    );
    *packet.last_mut().expect("a packet") ^= 1;
    bench.look_at(1, &packet);
}

#[test]
fn a_router_configures_the_port() {
    let bench = script::run(&near::whole_configuration(), |_| near::bench(), near::step);
    assert!(near::is_configured(&bench));
    bench.finish();
}

#[test]
fn packets_cross_the_router() {
    let bench = script::run(&router::whole_crossing(), |_| router::bench(), router::step);
    assert_eq!(router::crossed(&bench), 4);
    bench.finish();
}
