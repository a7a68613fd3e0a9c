//! Requirements of RFC 9293 that no other ladder covers: options, opens, PSH, keepalive.

mod recovery;

use super::seg::{NONE, rst};
use super::*;
use core::net::IpAddr;

use base::Cidr;
use wire::tcp::Flags;

use crate::ConnectError;
use crate::local::LocalAddrs;

/// Unknown options in data, in a FIN and in a RST; and an MSS option in a segment that is no SYN.
/// RFC 9293 MUST-5, MUST-6.
#[test]
fn an_option_may_come_in_any_segment() {
    let odd = [254, 4, 1, 2, 2, 4, 0, 100];
    let mut t = Setup::plain().established();
    t.send(seg().seq(1).data(1000).options(&odd));
    t.pass(45);
    t.expect(seg().ack(1001));
    assert_eq!(t.info().snd_mss, 1000, "an MSS option outside a SYN counted");
    t.send(seg().seq(1001).fin().options(&odd));
    t.expect(seg().ack(1002));
    t.state(State::CloseWait);
    let mut t = Setup::plain().established();
    t.send(rst().seq(1).options(&odd));
    t.state(State::Closed);
    assert_eq!(t.drops(DropReason::TcpOptions), 0);
}

/// RFC 9293 MUST-64.
#[test]
fn options_count_wherever_they_begin() {
    let aligned = [2, 4, 0x03, 0xe8, 1, 1, 1, 1];
    for before in 0..4 {
        let mut options = aligned;
        options.rotate_right(before);
        let mut setup = Setup::plain();
        setup.syn = syn().win(65_535).options(&options);
        let t = setup.established();
        assert_eq!(t.info().snd_mss, 1000, "{options:?}");
    }
}

/// RFC 9293 MUST-65. RFC 2018 2-a.
#[test]
fn only_a_syn_has_an_mss_option() {
    let mut t = Setup::plain().sack().ladder();
    t.connect();
    assert_eq!(t.expect(syn()).mss, Some(1460));
    t.send(syn_ack().mss(1000).sack_ok(true));
    let mut others = t.take_seen();
    t.write(1500);
    t.send(seg().seq(1001).data(100));
    t.pass(3000);
    t.shutdown();
    others.extend(t.take_seen());
    t.abort();
    others.extend(t.take_seen());
    assert!(others.len() > 5 && others.iter().any(|s| s.sacks.is_some()));
    assert!(others.iter().all(|s| s.mss.is_none() && s.sack_ok == Some(false)));
}

fn with_keepalive() -> Ladder {
    let change = |c: &mut tcp::Config| {
        c.keepalive_idle = Some(Duration::from_secs(10));
        c.keepalive_interval = Duration::from_secs(1);
        c.keepalive_probes_max = 2;
    };
    Setup::plain().tcp(change).established()
}

/// Data in flight is retransmitted, which also probes the peer. A peer that answers none of it is
/// given up by the rules for retransmissions, not by keepalive.
/// RFC 9293 MUST-26.
#[test]
fn keepalive_is_silent_while_data_is_in_flight() {
    let mut t = with_keepalive();
    t.write(10);
    t.expect(seg().seq(1).data(10));
    t.pass(60_000);
    let again = t.take_seen();
    assert!(again.len() > 5 && again.iter().all(|s| s.seq == Some(1) && s.len == 10), "{again:?}");
    t.state(State::Established);
    t.send(seg().ack(11));
    t.expect_after(10_000, seg().seq(10).ack(1));
}

/// RFC 9293 MUST-24.
#[test]
fn keepalive_is_turned_on_and_off_for_each_connection() {
    let mut t = with_keepalive();
    let handle = t.h();
    t.end.stack.tcp_configure(handle, |c| c.keepalive_idle = None).expect("open");
    t.silence(1_000_000);
    let idle = Some(Duration::from_secs(30));
    t.end.stack.tcp_configure(handle, |c| c.keepalive_idle = idle).expect("open");
    t.expect_after(30_000, seg().seq(0).ack(1));
}

/// RFC 9293 MUST-41.
#[test]
fn a_passive_open_that_fails_changes_nothing() {
    let mut t = Setup::plain().ladder();
    t.listen();
    let local = SocketAddr::new(t.end.addr, LISTEN_PORT);
    let again = t.end.stack.tcp_listen(local, ListenConfig::default());
    assert_eq!(again, Err(crate::ListenError::AddressInUse));
    t.handshake();
    t.accept();
    t.state(State::Established);
}

/// RFC 9293 MUST-42.
#[test]
fn a_port_of_a_connection_that_opens_can_be_listened_on() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    let (local, _) = t.end.stack.tcp_addresses(t.h()).expect("there");
    let listening =
        t.end.stack.tcp_listen(local, ListenConfig::default()).expect("no listener yet");
    // The SYN of another peer reaches the listener, and its connection in SYN-RECEIVED blocks no
    // other call.
    t.wire.ports.0 = PEER_PORT;
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.end.stack.tcp_unlisten(listening);
    t.end.stack.tcp_listen(local, ListenConfig::default()).expect("no listener any more");
    t.state(State::SynSent);
}

/// RFC 9293 MUST-43, MUST-44, MUST-45.
#[test]
fn a_local_address_is_chosen_or_named_and_stays() {
    let mut t = Setup::plain().ladder();
    let other = IpAddr::from([192, 0, 2, 77]);
    let port = t.end.stack.ports.get_mut(0).expect("the only one");
    port.addresses.push(inet::Address::fixed(Cidr { addr: other, prefix_len: 24 }));
    port.local = LocalAddrs::new(port.addresses.iter().map(|address| address.cidr));
    let (ours, remote) = (t.end.addr, SocketAddr::new(t.wire.addr, LISTEN_PORT));
    for (asked, wanted) in [(None, ours), (Some(other), other)] {
        let local = asked.map(|ip| SocketAddr::new(ip, 0));
        let config = t.setup.tcp;
        let opened = t.end.stack.tcp_connect(remote, local, &config, Owner::program(), t.now);
        t.handle = Some(opened.expect("routed"));
        let (local, _) = t.end.stack.tcp_addresses(t.h()).expect("there");
        assert_eq!(local.ip(), wanted);
        // From here on the checksums of the stack's segments are checked with this address.
        t.wire.ports = (LISTEN_PORT, local.port());
        t.wire.stack_addr = wanted;
        t.collect();
        t.expect(syn());
        t.send(syn_ack().mss(1000));
        t.expect(seg().ack(1));
        t.written = 0;
        t.write(100);
        t.expect(seg().seq(1).data(100));
        t.abort();
        t.expect(seg().and_rst());
    }
}

/// RFC 9293 MUST-46.
#[test]
fn an_open_to_what_is_no_host_fails() {
    let mut t = Setup::plain().ladder();
    let config = t.setup.tcp;
    for to in ["0.0.0.0", "255.255.255.255", "192.0.2.255", "224.0.0.1", "::", "ff02::1"] {
        let remote = SocketAddr::new(to.parse().expect("an address"), 80);
        let opened = t.end.stack.tcp_connect(remote, None, &config, Owner::program(), t.now);
        let refused = ConnectError::Unreachable(DropReason::TcpGroupAddress);
        assert_eq!(opened, Err(refused), "{to}");
    }
    t.collect();
    t.nothing();
    t.all_gone();
}

/// Three full segments and a small one, which is sent at once; only the small one has PSH.
/// RFC 9293 MUST-60, MUST-61, SHLD-27.
#[test]
fn what_was_written_last_is_pushed() {
    let mut t = Setup::plain().established();
    t.write(3000);
    let pushed =
        |t: &mut Ladder| -> Vec<bool> { t.take_seen().iter().map(|s| s.has(Flags::PSH)).collect() };
    assert_eq!(pushed(&mut t), [false, false, true]);
    t.write(10);
    assert_eq!(pushed(&mut t), [], "it did not wait for an ACK");
    t.send(seg().ack(3001));
    assert_eq!(pushed(&mut t), [true]);
}

/// Data, ACKs, SACKs, retransmissions and a FIN all have the timestamps option.
/// RFC 7323 3.2-a.
#[test]
fn timestamps_are_in_every_segment_once_agreed() {
    let mut t = Setup::plain().ts().sack().established();
    t.write(2500);
    t.send(seg().seq(1001).data(1000));
    t.pass(2000);
    t.send(seg().seq(1).data(1000).ack(2501));
    t.shutdown();
    t.pass(100);
    let seen = t.take_seen();
    let has = |flag: Flags| seen.iter().any(|s| s.has(flag));
    assert!(has(Flags::FIN) && seen.len() > 6 && t.info().retransmits > 0);
    assert!(seen.iter().all(|s| s.ts.is_some()), "{seen:?}");
}

/// RFC 7323 3.2-b.
#[test]
fn timestamps_that_were_not_agreed_are_ignored() {
    let mut t = Setup::plain().established();
    for (i, value) in [9000, 8000, 1, u32::MAX].into_iter().enumerate() {
        t.send(seg().seq(1 + 1000 * i as i64).data(1000).ts(value, 77));
    }
    t.pass(45);
    assert_eq!(t.info().bytes_received, 4000);
    assert_eq!(t.drops(DropReason::TcpPaws), 0);
    assert!(t.take_seen().iter().all(|s| s.ts.is_none()));
}

/// RFC 7323 3.2-f.
#[test]
fn the_echo_of_a_first_syn_is_zero() {
    let mut t = Setup::plain().ts().ladder();
    t.connect();
    let first = t.expect(syn());
    assert_eq!(first.ts.map(|(_, echo)| echo), Some(0));
}

/// An old timestamp echo, in data that acknowledges nothing and in a duplicate ACK, is ignored.
/// RFC 7323 4.1-a.
#[test]
fn an_echo_without_a_new_ack_measures_nothing() {
    let mut t = Setup::plain().ts().established();
    t.write(1000);
    t.expect(seg().data(1000));
    t.pass(10);
    let before = (t.info().srtt, t.info().rttvar);
    let (value, echo) = (wire_end::WireEnd::clock(t.now), t.wire.last_ts.wrapping_sub(500));
    t.send(seg().seq(1).data(100).ack(1).ts(value, echo));
    t.send(seg().seq(101).ack(1).ts(value, echo));
    assert_eq!((t.info().srtt, t.info().rttvar), before);
}

/// A SYN-ACK does not have an option that both ends must send if the SYN did not have it.
/// RFC 7323 2.2-a, 3.2-e. RFC 2018 2-a.
#[test]
fn a_syn_ack_offers_only_what_the_syn_did() {
    let change =
        |c: &mut tcp::Config| (c.timestamps, c.sack, c.window_scaling) = (true, true, true);
    let mut t = Setup::plain().tcp(change).ladder();
    t.listen();
    t.send(syn().mss(1000));
    t.expect(syn_ack().no_ts().sack_ok(false).ws(NONE));
}

/// The peer's window was larger before: an ACK as old as that window is acceptable.
/// RFC 5961 5.2-b.
#[test]
fn the_largest_window_ever_is_the_measure_of_an_old_ack() {
    let mut t = Setup::plain().peer_window(5000).established();
    t.send(seg().seq(1).ack(1).win(1000));
    t.send(seg().seq(1).ack(1 - 5000).data(10));
    assert_eq!(t.info().bytes_received, 10);
    t.send(seg().seq(11).ack(1 - 5001).data(10));
    assert_eq!(t.drops(DropReason::TcpAckTooOld), 1);
}

/// A path MTU probe is sent only with three segments after it, whose SACKs would report its loss.
/// RFC 4821 7.4-a.
#[test]
fn a_larger_segment_is_tried_only_with_others_behind_it() {
    let mut setup = Setup::plain().sack().rtt(20);
    setup.syn = setup.syn.mss(1460);
    let mut t = setup.tcp(|c| c.mtu_probing = tcp::MtuProbing::Always).established();
    let probe = 1460;
    let (few, enough) = (probe + 3 * 1160 - 1, probe + 3 * 1160);
    t.write(few);
    assert!(t.take_seen().iter().all(|s| s.len <= 1160));
    t.send(seg().ack(1 + few as i64));
    t.take_seen();
    t.write(enough);
    assert_eq!(t.take_seen()[0].len, probe);
    assert_eq!(t.count(Counter::PathMtuProbes), 1);
}

/// A RST in SYN-RECEIVED: for an active open it is an error; a listener is not notified.
/// RFC 9293 MUST-11.
#[test]
fn a_reset_in_syn_received_refuses_an_active_open_alone() {
    let mut t = Setup::plain().ladder();
    t.connect();
    t.expect(syn());
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.send(rst().seq(1));
    assert_eq!(t.read_result(), Err(CallError::Failed(tcp::Error::Refused)));
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().mss(1000));
    t.expect(syn_ack());
    t.send(rst().seq(1));
    t.nothing();
    assert!(t.events.is_empty());
    t.all_gone();
}
