//! The port mapper: its table, which callers may change it, and which calls it does not answer.

use core::net::SocketAddr;

use base::KeyedHash;

use crate::auth::OpaqueAuth;
use crate::message::{Call, Outcome, Reply};
use crate::portmap::{
    DATAGRAMS, EntryList, LOCAL as LOCAL_ID, Mapping, MappingList, PROGRAM, PortMapper, Rpcb,
    RpcbList, STREAMS, Statistics, TCP, UDP, procedure, socket_address, universal_address,
};
use crate::server::{Incoming, Server, Transport};
use crate::xdr::{Bytes, Decode, Decoder, Encode};

const LOCAL: &str = "127.0.0.1:40000";
const ROOT: &str = "127.0.0.1:700";
const REMOTE: &str = "192.0.2.7:700";

fn mapper() -> Server {
    let mut server = Server::new(KeyedHash::new(1, 2));
    server.add(PortMapper::new(&["udp", "tcp", "udp6", "tcp6"], || 1_000));
    server
}

fn ask<R: for<'a> Decode<'a>>(
    server: &mut Server,
    from: &str,
    transport: Transport,
    (version, procedure): (u32, u32),
    args: &impl Encode,
) -> Option<R> {
    let from: SocketAddr = from.parse().expect("an address");
    let (mut bytes, mut message, mut out) = (Vec::new(), Vec::new(), Vec::new());
    args.encode(&mut bytes);
    let (credential, verifier, args) = (OpaqueAuth::NONE, OpaqueAuth::NONE, bytes.as_slice());
    Call { xid: 1, program: PROGRAM, version, procedure, credential, verifier, args }
        .encode(&mut message);
    let (more, reply_max, room) = (&[][..], 65_507, 65_507);
    let incoming = Incoming { bytes: &message, more, from, transport, reply_max, room };
    if !server.answer(&incoming, &mut out) {
        return None;
    }
    match Reply::parse(&out).expect("a reply").outcome {
        Outcome::Success(results) => Some(Decoder::whole(results).expect("results")),
        _ => None,
    }
}

fn mapping(port: u32) -> Mapping {
    Mapping { program: 400_001, version: 1, protocol: UDP, port }
}

#[test]
fn universal_addresses_are_read_and_written() {
    for text in ["192.0.2.1.0.111", "::.3.5", "2001:db8::1.255.255"] {
        assert_eq!(socket_address(text).map(universal_address).as_deref(), Some(text));
    }
    for text in ["", "1", "1.2.3.4", "192.0.2.1.256.1", "x.1.1", "192.0.2.1.0.-1", "/run/sock"] {
        assert_eq!(socket_address(text), None, "{text}");
    }
}

#[test]
fn it_has_itself_in_its_table_in_all_versions() {
    let mut server = mapper();
    let list: MappingList =
        ask(&mut server, REMOTE, Transport::Stream, (2, procedure::DUMP), &()).expect("a list");
    assert_eq!(list.0.len(), 6);
    let list: RpcbList =
        ask(&mut server, REMOTE, Transport::Stream, (4, procedure::DUMP), &()).expect("a list");
    assert_eq!(list.0.len(), 10);
    assert!(list.0.iter().all(|m| m.program == PROGRAM && m.owner == "superuser"));
    let get = Mapping { program: PROGRAM, version: 2, protocol: TCP, port: 0 };
    let datagram = Transport::Datagram;
    assert_eq!(ask(&mut server, REMOTE, datagram, (2, procedure::GET), &get), Some(111_u32));
    assert_eq!(ask(&mut server, REMOTE, datagram, (3, procedure::GETTIME), &()), Some(1_000_u32));
}

// RFC 1833 3.2-a: GETPORT of a program that is not registered returns 0.
#[test]
fn what_is_set_is_found_until_it_is_removed() {
    let (mut server, t) = (mapper(), Transport::Datagram);
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::GET), &mapping(0)), Some(0_u32));
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::SET), &mapping(2_049)), Some(true));
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::SET), &mapping(2_050)), Some(false));
    assert_eq!(ask(&mut server, REMOTE, t, (2, procedure::GET), &mapping(0)), Some(2_049_u32));
    let (netid, address) = ("udp".to_owned(), "192.0.2.9.0.111".to_owned());
    let rpcb = Rpcb { program: 400_001, version: 1, netid, address, owner: String::new() };
    let found = ask(&mut server, REMOTE, t, (3, procedure::GET), &rpcb);
    assert_eq!(
        found,
        Some("192.0.2.9.8.1".to_owned()),
        "the address is not the one at which the caller reached this host"
    );
    let other = Rpcb { version: 2, ..rpcb.clone() };
    let exact = ask(&mut server, REMOTE, t, (4, procedure::GETVERSADDR), &other);
    assert_eq!(exact, Some(String::new()));
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::UNSET), &mapping(0)), Some(true));
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::UNSET), &mapping(0)), Some(false));
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::GET), &mapping(0)), Some(0_u32));
}

#[test]
fn others_change_nothing_and_roots_mappings_are_roots() {
    let (mut server, t) = (mapper(), Transport::Stream);
    assert_eq!(ask(&mut server, REMOTE, t, (2, procedure::SET), &mapping(2_049)), Some(false));
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::SET), &mapping(700)), Some(false));
    assert_eq!(ask(&mut server, ROOT, t, (2, procedure::SET), &mapping(700)), Some(true));
    assert_eq!(ask(&mut server, REMOTE, t, (2, procedure::UNSET), &mapping(0)), Some(false));
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::UNSET), &mapping(0)), Some(false));
    assert_eq!(ask(&mut server, ROOT, t, (2, procedure::UNSET), &mapping(0)), Some(true));
    for (netid, address) in [("tcp", "::1.9.9"), ("local", "x"), ("tcp", "1.2.3.4.0.0")] {
        let (netid, address) = (netid.to_owned(), address.to_owned());
        let rpcb = Rpcb { program: 9, version: 1, netid, address, owner: String::new() };
        assert_eq!(ask(&mut server, ROOT, t, (3, procedure::SET), &rpcb), Some(false));
    }
}

#[test]
fn the_table_is_bounded() {
    let (mut server, t) = (mapper(), Transport::Stream);
    let taken = (0..5_000).filter(|&version| {
        let mapping = Mapping { version, ..mapping(3_000) };
        ask(&mut server, LOCAL, t, (2, procedure::SET), &mapping) == Some(true)
    });
    assert_eq!(taken.count(), 4_096 - 10);
}

// RFC 1833 3.2-b: CALLIT that is not carried out gets no reply over UDP.
#[test]
fn it_is_no_amplifier() {
    let (mut server, datagram) = (mapper(), Transport::Datagram);
    for version in 2..=4 {
        let dump = (version, procedure::DUMP);
        assert!(ask::<RpcbList>(&mut server, REMOTE, datagram, dump, &()).is_none());
        let callit = (version, procedure::CALLIT);
        assert!(ask::<()>(&mut server, LOCAL, datagram, callit, &()).is_none());
    }
    assert_eq!(server.drops().of(base::DropReason::RpcNoAnswer), 6);
    assert!(ask::<MappingList>(&mut server, LOCAL, datagram, (2, 4), &()).is_some());
}

fn rpcb(program: u32, version: u32, netid: &str, address: &str) -> Rpcb {
    let (netid, address) = (netid.to_owned(), address.to_owned());
    Rpcb { program, version, netid, address, owner: String::new() }
}

// RFC 1833 section 2.1: GETADDRLIST.
#[test]
fn all_addresses_of_a_version_are_listed_of_the_family_that_asks() {
    let (mut server, t) = (mapper(), Transport::Stream);
    let list = (4, procedure::GETADDRLIST);
    let own = rpcb(PROGRAM, 4, "tcp", "192.0.2.9.0.111");
    let found: EntryList = ask(&mut server, REMOTE, t, list, &own).expect("a list");
    let found: Vec<_> = found.0.iter().map(|e| (e.netid.as_str(), e.semantics)).collect();
    assert_eq!(found, [("udp", DATAGRAMS), ("tcp", STREAMS)]);
    let found: EntryList = ask(&mut server, "[::1]:9", t, list, &own).expect("a list");
    let six = |e: &crate::portmap::Entry| e.family == "inet6" && e.address == "::.0.111";
    assert!(found.0.len() == 2 && found.0.iter().all(six), "{found:?}");
    let other = rpcb(PROGRAM, 9, "tcp", "");
    assert_eq!(ask(&mut server, REMOTE, t, list, &other), Some(EntryList::default()));
    // Versions 2 and 3 do not have GETADDRLIST.
    assert!(ask::<EntryList>(&mut server, REMOTE, t, (3, 11), &own).is_none());
}

// RFC 1833 section 2.1: GETSTAT.
#[test]
fn what_was_asked_is_counted_by_version() {
    let (mut server, t) = (mapper(), Transport::Stream);
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::SET), &mapping(2_049)), Some(true));
    assert_eq!(ask(&mut server, LOCAL, t, (2, procedure::UNSET), &mapping(0)), Some(true));
    let found = ask(&mut server, LOCAL, t, (2, procedure::GET), &mapping(0));
    assert_eq!(found, Some(0_u32));
    let own = rpcb(PROGRAM, 4, "tcp", "");
    for version in [3, 4, 4] {
        let found: Option<String> = ask(&mut server, LOCAL, t, (version, procedure::GET), &own);
        assert_eq!(found.as_deref(), Some("0.0.0.0.0.111"));
    }
    let stat = (4, procedure::GETSTAT);
    let [two, three, four] =
        ask::<(Statistics, Statistics, Statistics)>(&mut server, LOCAL, t, stat, &())
            .map(|(a, b, c)| [a, b, c])
            .expect("counters");
    assert_eq!((two.set, two.unset, two.calls[3]), (1, 1, 1));
    assert_eq!((two.lookups.0[0].found, two.lookups.0[0].missed), (0, 1));
    assert_eq!((three.calls[3], four.calls[3], four.calls[12]), (1, 2, 1));
    assert_eq!(four.lookups.0[0].found, 2);
    // Look-ups by other hosts do not fill the memory.
    for version in 0..1_000 {
        let asked = rpcb(9, version, "udp", "");
        let _: Option<String> =
            ask(&mut server, REMOTE, Transport::Datagram, (4, procedure::GET), &asked);
    }
    let (_, _, four) =
        ask::<(Statistics, Statistics, Statistics)>(&mut server, LOCAL, t, stat, &())
            .expect("counters");
    assert_eq!(four.lookups.0.len(), crate::limits::LOOKUPS_MAX);
    // These lists are not sent to addresses that may be forged.
    for procedure in [procedure::GETSTAT, procedure::DUMP] {
        let datagram = Transport::Datagram;
        assert!(ask::<Bytes>(&mut server, REMOTE, datagram, (4, procedure), &()).is_none());
    }
}

#[test]
fn addresses_of_sockets_are_universal_addresses_and_back() {
    let (mut server, t) = (mapper(), Transport::Stream);
    for (version, address, bytes) in [
        (3, "192.0.2.1.8.1", 16),
        (4, "2001:db8::1.0.111", 28),
        (4, "/run/rpcbind.sock", 20),
        (3, "nonsense", 0),
    ] {
        let (most, buffer): (u32, Bytes) =
            ask(&mut server, REMOTE, t, (version, procedure::UADDR2TADDR), &address)
                .expect("a buffer");
        assert_eq!((most as usize, buffer.0.len()), (bytes, bytes), "{address}");
        let back: Option<String> =
            ask(&mut server, REMOTE, t, (version, procedure::TADDR2UADDR), &(most, buffer));
        let same = if bytes == 0 { "" } else { address };
        assert_eq!(back.as_deref(), Some(same));
    }
    for broken in [&[][..], &[2], &[2, 0, 0], &[10, 0, 0, 1, 2, 3], &[9; 28]] {
        let buffer = (0_u32, Bytes(broken.to_vec()));
        let back = ask(&mut server, REMOTE, t, (4, procedure::TADDR2UADDR), &buffer);
        assert_eq!(back, Some(String::new()), "{broken:?}");
    }
}

#[test]
fn programs_of_this_machine_may_have_a_socket_of_it() {
    let mut server = Server::new(KeyedHash::new(1, 2));
    server.add(PortMapper::new(&["udp", "tcp"], || 1_000).at_socket("/run/rpcbind.sock"));
    let (t, get) = (Transport::Local, (4, procedure::GET));
    let own = rpcb(PROGRAM, 4, "", "/run/rpcbind.sock");
    let found: Option<String> = ask(&mut server, ROOT, t, get, &own);
    assert_eq!(found.as_deref(), Some("/run/rpcbind.sock"));
    // Over IP the caller gets the address at which it reaches the program.
    let over_tcp = rpcb(PROGRAM, 4, "tcp", "/run/rpcbind.sock");
    let found: Option<String> = ask(&mut server, ROOT, t, get, &over_tcp);
    assert_eq!(found.as_deref(), Some("127.0.0.1.0.111"));
    for (address, is_set) in [("/run/x.sock", true), ("run/x", false), ("1.2.3.4.5.6", false)] {
        let mapping = rpcb(400_001, 1, LOCAL_ID, address);
        assert_eq!(ask(&mut server, ROOT, t, (4, procedure::SET), &mapping), Some(is_set));
    }
    let entries: EntryList =
        ask(&mut server, LOCAL, t, (4, procedure::GETADDRLIST), &own).expect("a list");
    assert_eq!((entries.0.len(), entries.0[0].family.as_str()), (1, "loopback"));
}
