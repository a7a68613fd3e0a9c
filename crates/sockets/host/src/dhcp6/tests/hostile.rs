//! Messages that servers, or attackers in their place, can send. RFC 8415 section 22.

use base::Limit;
use dhcproto::v6::UnknownOption;
use proptest::prelude::*;

use super::*;

/// The client after an Advertise was taken, and its Request.
fn requesting() -> (World, Heard) {
    let mut world = World::new(config());
    let solicit = world.sent();
    world.hear(&give(&solicit, MessageType::Advertise, ADDRESS)).unwrap();
    let request = world.sent();
    (world, request)
}

/// The bytes of a Reply with options of these bytes after the identifiers.
fn raw_reply(to: &Heard, options: &[u8]) -> Vec<u8> {
    let mut bytes = answer(to, MessageType::Reply).to_vec().unwrap();
    bytes.extend(options);
    bytes
}

/// RFC 8415 16-a, 16.3-a, 16.10-a.
#[test]
fn messages_without_the_identifiers_and_of_other_kinds_are_dropped() {
    let mut world = World::new(config());
    let solicit = world.sent();
    let good = give(&solicit, MessageType::Advertise, ADDRESS);
    let mut other_xid = good.clone();
    other_xid.set_xid_num(solicit.message.xid_num() ^ 1);
    let mut no_client = good.clone();
    no_client.opts_mut().remove(OptionCode::ClientId);
    let other_client = with(no_client.clone(), DhcpOption::ClientId(SERVER.to_vec()));
    for message in [other_xid, no_client, other_client] {
        assert_eq!(world.hear(&message), Err(DropReason::DhcpNotForUs));
    }
    let mut no_server = good.clone();
    no_server.opts_mut().remove(OptionCode::ServerId);
    let long_server = of_server(good.clone(), &[0; 131]);
    let short_server = of_server(good.clone(), &[0, 3]);
    for message in [no_server, long_server, short_server] {
        assert_eq!(world.hear(&message), Err(DropReason::DhcpMalformed));
    }
    for kind in (0..=255).filter(|kind| ![2, 7].contains(kind)) {
        let mut message = good.clone();
        message.set_msg_type(MessageType::from(kind));
        assert_eq!(world.hear(&message), Err(DropReason::DhcpMalformed), "{kind}");
    }
    assert_eq!(world.client.drops().total(), 3 + 3 + 254);
    world.hear(&good).expect("a good one");
}

#[test]
fn lengths_of_options_are_checked() {
    let (mut world, request) = requesting();
    let malformed: &[&[u8]] =
        &[&[0], &[0, 3, 0], &[0, 3, 0, 1], &[0, 23, 255, 255], &[0, 13, 0, 2, 0]];
    for options in malformed {
        let outcome = world.client.receive(world.now, &raw_reply(&request, options));
        assert_eq!(outcome, Err(DropReason::DhcpMalformed), "{options:?}");
    }
    let whole = give(&request, MessageType::Reply, ADDRESS).to_vec().unwrap();
    // Without its last 20 bytes, the DNS servers, it ends between two options and is a valid
    // message.
    for length in (0..whole.len()).filter(|&length| length != whole.len() - 20) {
        assert!(world.client.receive(world.now, &whole[..length]).is_err(), "{length} bytes");
    }
    // Identity associations that are too short, and an address and options that end behind them.
    let address = [[0, 5, 0, 24].as_slice(), &ADDRESS.octets(), &[0, 0, 14, 16, 0, 0, 28, 32]];
    let address = address.concat();
    let ia = |inner: &[u8]| {
        let length = (12 + inner.len()) as u16;
        let head = [[0, 3].as_slice(), &length.to_be_bytes(), &[0, 0, 0, 1], &[0; 8]].concat();
        [&head[..], inner].concat()
    };
    let unusable = [
        vec![0, 3, 0, 0],
        vec![0, 3, 0, 4, 0, 0, 0, 1],
        ia(&[]),
        ia(&address[..20]),
        ia(&[0, 5, 0, 0]),
    ];
    for options in unusable {
        let outcome = world.client.receive(world.now, &raw_reply(&request, &options));
        assert_eq!(outcome, Err(DropReason::DhcpUnusable), "{options:?}");
    }
    let outcome = world.client.receive(world.now, &raw_reply(&request, &ia(&address)));
    assert_eq!(outcome, Ok(()));
}

/// Options in options without an end overflow the stack of readers that recurse.
#[test]
fn nested_options_need_no_stack() {
    let (mut world, request) = requesting();
    world.client.budget_mut().set(Limit::DhcpMessageBytes, 65_535);
    for (code, head) in [(3u16, 12), (5, 24), (17, 4), (9, 34)] {
        let mut nested = Vec::new();
        while nested.len() + head + 4 < 65_000 {
            let mut option = code.to_be_bytes().to_vec();
            option.extend(((nested.len() + head) as u16).to_be_bytes());
            option.extend(vec![0; head]);
            option.extend(&nested);
            nested = option;
            if code == 17 && nested.len() > 20_000 {
                break;
            }
        }
        let outcome = world.client.receive(world.now, &raw_reply(&request, &nested));
        assert_eq!(outcome, Err(DropReason::DhcpUnusable), "option {code}");
    }
    world.client.budget_mut().set(Limit::DhcpMessageBytes, 4_096);
    let long = raw_reply(&request, &[&[0, 99, 0x10, 0][..], &[0; 4_096]].concat());
    assert_eq!(world.client.receive(world.now, &long), Err(DropReason::DhcpMalformed));
    assert_eq!(world.client.budget_mut().hits(Limit::DhcpMessageBytes), 1);
}

/// RFC 8415 21.4-a, 21.6-a.
#[test]
fn addresses_and_times_that_no_host_can_use_are_refused() {
    let (mut world, request) = requesting();
    let reply = |ia| with(answer(&request, MessageType::Reply), DhcpOption::IANA(ia));
    let martians = ["::", "::1", "ff02::1", "fe80::7", "::ffff:192.0.2.1"];
    for address in martians {
        let message = reply(ia_of(address.parse().unwrap(), 3_600, 7_200));
        assert_eq!(world.hear(&message), Err(DropReason::DhcpUnusable), "{address}");
    }
    let preferred_longer = reply(ia_of(ADDRESS, 7_201, 7_200));
    let t1_after_t2 = reply(IANA { t1: 200, t2: 100, ..ia_of(ADDRESS, 3_600, 7_200) });
    let other_ia = reply(IANA { id: 2, ..ia_of(ADDRESS, 3_600, 7_200) });
    for message in [preferred_longer, t1_after_t2, other_ia] {
        assert_eq!(world.hear(&message), Err(DropReason::DhcpUnusable));
    }
    assert_eq!(world.client.state(), State::Requesting);
}

/// RFC 8415 21.4-b.
#[test]
fn renewals_are_never_sent_in_a_loop() {
    for (t1, t2, first) in [(1, 2, 5.0), (0, 0, 1_800.0), (600, 0, 600.0), (0, 400, 400.0)] {
        let (mut world, request) = requesting();
        let ia = IANA { t1, t2, ..ia_of(ADDRESS, 3_600, 7_200) };
        world.hear(&with(answer(&request, MessageType::Reply), DhcpOption::IANA(ia))).unwrap();
        world.finish();
        let renewal = world.sent();
        assert_eq!(renewal.at.since(request.at).as_secs_f64(), first, "T1 {t1}, T2 {t2}");
    }
    let (mut world, request) = requesting();
    let short = with(answer(&request, MessageType::Reply), DhcpOption::IANA(ia_of(ADDRESS, 1, 1)));
    assert_eq!(world.hear(&short), Err(DropReason::DhcpRefused));
    let (mut world, request) = requesting();
    let ever = IANA { ..ia_of(ADDRESS, u32::MAX, u32::MAX) };
    world.hear(&with(answer(&request, MessageType::Reply), DhcpOption::IANA(ever))).unwrap();
    assert_eq!(world.finish().valid, None);
    assert_eq!(world.client.deadline(), Instant::NEVER);
}

/// RFC 8415 18.2.9-a, 21.24-a.
#[test]
fn sol_max_rt_is_taken_from_any_advertise_if_it_is_in_its_range() {
    for (seconds, longest) in [(59, 3_960.0), (60, 66.0), (86_400, 95_040.0), (86_401, 3_960.0)] {
        let mut world = World::new(config());
        let solicit = world.sent();
        let option = UnknownOption::new(OptionCode::from(82), u32::to_be_bytes(seconds).to_vec());
        let message = with(answer(&solicit, MessageType::Advertise), status(Status::NoAddrsAvail));
        let message = with(message, DhcpOption::Unknown(option));
        assert_eq!(world.hear(&message), Err(DropReason::DhcpUnusable));
        let mut last = solicit;
        let mut gap = 0.0;
        for _ in 0..22 {
            let next = world.sent();
            gap = next.at.since(last.at).as_secs_f64();
            last = next;
        }
        assert!(gap <= longest && gap >= longest * 0.8, "{seconds}: {gap}");
    }
}

#[test]
fn lists_are_cut_at_their_limit_and_martians_left_out() {
    let (mut world, request) = requesting();
    let mut servers = vec![Ipv6Addr::UNSPECIFIED, "ff02::1".parse().unwrap()];
    servers.extend([DNS; 40]);
    let mut reply = give(&request, MessageType::Reply, ADDRESS);
    reply.opts_mut().remove(OptionCode::DomainNameServers);
    let mut bytes = with(reply, DhcpOption::DomainNameServers(servers)).to_vec().unwrap();
    bytes.extend([&[0, 24, 0, 120][..], &[1, b'a', 0].repeat(40)].concat());
    world.client.receive(world.now, &bytes).unwrap();
    let information = world.finish().information;
    assert_eq!(information.dns_servers, [DNS; 32]);
    assert_eq!(information.search, ["a"; 32]);
    assert_eq!(world.client.budget_mut().hits(Limit::DhcpListEntries), 1);
}

#[test]
fn duids_of_other_lengths_are_refused() {
    for length in [0, 2, 131] {
        let config = Config { duid: vec![0; length], ..config() };
        assert_eq!(Client::new(config, Instant::ZERO).err(), Some(ConfigError::Duid));
    }
    let duid = duid_of_uuid([7; 16]);
    assert_eq!((duid.len(), &duid[..3]), (18, &[0, 4, 7][..]));
    assert!(Client::new(Config { duid, ..config() }, Instant::ZERO).is_ok());
}

/// One thing that happens to a client.
#[derive(Clone, Debug)]
enum Event {
    Bytes(Vec<u8>),
    /// A message of the right transaction: its kind, and its options' bytes.
    Message(bool, Vec<u8>),
    /// An address with these times, T1 and T2, a status.
    Give(bool, [u32; 4], u16, bool),
    Option(u16, Vec<u8>),
    Wait,
    Later(u32),
    Probed(bool),
    LinkUp,
    Stop,
}

fn event() -> impl Strategy<Value = Event> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let seconds = || prop_oneof![Just(0), 0u32..20_000, any::<u32>()];
    let times = [seconds(), seconds(), seconds(), seconds()];
    prop_oneof![
        1 => bytes(600).prop_map(Event::Bytes),
        1 => (any::<bool>(), bytes(80)).prop_map(|(kind, options)| Event::Message(kind, options)),
        4 => (any::<bool>(), times, 0u16..7, any::<bool>())
            .prop_map(|(kind, times, status, other)| {
                Event::Give(kind, times, status.saturating_sub(3), other)
            }),
        1 => (prop::sample::select(vec![1u16, 2, 3, 5, 7, 13, 23, 24, 32, 82, 83]), bytes(60))
            .prop_map(|(code, value)| Event::Option(code, value)),
        4 => Just(Event::Wait),
        1 => any::<u32>().prop_map(Event::Later),
        3 => prop::bool::weighted(0.2).prop_map(Event::Probed),
        1 => Just(Event::LinkUp),
        1 => prop::bool::weighted(0.1).prop_map(|s| if s { Event::Stop } else { Event::Wait }),
    ]
}

fn kind_of(is_reply: bool) -> MessageType {
    if is_reply { MessageType::Reply } else { MessageType::Advertise }
}

fn happen(world: &mut World, last: &Heard, event: Event) {
    let (now, client) = (world.now, &mut world.client);
    match event {
        Event::Bytes(bytes) => drop(client.receive(now, &bytes)),
        Event::Message(is_reply, options) => {
            let mut bytes = answer(last, kind_of(is_reply)).to_vec().unwrap();
            bytes.extend(options);
            let _ = client.receive(now, &bytes);
        }
        Event::Give(is_reply, [t1, t2, preferred, valid], code, other) => {
            let address = if other { OTHER_ADDRESS } else { ADDRESS };
            let mut ia = IANA { t1, t2, ..ia_of(address, preferred, valid) };
            ia.opts.insert(status(Status::from(code)));
            let message = with(answer(last, kind_of(is_reply)), DhcpOption::IANA(ia));
            let _ = client.receive(now, &with(message, DhcpOption::RapidCommit).to_vec().unwrap());
        }
        Event::Option(code, data) => {
            let message = give(last, MessageType::Reply, ADDRESS);
            let option = DhcpOption::Unknown(UnknownOption::new(code.into(), data));
            let _ = client.receive(now, &with(message, option).to_vec().unwrap());
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
}

proptest! {
    /// Any bytes at any time: no panic, no message that cannot be read, no address that is not
    /// announced, and never more than a few actions at once.
    #[test]
    fn any_events_in_any_order_are_taken(
        stateless in prop::bool::weighted(0.2),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mode = if stateless { Mode::Stateless } else { Mode::Stateful };
        let mut world = World::new(Config { mode, ..config() });
        let mut last = world.sent();
        let mut acquired = None;
        for event in events {
            happen(&mut world, &last, event);
            let mut actions = 0;
            while let Some(action) = world.client.poll(world.now) {
                actions += 1;
                prop_assert!(actions <= 8, "{action:?}");
                match action {
                    Action::Send(message) => {
                        let message = v6::Message::from_bytes(&message).expect("readable");
                        last = Heard { at: world.now, message };
                    }
                    Action::Probe(_) => prop_assert_eq!(acquired, None),
                    Action::Acquired(lease) => {
                        prop_assert_eq!(acquired.replace(lease.address), None);
                    }
                    Action::Renewed(lease) => prop_assert_eq!(acquired, Some(lease.address)),
                    Action::Lost { address, .. } => {
                        prop_assert_eq!(acquired.take(), Some(address));
                    }
                    Action::Informed(_) => prop_assert!(stateless),
                }
            }
            prop_assert_eq!(world.client.lease().map(|lease| lease.address), acquired);
            prop_assert!(world.client.deadline() > world.now);
        }
    }
}
