//! Messages that servers, or attackers in their place, can send. RFC 2131 section 7.

use base::{DropReason, Limit};
use dhcproto::v4::UnknownOption;
use proptest::prelude::*;

use super::*;

/// The bytes of an offer with options of these bytes after the usual ones.
fn raw_offer(to: &Heard, options: &[u8]) -> Vec<u8> {
    let mut bytes = answer(to, MessageType::Offer).to_vec().unwrap();
    assert_eq!(bytes.pop(), Some(255));
    bytes.extend([51, 4, 0, 0, 14, 16, 1, 4, 255, 255, 255, 0]);
    bytes.extend(options);
    bytes.push(255);
    bytes
}

/// The lease that an acknowledgment with these further options gives.
fn lease_of(options: &[u8]) -> Option<Lease> {
    let mut world = World::new(config());
    let discover = world.sent();
    world.hear(&offer(&discover)).unwrap();
    let request = world.sent();
    let mut bytes = raw_offer(&request, options);
    let kind = bytes.windows(3).position(|w| w == [53, 1, 2]).expect("an offer");
    bytes[kind + 2] = 5;
    world.client.receive(world.now, &bytes).ok()?;
    world.action();
    world.client.probed(world.now, false);
    match world.action() {
        Some(Action::Acquired(lease)) => Some(*lease),
        _ => None,
    }
}

fn routes_of(options: &[u8]) -> Vec<String> {
    let routes = lease_of(options).expect("a lease").routes.into_iter();
    let text = |r: Route| match r.gateway {
        Some(gateway) => format!("{} via {gateway}", r.destination),
        None => format!("{} on link", r.destination),
    };
    routes.map(text).collect()
}

/// Lengths of options that contradict the message drop the message (Ripple20, CVE-2020-11901 and
/// its relatives in DHCP clients).
#[test]
fn ripple20_dhcp_lengths_are_checked() {
    let mut world = World::new(config());
    let discover = world.sent();
    let malformed: &[&[u8]] =
        &[&[6], &[6, 6, 1, 2, 3, 4], &[6, 255], &[119, 200, 3, b'a'], &[43, 2]];
    for options in malformed {
        let outcome = world.client.receive(world.now, &raw_offer(&discover, options));
        assert_eq!(outcome, Err(DropReason::DhcpMalformed), "{options:?}");
    }
    let whole = raw_offer(&discover, &[]);
    // Only the mask and the end option, which may be left out, are missing at the end then.
    let complete = whole.len() - 7;
    for length in (0..whole.len() - 1).filter(|&length| length != complete) {
        let outcome = world.client.receive(world.now, &whole[..length]);
        assert!(outcome.is_err(), "the first {length} bytes");
    }
    let mut too_long = whole.clone();
    too_long.resize(4_097, 0);
    assert_eq!(world.client.receive(world.now, &too_long), Err(DropReason::DhcpMalformed));
    assert_eq!(world.client.budget_mut().hits(Limit::DhcpMessageBytes), 1);
    too_long.pop();
    assert_eq!(world.client.receive(world.now, &too_long), Ok(()), "4,096 bytes");
}

#[test]
fn headers_that_are_not_of_dhcp_over_ethernet_are_dropped() {
    let mut world = World::new(config());
    let discover = world.sent();
    let good = raw_offer(&discover, &[]);
    // Request instead of reply, another link, hardware addresses of 16 and 200 bytes, the cookie.
    for (at, value) in [(0, 1), (1, 6), (2, 16), (2, 200), (236, 98), (239, 0)] {
        let mut bytes = good.clone();
        bytes[at] = value;
        let outcome = world.client.receive(world.now, &bytes);
        assert_eq!(outcome, Err(DropReason::DhcpMalformed), "byte {at}");
    }
    for kind in [0, 1, 3, 4, 7, 8, 255] {
        let mut bytes = good.clone();
        let at = bytes.windows(3).position(|w| w == [53, 1, 2]).expect("an offer");
        bytes[at + 2] = kind;
        let outcome = world.client.receive(world.now, &bytes);
        assert_eq!(outcome, Err(DropReason::DhcpMalformed), "message type {kind}");
    }
    assert_eq!(world.action(), None, "nothing came of it");
}

#[test]
fn addresses_that_no_host_can_have_are_refused() {
    let mut world = World::new(config());
    let discover = world.sent();
    let bad = [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "169.254.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.0",
        "192.0.2.255",
    ];
    for address in bad {
        let mut message = offer(&discover);
        message.set_yiaddr(address.parse::<Ipv4Addr>().unwrap());
        assert_eq!(world.hear(&message), Err(DropReason::DhcpUnusable), "{address}");
    }
    for server in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.1"] {
        let mut message = offer(&discover);
        message.opts_mut().insert(DhcpOption::ServerIdentifier(server.parse().unwrap()));
        assert_eq!(world.hear(&message), Err(DropReason::DhcpUnusable), "server {server}");
    }
    for mask in ["255.0.255.0", "0.0.0.0", "0.0.0.255", "255.255.255.1"] {
        let mut message = offer(&discover);
        message.opts_mut().insert(DhcpOption::SubnetMask(mask.parse().unwrap()));
        assert_eq!(world.hear(&message), Err(DropReason::DhcpUnusable), "mask {mask}");
    }
    for code in [OptionCode::AddressLeaseTime, OptionCode::ServerIdentifier] {
        let mut message = offer(&discover);
        message.opts_mut().remove(code);
        assert_eq!(world.hear(&message), Err(DropReason::DhcpUnusable), "without {code:?}");
    }
    for seconds in [0, 1, 9] {
        let mut message = offer(&discover);
        message.opts_mut().insert(DhcpOption::AddressLeaseTime(seconds));
        assert_eq!(world.hear(&message), Err(DropReason::DhcpUnusable), "{seconds} seconds");
    }
    assert_eq!(world.client.state(), State::Selecting);
    world.hear(&offer(&discover)).expect("the first acceptable one");
}

#[test]
fn an_acknowledgment_of_another_address_is_refused() {
    let mut world = World::new(config());
    let discover = world.sent();
    world.hear(&offer(&discover)).unwrap();
    let request = world.sent();
    let mut other = ack(&request);
    other.set_yiaddr([192, 0, 2, 8]);
    assert_eq!(world.hear(&other), Err(DropReason::DhcpUnusable));
    assert_eq!(world.client.state(), State::Requesting);
}

/// RFC 2131 4.4.5-b, 4.4.5-c.
#[test]
fn times_out_of_order_are_replaced_by_the_defaults() {
    let times = |t1: u32, t2: u32| {
        let options = [[58, 4].as_slice(), &t1.to_be_bytes(), &[59, 4], &t2.to_be_bytes()].concat();
        let lease = lease_of(&options).expect("a lease");
        (lease.renew.as_millis() / 1_000, lease.rebind.as_millis() / 1_000)
    };
    assert_eq!(times(600, 1_200), (600, 1_200));
    assert_eq!(times(0, 0), (1_800, 3_150));
    assert_eq!(times(3_200, 1_200), (1_199, 1_200), "T1 after T2");
    assert_eq!(times(600, 3_600), (600, 3_150), "T2 not before the end");
    assert_eq!(times(u32::MAX, u32::MAX), (1_800, 3_150));
    assert_eq!(times(1, 2), (1_800, 3_150), "a renewal each second");
    let lease = lease_of(&[58, 2, 1, 1, 59, 5, 0, 0, 0, 1, 2]).expect("wrong lengths");
    assert_eq!(lease.renew, Duration::from_secs(1_800));
}

/// RFC 3442 1-a, 1-b.
#[test]
fn classless_routes_replace_routers() {
    let router = [3, 4, 192, 0, 2, 1];
    let classless = [121, 15, 0, 192, 0, 2, 9, 20, 10, 17, 0x33, 0, 0, 0, 0];
    let both = [&router[..], &[121, 13, 0, 192, 0, 2, 9, 20, 10, 17, 0x33, 0, 0, 0, 0]].concat();
    assert_eq!(routes_of(&both), ["0.0.0.0/0 via 192.0.2.9", "10.17.48.0/20 on link"]);
    assert_eq!(routes_of(&router), ["0.0.0.0/0 via 192.0.2.1"]);
    let wrong: &[&[u8]] =
        &[&[121, 0], &[121, 5, 33, 1, 2, 3, 4], &[121, 3, 8, 10, 1], &[121, 1, 0]];
    for option in wrong {
        let options = [&router[..], option].concat();
        assert_eq!(routes_of(&options), ["0.0.0.0/0 via 192.0.2.1"], "{option:?}");
    }
    assert_eq!(lease_of(&classless), None, "an option that ends behind the message");
    let martian = [121, 10, 0, 224, 0, 0, 1, 0, 192, 0, 2, 9];
    assert_eq!(routes_of(&martian), ["0.0.0.0/0 via 192.0.2.9"]);
    assert!(routes_of(&[3, 8, 0, 0, 0, 0, 255, 255, 255, 255]).is_empty());
    assert_eq!(routes_of(&[3, 5, 192, 0, 2, 1, 0]), ["0.0.0.0/0 via 192.0.2.1"]);
    assert!(routes_of(&[3, 4, 192, 0, 2, 7]).is_empty(), "ourselves");
}

#[test]
fn mtus_below_576_and_above_the_links_are_ignored() {
    let mtu = |value: u16| {
        let [high, low] = value.to_be_bytes();
        lease_of(&[26, 2, high, low]).expect("a lease").mtu
    };
    assert_eq!([mtu(576), mtu(1_400), mtu(1_500)], [Some(576), Some(1_400), Some(1_500)]);
    assert_eq!([mtu(0), mtu(68), mtu(575), mtu(1_501), mtu(65_535)], [None; 5]);
    assert_eq!(lease_of(&[26, 1, 9]).expect("a lease").mtu, None);
}

/// RFC 3396: pieces of an option are joined before they are read. RFC 2131 4.1-d: `file` and
/// `sname` may hold options.
#[test]
fn long_and_overloaded_options_are_joined() {
    let search = [119, 5, 3, b'o', b'r', b'g', 0, 119, 6, 3, b'e', b'd', b'u', 192, 0];
    assert_eq!(lease_of(&search).expect("a lease").search, ["org", "edu.org"]);
    let mut world = World::new(config());
    let discover = world.sent();
    let mut bytes = raw_offer(&discover, &[52, 1, 3, 6, 4, 192, 0, 2, 1]);
    bytes[44..51].copy_from_slice(&[6, 4, 192, 0, 2, 3, 255]);
    bytes[108..115].copy_from_slice(&[6, 4, 192, 0, 2, 2, 255]);
    let parsed = super::super::message::Received::parse(&bytes).expect("a message");
    let servers = parsed.options.addresses(6);
    assert_eq!(servers, [[192, 0, 2, 1], [192, 0, 2, 2], [192, 0, 2, 3]].map(Ipv4Addr::from));
    bytes[44..46].copy_from_slice(&[6, 255]);
    let outcome = world.client.receive(world.now, &bytes);
    assert_eq!(outcome, Err(DropReason::DhcpMalformed), "an option that ends behind sname");
    let overload = raw_offer(&discover, &[52, 1, 4]);
    assert_eq!(world.client.receive(world.now, &overload), Ok(()), "no field is overloaded");
}

/// As ISC's dhclient reads them: n-dhcp4's issue 16, and servers that leave the end option out.
#[test]
fn options_of_fixed_length_may_come_twice_and_the_end_option_not_at_all() {
    let twice: &[&[u8]] = &[
        &[54, 4, 192, 0, 2, 1],
        &[51, 4, 0, 0, 14, 16],
        &[1, 4, 255, 255, 255, 0],
        &[53, 1, 5],
        &[3, 4, 192, 0, 2, 1, 3, 4, 192, 0, 2, 1, 58, 4, 0, 0, 1, 0, 58, 4, 0, 0, 2, 0],
        &[15, 3, b'o', b'r', b'g', 15, 3, b'o', b'r', b'g'],
    ];
    for options in twice {
        let lease = lease_of(options).unwrap_or_else(|| panic!("a lease with {options:?}"));
        assert_eq!((lease.prefix_len, lease.server), (24, SERVER), "{options:?}");
        assert_eq!(lease.valid, Some(Duration::from_secs(3_600)), "{options:?}");
    }
    assert_eq!(lease_of(twice[4]).unwrap().renew, Duration::from_secs(256), "the first");
    assert_eq!(lease_of(twice[5]).unwrap().search, ["org"], "once");
    let mut world = World::new(config());
    let discover = world.sent();
    // A value in two pieces, which look alike.
    let mut bytes = raw_offer(&discover, &[]);
    let at = bytes.windows(2).position(|w| w == [54, 4]).expect("the server");
    bytes.splice(at..at + 6, [54, 2, 10, 9, 54, 2, 10, 9]);
    assert_eq!(bytes.pop(), Some(255));
    assert_eq!(world.client.receive(world.now, &bytes), Ok(()), "without an end option");
    assert_eq!(world.sent().server(), Some([10, 9, 10, 9].into()));
}

#[test]
fn a_refused_answer_says_why() {
    let mut world = World::new(config());
    let discover = world.sent();
    let mut said = |message: &[u8]| {
        assert!(world.client.receive(world.now, message).is_err());
        let why = world.client.take_refusal().expect("a reason");
        assert_eq!(world.client.refusal(), Some(&why));
        assert_eq!(world.client.take_refusal(), None, "told once");
        why.to_string()
    };
    let mut short = raw_offer(&discover, &[]);
    let at = short.windows(2).position(|w| w == [54, 4]).expect("the server");
    short.splice(at..at + 6, [54, 3, 192, 0, 2]);
    assert_eq!(said(&short), "option 54 (the server's address) of an answer has 3 bytes");
    short.drain(at..at + 5);
    assert_eq!(said(&short), "an answer has no option 54 (the server's address)");
    let mut edge = offer(&discover);
    edge.set_yiaddr([192, 0, 2, 255]);
    let text = said(&edge.to_vec().unwrap());
    assert_eq!(text, "an answer gives 192.0.2.255, which no host of its network can have");
    assert_eq!(said(b"?"), "an answer is no DHCP message, or its options do not fit into it");
    world.hear(&offer(&discover)).unwrap();
    let request = world.sent();
    let mut nak = answer(&request, MessageType::Nak);
    nak.opts_mut().insert(DhcpOption::Message("no \u{1b}[2Jlease".to_owned()));
    world.hear(&nak).unwrap();
    let why = world.client.take_refusal().expect("the refusal").to_string();
    assert_eq!(why, "the server 192.0.2.1 refuses (DHCPNAK): \"no ?[2Jlease\"");
}

/// Values that a renewal does not repeat stay as they were; new ones are taken.
#[test]
fn a_renewal_without_a_router_keeps_the_route() {
    let mut world = World::new(config());
    let before = world.bind();
    world.wait();
    let renewal = world.sent();
    let mut bare = ack(&renewal);
    for code in [
        OptionCode::Router,
        OptionCode::DomainNameServer,
        OptionCode::DomainName,
        OptionCode::SubnetMask,
    ] {
        bare.opts_mut().remove(code);
    }
    world.hear(&bare).unwrap();
    let Some(Action::Renewed(lease)) = world.action() else { panic!("not renewed") };
    assert!(!before.routes.is_empty() && !before.search.is_empty());
    assert_eq!(*lease, before);
    world.wait();
    let renewal = world.sent();
    let other = DhcpOption::Router(vec![[192, 0, 2, 9].into()]);
    world.hear(&ack_with(&renewal, other)).unwrap();
    let Some(Action::Renewed(lease)) = world.action() else { panic!("not renewed") };
    assert_eq!(lease.routes[0].gateway, Some([192, 0, 2, 9].into()));
}

#[test]
fn lists_are_cut_at_their_limit() {
    let servers = [&[6, 252][..], &[192, 0, 2, 9].repeat(63)].concat();
    assert_eq!(lease_of(&servers).expect("a lease").dns_servers.len(), 32);
    let names = [&[119, 200][..], &[1, b'a', 0, 0].repeat(50)].concat();
    assert_eq!(lease_of(&names).expect("a lease").search.len(), 32);
    let dns = lease_of(&[6, 8, 0, 0, 0, 0, 192, 0, 2, 9]).expect("a lease").dns_servers;
    assert_eq!(dns, [Ipv4Addr::new(192, 0, 2, 9)], "martians are left out");
}

/// A domain name ends in files of the host (CVE-2011-0997).
#[test]
fn domain_names_are_host_names() {
    let domain = |text: &str| {
        let option = [&[15, text.len() as u8], text.as_bytes()].concat();
        lease_of(&option).expect("a lease").search
    };
    assert_eq!(domain("example.org"), ["example.org"]);
    assert!(domain("$(reboot)").is_empty() && domain("a\nnameserver 6.6.6.6").is_empty());
}

#[test]
fn configurations_that_do_not_fit_a_message_are_refused() {
    let refused = |config| Client::new(config, Instant::ZERO).err();
    let long = vec![0; 256];
    assert_eq!(refused(Config { client_id: long, ..config() }), Some(ConfigError::ClientId));
    assert_eq!(refused(Config { client_id: vec![1], ..config() }), Some(ConfigError::ClientId));
    let name = Some("a b".to_owned());
    assert_eq!(refused(Config { hostname: name, ..config() }), Some(ConfigError::Hostname));
    let remembered = Some(Ipv4Addr::BROADCAST);
    assert_eq!(refused(Config { remembered, ..config() }), Some(ConfigError::Remembered));
    assert_eq!(refused(Config { mtu_max: 575, ..config() }), Some(ConfigError::Mtu));
    assert_eq!(refused(Config { client_id: vec![0; 255], ..config() }), None);
}

/// One thing that happens to a client.
#[derive(Clone, Debug)]
enum Event {
    Bytes(Vec<u8>),
    /// A message with the right transaction id: its type, and its options' bytes.
    Message(u8, Vec<u8>),
    Option(u8, Vec<u8>),
    Wait,
    Later(u32),
    Probed(bool),
    LinkUp,
    Stop,
}

fn event() -> impl Strategy<Value = Event> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    prop_oneof![
        bytes(600).prop_map(Event::Bytes),
        (1u8..8, bytes(80)).prop_map(|(kind, options)| Event::Message(kind, options)),
        (2u8..7, Just(Vec::new())).prop_map(|(kind, options)| Event::Message(kind, options)),
        (prop::sample::select(vec![1u8, 3, 6, 15, 26, 51, 54, 58, 59, 119, 121]), bytes(20))
            .prop_map(|(code, value)| Event::Option(code, value)),
        Just(Event::Wait),
        any::<u32>().prop_map(Event::Later),
        any::<bool>().prop_map(Event::Probed),
        Just(Event::LinkUp),
        prop::bool::weighted(0.1).prop_map(|stop| if stop { Event::Stop } else { Event::Wait }),
    ]
}

proptest! {
    /// Any bytes at any time: no panic, no message that cannot be read, no address that is not
    /// announced, and never more than a few actions at once.
    #[test]
    fn any_events_in_any_order_are_taken(events in prop::collection::vec(event(), 0..60)) {
        let mut world = World::new(config());
        let mut last = world.sent();
        let mut acquired = None;
        for event in events {
            let (now, client) = (world.now, &mut world.client);
            match event {
                Event::Bytes(bytes) => drop(client.receive(now, &bytes)),
                Event::Message(kind, options) => {
                    let mut bytes = ack(&last).to_vec().unwrap();
                    let at = bytes.windows(3).position(|w| w == [53, 1, 5]).unwrap();
                    bytes[at + 2] = kind;
                    bytes.pop();
                    bytes.extend(options);
                    bytes.push(255);
                    let _ = client.receive(now, &bytes);
                }
                Event::Option(code, data) => {
                    let option = DhcpOption::Unknown(UnknownOption::new(code.into(), data));
                    let _ = client.receive(now, &ack_with(&last, option).to_vec().unwrap());
                }
                Event::Wait => {
                    let most = now + Duration::from_secs(1 << 20);
                    world.now = now.max(client.deadline().min(most));
                }
                Event::Later(ms) => world.now += Duration::from_millis(u64::from(ms)),
                Event::Probed(conflict) => client.probed(now, conflict),
                Event::LinkUp => client.link_up(now),
                Event::Stop => client.stop(now),
            }
            let mut actions = 0;
            while let Some(action) = world.client.poll(world.now) {
                actions += 1;
                prop_assert!(actions <= 8, "{action:?}");
                match action {
                    Action::Send { source, destination, message } => {
                        let message = v4::Message::from_bytes(&message).expect("readable");
                        last = Heard { at: world.now, source, destination, message };
                    }
                    Action::Probe(_) => prop_assert_eq!(acquired, None),
                    Action::Acquired(lease) => {
                        prop_assert_eq!(acquired.replace(lease.address), None);
                    }
                    Action::Renewed(lease) => prop_assert_eq!(acquired, Some(lease.address)),
                    Action::Lost { address, .. } => {
                        prop_assert_eq!(acquired.take(), Some(address));
                    }
                }
            }
            prop_assert_eq!(world.client.lease().map(|lease| lease.address), acquired);
            prop_assert!(world.client.deadline() > world.now);
        }
    }
}
