//! NAT mappings in the stack: which flows are refused and who gets an error, the router's own
//! sockets, and ports of the router that are removed.

use core::net::SocketAddr;

use base::{Limit, Owner};

use super::*;
use crate::tests::forward::NOW;
use crate::{ConnectError, ListenConfig, ListenError, UdpError};

const MASQUERADE: &str = "source out wan from 192.0.2.0/24 to port";

/// IPsec's ESP (50), GRE (47).
#[test]
fn hosts_share_an_outside_address_for_protocols_without_ports() {
    let mut router = router("pass in lan", MASQUERADE);
    let c = "192.0.2.10";
    let far = "198.51.100.10";
    for (port, addr) in [(0, c), (1, far)] {
        router.stack.add_neighbour(PortId(port), ip(addr), HOSTS[usize::from(port)]);
    }
    for protocol in [50, 47] {
        for (host, remote) in [(A, B), (c, far)] {
            let out = one(cross(&mut router, 0, &packets::other(protocol, host, remote)), 1);
            assert_eq!(out[12..16], [198, 51, 100, 1]);
        }
        for (host, remote) in [([192, 0, 2, 9], B), ([192, 0, 2, 10], far)] {
            let back = one(cross(&mut router, 1, &packets::other(protocol, remote, WAN)), 0);
            assert_eq!(back[16..20], host);
        }
        let before = router.drops(DropReason::NatNoPort);
        let refused = one(cross(&mut router, 0, &packets::other(protocol, c, B)), 0);
        assert_eq!((refused[20], refused[21]), (3, 1), "the error is not \"host unreachable\"");
        assert_eq!(router.drops(DropReason::NatNoPort), before + 1);
    }
}

/// RFC 5508 REQ-8, RFC 6888 REQ-11A, REQ-11B.
#[test]
fn a_source_is_told_that_nat_refuses_its_flow() {
    let mut router = router("pass in lan", &format!("{MASQUERADE} ports 2000-2000"));
    one(cross(&mut router, 0, &tcp(HERE, THERE, 1, 0, Flags::SYN)), 1);
    let refused = tcp((A, 40_001), THERE, 1, 0, Flags::SYN);
    let told = one(cross(&mut router, 0, &refused), 0);
    assert_eq!((told[9], told[20], told[21]), (1, 3, 1), "the error is not \"host unreachable\"");
    assert_eq!(ends(&told[28..]), ends(&refused), "the error quotes another packet");
    assert_eq!(&told[12..16], &[192, 0, 2, 1], "the error is from another address");
    assert_eq!(router.drops(DropReason::NatNoPort), 1);

    let mut router = super::router("pass in lan", MASQUERADE);
    router.stack.core.cx.budget.set(Limit::NatPortsPerSource, 1);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    let told = one(cross(&mut router, 0, &udp((A, 40_001), THERE)), 0);
    assert_eq!((told[9], told[20], told[21]), (1, 3, 1), "the error is not \"host unreachable\"");

    // Its table of states is full: the flow has a port, but no state.
    let mut router = super::router("pass in lan", MASQUERADE);
    router.stack.core.cx.budget.set(Limit::FilterStatesPerSource, 1);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    let told = one(cross(&mut router, 0, &udp((A, 40_001), THERE)), 0);
    assert_eq!((told[9], told[20], told[21]), (1, 3, 1), "the error is not \"host unreachable\"");
    assert_eq!(router.drops(DropReason::FilterSourceLimit), 1);
}

/// RFC 5382 section 4.3: a RST would tell the sender that the port is closed, and end the attempt
/// of an inside host to open the connection from its side.
#[test]
fn a_segment_to_a_mapping_that_does_not_let_it_in_is_never_answered() {
    let mut router = router("pass in lan\npass to self", MASQUERADE);
    let out = one(cross(&mut router, 0, &tcp(HERE, THERE, 1, 0, Flags::SYN)), 1);
    let port = u16::from_be_bytes([out[20], out[21]]);
    let stranger = tcp(("198.51.100.77", 5_000), (WAN, port), 1, 0, Flags::SYN);
    let answers: Vec<_> = cross(&mut router, 1, &stranger).into_iter().flatten().collect();
    assert_eq!(answers.len(), 0, "the router has answered");
    assert_eq!(router.drops(DropReason::NatFiltered), 1);
}

/// RFC 5508 section 7: the router would translate the header and leave the quoted packet as it is.
#[test]
fn redirects_and_source_quenches_of_inside_hosts_stay_inside() {
    for kind in [4, 5] {
        let mut router = router("pass in lan", MASQUERADE);
        let message = packets::echo(kind, A, B, 7);
        assert!(cross(&mut router, 0, &message).iter().all(Vec::is_empty), "{kind} left");
        assert_eq!(router.drops(DropReason::FilterIcmp), 1);
    }
}

fn local(addr: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(addr), port)
}

/// RFC 4787 REQ-3.
#[test]
fn nat_gives_no_flow_the_port_of_a_socket() {
    let mut router = router("pass in lan", MASQUERADE);
    let stack = &mut router.stack;
    let udp_at = |stack: &mut crate::Stack, at| stack.udp_bind(at, Owner::program());
    assert!(udp_at(stack, local(WAN, 40_000)).is_ok());
    assert!(udp_at(stack, local("0.0.0.0", 40_001)).is_ok());
    assert!(udp_at(stack, local(LAN, 40_002)).is_ok());
    assert!(stack.tcp_listen(local("0.0.0.0", 40_000), ListenConfig::default()).is_ok());
    for (port, is_kept) in [(40_000, false), (40_001, false), (40_002, true)] {
        let out = one(cross(&mut router, 0, &udp((A, port), THERE)), 1);
        assert_eq!(ends(&out)[0].1 == port, is_kept, "{port}");
    }
    let out = one(cross(&mut router, 0, &tcp(HERE, THERE, 1, 0, Flags::SYN)), 1);
    assert_ne!(ends(&out)[0].1, 40_000);
}

#[test]
fn nat_gives_no_flow_the_ends_of_a_connection() {
    let mut router = router("pass in lan", MASQUERADE);
    let to = SocketAddr::new(ip(B), 443);
    let config = ::tcp::Config::default();
    let at = Some(local(WAN, 40_000));
    let opened = router.stack.tcp_connect(to, at, &config, Owner::program(), NOW);
    assert!(opened.is_ok(), "{opened:?}");
    router.stack.flush();
    let [_, sent] = cross(&mut router, 0, &tcp(HERE, THERE, 1, 0, Flags::SYN));
    let translated = sent.last().expect("the flow's SYN, after that of the connection");
    assert_ne!(ends(translated)[0].1, 40_000);
}

#[test]
fn no_socket_is_bound_to_the_port_of_a_flow() {
    let mut router = router("pass in lan", MASQUERADE);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    one(cross(&mut router, 0, &tcp(HERE, THERE, 1, 0, Flags::SYN)), 1);
    let stack = &mut router.stack;
    for addr in [WAN, "0.0.0.0"] {
        let at = local(addr, 40_000);
        assert_eq!(stack.udp_bind(at, Owner::program()), Err(UdpError::AddressInUse));
        let listens = stack.tcp_listen(at, ListenConfig::default());
        assert_eq!(listens, Err(ListenError::AddressInUse));
    }
    let (at, config) = (Some(local(WAN, 40_000)), ::tcp::Config::default());
    let opened = stack.tcp_connect(local(B, 80), at, &config, Owner::program(), NOW);
    assert_eq!(opened, Err(ConnectError::AddressInUse));
    assert!(stack.udp_bind(local(LAN, 40_000), Owner::program()).is_ok());
    assert!(stack.udp_bind(local(WAN, 40_001), Owner::program()).is_ok());
}

#[test]
fn mappings_end_with_their_port_of_the_router() {
    let mut router = router("pass in lan", MASQUERADE);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    assert_eq!(router.stack.filter().expect("rules").mappings().len(), 1);
    assert!(router.stack.remove_port(PortId(1)).is_some());
    assert!(router.stack.filter().expect("rules").mappings().is_empty());
}

/// End the flows between an inside host and `remote`.
fn end_flows_with(router: &mut Router, remote: &str) {
    let (now, remote) = (router.stack.now(), ip(remote));
    let firewall = router.stack.filter_mut().expect("rules are set");
    firewall.kill_states(filter::states::Cursor::default(), 1_000, now, |state| {
        [state.original.src, state.original.dst].contains(&remote)
    });
}

/// RFC 4787 REQ-8.
#[test]
fn a_mapping_forgets_a_remote_host_with_its_last_flow() {
    let far = "198.51.100.10";
    let mut router = router("pass in lan\npass in wan", MASQUERADE);
    router.stack.add_neighbour(PortId(1), ip(far), HOSTS[1]);
    for to in [THERE, (far, 443)] {
        one(cross(&mut router, 0, &udp(HERE, to)), 1);
    }
    let from_another_port = udp((B, 999), (WAN, 40_000));
    one(cross(&mut router, 1, &from_another_port), 0);
    end_flows_with(&mut router, B);
    assert!(cross(&mut router, 1, &from_another_port)[0].is_empty(), "it passed without a flow");
    one(cross(&mut router, 1, &udp((far, 999), (WAN, 40_000))), 0);
}

#[test]
fn a_hairpinned_flow_uses_the_mapping_of_its_sender_alone() {
    let c = "192.0.2.10";
    let rules = "pass in lan\npass in wan";
    let mut router = router(rules, &format!("{MASQUERADE} filtering independent"));
    router.stack.add_neighbour(PortId(0), ip(c), HOSTS[0]);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    one(cross(&mut router, 0, &udp((c, 5_000), (WAN, 40_000))), 0);
    for remote in [B, c] {
        end_flows_with(&mut router, remote);
    }
    assert!(
        cross(&mut router, 1, &udp(THERE, (WAN, 40_000)))[0].is_empty(),
        "it passed without a flow"
    );
}

#[test]
fn fragments_reach_the_sockets_of_the_router_without_a_rule() {
    let mut router = router("block in wan", "");
    let handle = router.stack.udp_bind(local(WAN, 5_000), Owner::program()).expect("free");
    router.stack.udp_connect(handle, local(B, 443)).expect("there is a route");
    for piece in packets::fragments(&packets::udp(THERE, (WAN, 5_000), &[7; 2_000]), 1_000) {
        cross(&mut router, 1, &piece);
    }
    assert!(router.stack.udp_readable(handle), "the datagram was not reassembled");
}
