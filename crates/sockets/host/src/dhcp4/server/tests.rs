//! The DHCPv4 server against clients made of `dhcproto`, an implementation that is not ours, and
//! against our own client.

use core::net::Ipv4Addr;

use base::{Cidr, DropReason, Duration, Instant, KeyedHash, Limit, MacAddr};
use dhcproto::v4::{self, DhcpOption, MessageType, OptionCode};
use dhcproto::{Decodable, Encodable};
use proptest::prelude::*;

use super::*;
use crate::dhcp4::{Action, Client, Config, Route};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const START: Instant = Instant::from_nanos(1_000_000_000_000);

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 2, last)
}

fn config() -> ServerConfig {
    ServerConfig::new(SERVER, 24, address(100), address(109))
}

fn hardware(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

fn server(config: ServerConfig) -> Server {
    Server::new(config).expect("a good configuration")
}

/// A message of client `number`, with these options behind its type.
fn message(number: u8, kind: MessageType, options: Vec<DhcpOption>) -> v4::Message {
    let none = Ipv4Addr::UNSPECIFIED;
    let mut message = v4::Message::new_with_id(7_000, none, none, none, none, &hardware(number).0);
    message.opts_mut().insert(DhcpOption::MessageType(kind));
    options.into_iter().for_each(|option| drop(message.opts_mut().insert(option)));
    message
}

fn send(server: &mut Server, message: &v4::Message, now: Instant) -> Outcome {
    server.receive(now, &message.to_vec().expect("encodable"))
}

/// The answer, which there must be.
fn answer(server: &mut Server, message: &v4::Message, now: Instant) -> (Destination, v4::Message) {
    let reply = send(server, message, now).expect("served").expect("an answer");
    assert!(reply.message.len() >= 300, "BOOTP's minimum");
    let answer = v4::Message::from_bytes(&reply.message).expect("a DHCP message");
    assert_eq!(answer.opcode(), v4::Opcode::BootReply);
    assert_eq!((answer.xid(), answer.chaddr()), (message.xid(), message.chaddr()));
    // RFC 2131 4.3.1-b.
    let ours = DhcpOption::ServerIdentifier(SERVER);
    assert_eq!(answer.opts().get(OptionCode::ServerIdentifier), Some(&ours));
    (reply.destination, answer)
}

fn kind(message: &v4::Message) -> MessageType {
    message.opts().msg_type().expect("a type")
}

fn requested(address: Ipv4Addr) -> DhcpOption {
    DhcpOption::RequestedIpAddress(address)
}

fn selecting(number: u8, address: Ipv4Addr, server: Ipv4Addr) -> v4::Message {
    let options = vec![requested(address), DhcpOption::ServerIdentifier(server)];
    message(number, MessageType::Request, options)
}

fn renewing(number: u8, address: Ipv4Addr) -> v4::Message {
    let mut request = message(number, MessageType::Request, Vec::new());
    request.set_ciaddr(address);
    request
}

/// Through offer and request to a lease.
fn bind(server: &mut Server, number: u8, now: Instant) -> Ipv4Addr {
    let (_, offer) = answer(server, &message(number, MessageType::Discover, Vec::new()), now);
    assert_eq!(kind(&offer), MessageType::Offer);
    let request = selecting(number, offer.yiaddr(), SERVER);
    let (_, ack) = answer(server, &request, now);
    assert_eq!((kind(&ack), ack.yiaddr()), (MessageType::Ack, offer.yiaddr()));
    ack.yiaddr()
}

fn seconds(message: &v4::Message, code: OptionCode) -> Option<u32> {
    match message.opts().get(code)? {
        DhcpOption::AddressLeaseTime(s) | DhcpOption::Renewal(s) | DhcpOption::Rebinding(s) => {
            Some(*s)
        }
        other => panic!("{other:?}"),
    }
}

// RFC 2131 4.3.1-c, 4.3.1-d.
#[test]
fn addresses_are_given_in_order_if_the_owner_wants_it() {
    let mut server = server(ServerConfig { in_order: true, ..config() });
    for number in 1..=3 {
        let discover = message(number, MessageType::Discover, Vec::new());
        let (_, offer) = answer(&mut server, &discover, START);
        assert_eq!(offer.yiaddr(), address(99 + number));
    }
}

#[test]
fn a_client_learns_what_is_configured() {
    let network: Cidr = "192.0.2.0/25".parse().expect("a network");
    let mut options = config().options;
    options.domain = Some("mill.example".to_owned());
    options.search = vec!["mill.example".to_owned(), "example.org".to_owned()];
    options.mtu = Some(65_520);
    options.routes = vec![Route { destination: network, gateway: Some(address(9)) }];
    let mut server = server(ServerConfig { options, ..config() });
    let (to, offer) = answer(&mut server, &message(1, MessageType::Discover, Vec::new()), START);
    let station = Destination::Station { hardware: hardware(1), address: offer.yiaddr() };
    assert_eq!(to, station);
    assert!((100..110).contains(&offer.yiaddr().octets()[3]));
    assert_eq!(seconds(&offer, OptionCode::AddressLeaseTime), Some(3_600));
    assert_eq!(seconds(&offer, OptionCode::Renewal), Some(1_800));
    assert_eq!(seconds(&offer, OptionCode::Rebinding), Some(3_150));
    let get = |code| offer.opts().get(code).cloned();
    let mask = DhcpOption::SubnetMask(Ipv4Addr::new(255, 255, 255, 0));
    assert_eq!(get(OptionCode::SubnetMask), Some(mask));
    assert_eq!(get(OptionCode::Router), Some(DhcpOption::Router(vec![SERVER])));
    let names = DhcpOption::DomainNameServer(vec![SERVER]);
    assert_eq!(get(OptionCode::DomainNameServer), Some(names));
    assert_eq!(get(OptionCode::InterfaceMtu), Some(DhcpOption::InterfaceMtu(65_520)));
    let Some(DhcpOption::ClasslessStaticRoute(routes)) = get(OptionCode::ClasslessStaticRoute)
    else {
        panic!("no routes")
    };
    let routes: Vec<String> = routes.iter().map(|(to, by)| format!("{to} by {by}")).collect();
    assert_eq!(routes, ["192.0.2.0/25 by 10.0.2.9", "0.0.0.0/0 by 10.0.2.2"]);
    let Some(DhcpOption::DomainSearch(search)) = get(OptionCode::DomainSearch) else {
        panic!("no search list")
    };
    assert_eq!(search.len(), 2);
    // A client that asks for two options gets these, and those of every lease.
    let asked = DhcpOption::ParameterRequestList(vec![OptionCode::Router, OptionCode::DomainName]);
    let discover = message(1, MessageType::Discover, vec![asked]);
    let (_, offer) = answer(&mut server, &discover, START);
    assert!(offer.opts().get(OptionCode::DomainName).is_some());
    assert!(offer.opts().get(OptionCode::InterfaceMtu).is_none());
    assert!(offer.opts().get(OptionCode::AddressLeaseTime).is_some());
}

// RFC 2131 4.1-f.
#[test]
fn answers_go_where_the_client_can_receive_them() {
    let mut server = server(config());
    let mut discover = message(1, MessageType::Discover, Vec::new());
    discover.set_flags(v4::Flags::default().set_broadcast());
    assert_eq!(answer(&mut server, &discover, START).0, Destination::Broadcast);
    let own = bind(&mut server, 1, START);
    let (to, ack) = answer(&mut server, &renewing(1, own), START);
    assert_eq!((to, ack.ciaddr()), (Destination::Address(own), own));
}

// RFC 2131 4.3.1-a.
#[test]
fn a_client_gets_its_address_again() {
    let mut server = server(config());
    let own = bind(&mut server, 1, START);
    let later = START + Duration::from_secs(4_000);
    assert_eq!(server.leases(later).count(), 0, "it has expired");
    assert_eq!(bind(&mut server, 1, later), own, "its last one");
    // Another client that wants it gets another one.
    let discover = message(2, MessageType::Discover, vec![requested(own)]);
    assert_ne!(answer(&mut server, &discover, later).1.yiaddr(), own);
    // One that wants a free one gets it.
    let wanted = (100..110).map(address).find(|&a| a != own).expect("ten of them");
    let discover = message(3, MessageType::Discover, vec![requested(wanted)]);
    let got = answer(&mut server, &discover, later).1.yiaddr();
    let is_taken = server.leases.iter().any(|(a, _)| a == wanted);
    assert!(got == wanted || is_taken);
    // The server forgets all; the address is the same still.
    assert_eq!(bind(&mut self::server(config()), 1, START), own);
}

// RFC 2131 4.2-a.
#[test]
fn the_client_identifier_counts_more_than_the_link_address() {
    let mut server = server(config());
    let named = |number, id: &[u8]| {
        message(number, MessageType::Discover, vec![DhcpOption::ClientIdentifier(id.to_vec())])
    };
    let (_, one) = answer(&mut server, &named(1, b"\xff-one"), START);
    let (_, other) = answer(&mut server, &named(1, b"\xff-two"), START);
    let (_, moved) = answer(&mut server, &named(2, b"\xff-one"), START);
    assert_ne!(one.yiaddr(), other.yiaddr());
    assert_eq!(one.yiaddr(), moved.yiaddr());
    // RFC 6842 3-b: it comes back.
    let id = DhcpOption::ClientIdentifier(b"\xff-one".to_vec());
    assert_eq!(one.opts().get(OptionCode::ClientIdentifier), Some(&id));
}

#[test]
fn fixed_addresses_are_for_their_clients_alone() {
    let fixed = |guest, last| Fixed { guest, address: address(last) };
    let config = ServerConfig {
        fixed: vec![fixed(hardware(1).into(), 100), fixed(Guest::Id(b"\xffvm".to_vec()), 7)],
        ..ServerConfig::new(SERVER, 24, address(100), address(101))
    };
    let mut server = server(config.clone());
    assert_eq!(bind(&mut server, 1, START), address(100));
    assert_eq!(bind(&mut server, 2, START), address(101), "the only one left");
    let discover = message(3, MessageType::Discover, Vec::new());
    assert_eq!(send(&mut server, &discover, START), Err(DropReason::DhcpNoAddress));
    let id = DhcpOption::ClientIdentifier(b"\xffvm".to_vec());
    let (_, offer) = answer(&mut server, &message(9, MessageType::Discover, vec![id]), START);
    assert_eq!(offer.yiaddr(), address(7));
    assert_eq!(server.drops().of(DropReason::DhcpNoAddress), 1);
    // Without a pool there are these alone.
    let mut server = self::server(ServerConfig { pool: None, ..config });
    assert_eq!(bind(&mut server, 1, START), address(100));
    assert_eq!(send(&mut server, &discover, START), Err(DropReason::DhcpNoAddress));
}

// RFC 2131 4.3.2-b, 4.3.2-f.
#[test]
fn a_request_selects_an_offer_of_this_server_or_of_another() {
    let mut server = server(ServerConfig::new(SERVER, 24, address(100), address(100)));
    let discover = message(1, MessageType::Discover, Vec::new());
    let (_, offer) = answer(&mut server, &discover, START);
    let (to, nak) = answer(&mut server, &selecting(1, address(50), SERVER), START);
    // RFC 2131 4.1-e.
    assert_eq!((kind(&nak), to), (MessageType::Nak, Destination::Broadcast));
    assert_eq!(nak.yiaddr(), Ipv4Addr::UNSPECIFIED);
    assert!(nak.opts().get(OptionCode::AddressLeaseTime).is_none());
    let other = selecting(1, offer.yiaddr(), address(3));
    assert_eq!(send(&mut server, &other, START), Err(DropReason::DhcpOtherServer));
    assert_eq!(server.leases.len(), 0, "the offer is withdrawn");
    assert_eq!(bind(&mut server, 2, START), offer.yiaddr());
}

// RFC 2131 4.3.2-c, 4.3.2-d, 4.3.2-e.
#[test]
fn a_client_that_remembers_an_address_is_confirmed_refused_or_left_to_others() {
    let reboot =
        |number, last: Ipv4Addr| message(number, MessageType::Request, vec![requested(last)]);
    let mut alone = server(config());
    let own = bind(&mut alone, 1, START);
    assert_eq!(kind(&answer(&mut alone, &reboot(1, own), START).1), MessageType::Ack);
    let elsewhere = Ipv4Addr::new(192, 168, 1, 5);
    for wrong in [elsewhere, address(50)] {
        assert_eq!(kind(&answer(&mut alone, &reboot(1, wrong), START).1), MessageType::Nak);
    }
    // The server was started anew: it is the only one, so it may confirm.
    let free = (100..110).map(address).find(|&a| a != own).expect("ten of them");
    for request in [reboot(2, free), renewing(3, own)] {
        let mut fresh = server(config());
        assert_eq!(kind(&answer(&mut fresh, &request, START).1), MessageType::Ack);
    }
    assert_eq!(kind(&answer(&mut alone, &reboot(2, own), START).1), MessageType::Nak);
    // One of several servers says nothing about what it does not know.
    let mut one = server(ServerConfig { authoritative: false, ..config() });
    assert_eq!(send(&mut one, &reboot(2, free), START), Err(DropReason::DhcpNotServed));
    assert_eq!(kind(&answer(&mut one, &reboot(2, elsewhere), START).1), MessageType::Nak);
}

// RFC 2131 4.3.4-a, 4.3.3-a.
#[test]
fn addresses_are_given_back_and_declined() {
    let mut server = server(ServerConfig::new(SERVER, 24, address(100), address(101)));
    let own = bind(&mut server, 1, START);
    let mut release = message(1, MessageType::Release, Vec::new());
    release.set_ciaddr(own);
    let mut forged = message(2, MessageType::Release, Vec::new());
    forged.set_ciaddr(own);
    assert_eq!(send(&mut server, &forged, START), Err(DropReason::DhcpNotServed));
    assert_eq!(server.leases(START).count(), 1);
    assert_eq!(send(&mut server, &release, START), Ok(None));
    assert_eq!(server.leases(START).count(), 0);
    let own = bind(&mut server, 1, START);
    let options = vec![requested(own), DhcpOption::ServerIdentifier(SERVER)];
    let decline = message(1, MessageType::Decline, options);
    assert_eq!(send(&mut server, &decline, START), Ok(None));
    let other = bind(&mut server, 1, START);
    assert_ne!(other, own, "another host has that one");
    let discover = message(2, MessageType::Discover, Vec::new());
    assert_eq!(send(&mut server, &discover, START), Err(DropReason::DhcpNoAddress));
    let later = START + DECLINED + Duration::from_secs(1);
    assert_eq!(bind(&mut server, 2, later), own, "the other host may be gone");
    assert_eq!((server.counts().releases, server.counts().declines), (1, 1));
}

// RFC 2131 4.3.5-a.
#[test]
fn a_client_with_an_address_learns_the_rest() {
    let mut server = server(config());
    let mut inform = message(1, MessageType::Inform, Vec::new());
    inform.set_ciaddr(address(77));
    let (to, ack) = answer(&mut server, &inform, START);
    assert_eq!((kind(&ack), to), (MessageType::Ack, Destination::Address(address(77))));
    assert_eq!(ack.yiaddr(), Ipv4Addr::UNSPECIFIED);
    assert!(ack.opts().get(OptionCode::Router).is_some());
    for code in [OptionCode::AddressLeaseTime, OptionCode::Renewal, OptionCode::Rebinding] {
        assert!(ack.opts().get(code).is_none(), "{code:?}");
    }
    assert_eq!(server.leases.len(), 0);
}

#[test]
fn a_flood_of_clients_fills_nothing_and_takes_no_offers_away_for_long() {
    let mut server = server(ServerConfig::new(SERVER, 24, address(10), address(200)));
    server.budget_mut().set(Limit::DhcpLeases, 20);
    let own = bind(&mut server, 1, START);
    for number in 0..2_000_u32 {
        let id = DhcpOption::ClientIdentifier(number.to_be_bytes().to_vec());
        let discover = message(9, MessageType::Discover, vec![id]);
        answer(&mut server, &discover, START);
        assert!(server.leases.len() <= 20);
    }
    assert!(server.budget_mut().hits(Limit::DhcpLeases) > 1_900);
    // A lease stays, and an honest client gets an address.
    assert_eq!(kind(&answer(&mut server, &renewing(1, own), START).1), MessageType::Ack);
    assert_ne!(bind(&mut server, 2, START), own);
}

#[test]
fn long_options_are_cut_and_what_does_not_fit_is_left_out() {
    let mut options = config().options;
    options.search = (0..9).map(|n| format!("{n}{}.example", "x".repeat(50))).collect();
    options.dns_servers = vec![SERVER; 32];
    let mut server = server(ServerConfig { options, ..config() });
    // 548 bytes of DHCP are what every client takes; the search list has no room there.
    let discover = message(1, MessageType::Discover, Vec::new());
    let reply = send(&mut server, &discover, START).expect("served").expect("an answer");
    assert!(reply.message.len() <= 548, "{}", reply.message.len());
    let (_, short) = answer(&mut server, &discover, START);
    assert!(short.opts().get(OptionCode::DomainSearch).is_none());
    let discover = message(1, MessageType::Discover, vec![DhcpOption::MaxMessageSize(1_500)]);
    let (_, long) = answer(&mut server, &discover, START);
    let Some(DhcpOption::DomainSearch(search)) = long.opts().get(OptionCode::DomainSearch) else {
        panic!("no search list")
    };
    assert_eq!(search.len(), 9);
}

#[test]
fn settings_that_cannot_work_are_refused_with_a_sentence() {
    use ServerConfigError as E;
    let wrong = |change: fn(&mut ServerConfig)| {
        let mut config = config();
        change(&mut config);
        let error = Server::new(config).expect_err("it cannot work");
        assert!(error.to_string().len() > 20, "{error}");
        error
    };
    assert_eq!(wrong(|c| c.prefix_len = 31), E::Network);
    assert_eq!(wrong(|c| c.server = address(0)), E::Network);
    assert_eq!(wrong(|c| c.server = address(255)), E::Network);
    assert_eq!(wrong(|c| c.pool = Some((address(9), address(8)))), E::Pool);
    assert_eq!(wrong(|c| c.pool = Some((address(9), [10, 0, 3, 1].into()))), E::Pool);
    assert_eq!(wrong(|c| c.lease = Some(Duration::from_secs(9))), E::Lease);
    assert_eq!(wrong(|c| c.options.mtu = Some(100)), E::Mtu);
    assert_eq!(wrong(|c| c.options.domain = Some("a b".to_owned())), E::Name("a b".to_owned()));
    assert_eq!(wrong(|c| c.options.routers = vec![SERVER; 33]), E::List);
    let own = |c: &mut ServerConfig| {
        c.fixed = vec![Fixed { guest: hardware(1).into(), address: SERVER }];
    };
    assert_eq!(wrong(own), E::Fixed(SERVER));
}

/// Our client, which has tests of its own, gets an address, renews it and gives it back.
#[test]
fn our_client_is_served() {
    let mut server = server(config());
    let mut client =
        Client::new(Config::new(hardware(1), KeyedHash::new(1, 2)), START).expect("good");
    let (mut now, mut acquired, mut renewed) = (START, None, 0);
    for _ in 0..100 {
        match client.poll(now) {
            Some(Action::Send { message, .. }) => {
                if let Some(reply) = server.receive(now, &message).expect("served") {
                    client.receive(now, &reply.message).expect("a good answer");
                }
            }
            Some(Action::Probe(_)) => client.probed(now, false),
            Some(Action::Acquired(lease)) => acquired = Some(lease),
            Some(Action::Renewed(_)) => renewed += 1,
            Some(Action::Lost { .. }) => break,
            None if renewed == 3 => client.stop(now),
            None => now = client.deadline(),
        }
    }
    let lease = acquired.expect("an address");
    assert_eq!((lease.server, lease.prefix_len, lease.dns_servers), (SERVER, 24, vec![SERVER]));
    assert_eq!((renewed, server.counts().releases), (3, 1));
    assert_eq!(server.leases(now).count(), 0);
    assert_eq!(server.drops().total(), 0);
}

proptest! {
    /// Any bytes behind a header that may be right, in any order: nothing panics, nothing grows,
    /// every message is answered, taken or counted.
    #[test]
    fn any_messages_are_bounded(
        messages in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..400), 0_u64..5_000), 1..30
        ),
    ) {
        let mut server = server(config());
        let mut now = START;
        for (is_whole, bytes, seconds) in messages {
            let mut message = message(1, MessageType::Discover, Vec::new()).to_vec().expect("one");
            if is_whole {
                message.truncate(240);
                message.extend(&bytes);
            } else {
                message = bytes;
            }
            let before = server.drops().total();
            let outcome = server.receive(now, &message);
            prop_assert_eq!(server.drops().total() - before, u64::from(outcome.is_err()));
            if let Ok(Some(reply)) = outcome {
                prop_assert!(v4::Message::from_bytes(&reply.message).is_ok());
                prop_assert!(reply.message.len() <= 1_472);
            }
            prop_assert!(server.leases.len() <= 10);
            now += Duration::from_secs(seconds);
        }
    }
}
