//! The states of RFC 2131 figure 5, one path after the other, in virtual time.

use base::DropReason;

use super::*;

fn seconds_between(earlier: &Heard, later: &Heard) -> f64 {
    later.at.since(earlier.at).as_secs_f64()
}

/// RFC 2131 4.4.1-e, 4.4.1-f, 4.1-c. RFC 4361 6.1-a.
#[test]
fn an_address_is_asked_for_probed_and_acquired() {
    let mut world =
        World::new(Config { hostname: Some("mill".to_owned()), broadcast: true, ..config() });
    let discover = world.sent();
    assert_eq!(
        (discover.source, discover.destination),
        (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
    );
    assert_eq!(discover.message.chaddr(), HARDWARE.0);
    assert!(discover.message.flags().broadcast());
    assert_eq!((discover.requested(), discover.server()), (None, None));
    let Some(DhcpOption::ClientIdentifier(id)) =
        discover.message.opts().get(OptionCode::ClientIdentifier)
    else {
        panic!("a client identifier")
    };
    assert_eq!(id[..], [255, 0, 0, 0, 1, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1]);
    let name = DhcpOption::Hostname("mill".to_owned());
    assert_eq!(discover.message.opts().get(OptionCode::Hostname), Some(&name));

    world.later(2);
    world.hear(&offer(&discover)).expect("a good offer");
    let request = world.sent();
    assert_eq!((request.source, request.destination), (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
    assert_eq!(request.message.xid(), discover.message.xid());
    assert_eq!((discover.message.secs(), request.message.secs()), (0, 2));
    assert_eq!((request.requested(), request.server()), (Some(ADDRESS), Some(SERVER)));

    world.hear(&ack(&request)).expect("a good acknowledgment");
    assert_eq!(world.action(), Some(Action::Probe(ADDRESS)));
    assert_eq!((world.client.state(), world.client.lease()), (State::Probing, None));
    world.client.probed(world.now, false);
    let Some(Action::Acquired(lease)) = world.action() else { panic!("a lease") };
    assert_eq!((lease.address, lease.prefix_len, lease.server), (ADDRESS, 24, SERVER));
    let default = Route { destination: "0.0.0.0/0".parse().unwrap(), gateway: Some(SERVER) };
    assert_eq!(lease.routes, [default]);
    assert_eq!(lease.dns_servers, [SERVER, Ipv4Addr::new(198, 51, 100, 53)]);
    assert_eq!(lease.search, ["example.org"]);
    assert_eq!(lease.valid, Some(Duration::from_secs(3_600)));
    assert_eq!((world.client.state(), world.client.lease()), (State::Bound, Some(&*lease)));
}

/// RFC 2131 4.1-a, 4.1-b.
#[test]
fn discovery_is_repeated_after_4_8_16_32_and_64_seconds_more_or_less() {
    let mut differences = Vec::new();
    for secret in 0..20 {
        let mut world = World::new(Config { secret: KeyedHash::new(secret, 0), ..config() });
        let mut last = world.sent();
        for expected in [4.0, 8.0, 16.0, 32.0, 64.0, 64.0, 64.0] {
            world.wait();
            let next = world.sent();
            assert_eq!(next.kind(), MessageType::Discover);
            assert_eq!(next.message.xid(), last.message.xid());
            let difference = seconds_between(&last, &next) - expected;
            assert!(difference.abs() <= 1.0, "{difference} from {expected}");
            differences.push(difference);
            last = next;
        }
        assert!(last.message.secs() > 240);
    }
    assert!(differences.iter().any(|&d| d > 0.5) && differences.iter().any(|&d| d < -0.5));
}

/// RFC 2131 4.4.1-a.
#[test]
fn the_first_message_can_be_delayed_by_one_to_ten_seconds() {
    for secret in 0..20 {
        let secret = KeyedHash::new(secret, 0);
        let mut world = World::new(Config { secret, startup_delay: true, ..config() });
        let began = world.now;
        world.wait();
        let waited = world.sent().at.since(began);
        assert!((1_000..=10_000).contains(&waited.as_millis()), "{waited:?}");
    }
}

/// RFC 2131 3.1-e.
#[test]
fn an_offer_that_is_not_acknowledged_is_given_up_after_a_minute() {
    let mut world = World::new(config());
    let discover = world.sent();
    world.hear(&offer(&discover)).expect("a good offer");
    let first = world.sent();
    for _ in 1..4 {
        world.wait();
        assert_eq!(world.sent().kind(), MessageType::Request);
    }
    world.wait();
    let again = world.sent();
    assert_eq!(again.kind(), MessageType::Discover);
    assert_ne!(again.message.xid(), discover.message.xid());
    assert!((57.0..63.0).contains(&seconds_between(&first, &again)));
}

/// RFC 2131 4.4.5-a, 4.4.5-b, 4.4.5-c, 4.4.5-d, 4.4.5-e, 4.4.4-a, 4.3.2-a, 4.4.1-g.
#[test]
fn a_lease_is_renewed_from_its_server_then_from_all_and_expires() {
    let mut world = World::new(config());
    let discover = world.sent();
    world.hear(&offer(&discover)).unwrap();
    let request = world.sent();
    world.later(3);
    world.hear(&ack(&request)).unwrap();
    world.action();
    world.client.probed(world.now, false);
    assert!(matches!(world.action(), Some(Action::Acquired(_))));
    // Times count from the request, which was sent three seconds ago.
    let since = |world: &World| world.now.since(request.at).as_secs_f64();
    world.wait();
    let renewal = world.sent();
    assert!((1_743.0..=1_800.0).contains(&since(&world)), "T1 at {}", since(&world));
    assert_eq!((renewal.source, renewal.destination), (ADDRESS, SERVER));
    assert_eq!((renewal.message.ciaddr(), renewal.requested()), (ADDRESS, None));
    assert_eq!((renewal.server(), world.client.state()), (None, State::Renewing));
    let mut renewals = vec![renewal];
    let rebinding = loop {
        world.wait();
        let next = world.sent();
        if next.destination == Ipv4Addr::BROADCAST {
            break next;
        }
        let gap = seconds_between(renewals.last().unwrap(), &next);
        assert!(gap >= 60.0, "{gap}");
        renewals.push(next);
    };
    assert!((3..=10).contains(&renewals.len()), "{} renewals", renewals.len());
    assert!((3_107.0..=3_150.0).contains(&since(&world)), "T2 at {}", since(&world));
    assert_eq!((rebinding.source, rebinding.message.ciaddr()), (ADDRESS, ADDRESS));
    assert_eq!(world.client.state(), State::Rebinding);
    let lost = loop {
        world.wait();
        match world.action() {
            Some(Action::Send { .. }) => {}
            other => break other,
        }
    };
    assert_eq!(lost, Some(Action::Lost { address: ADDRESS, reason: LossReason::Expired }));
    assert_eq!(since(&world), 3_600.0);
    assert_eq!(world.sent().kind(), MessageType::Discover);
}

#[test]
fn a_renewed_lease_keeps_its_address_and_is_not_probed_again() {
    let mut world = World::new(config());
    world.bind();
    for server_answers_at in [State::Renewing, State::Rebinding] {
        let request = loop {
            world.wait();
            let request = world.sent();
            if world.client.state() == server_answers_at {
                break request;
            }
        };
        world.hear(&ack_with(&request, DhcpOption::Renewal(100))).unwrap();
        let Some(Action::Renewed(lease)) = world.action() else { panic!("renewed") };
        assert_eq!((lease.address, lease.renew), (ADDRESS, Duration::from_secs(100)));
        assert_eq!(world.client.state(), State::Bound);
        world.wait();
        let gap = world.now.since(request.at).as_secs_f64();
        assert!((96.0..=100.0).contains(&gap), "the server's T1: {gap}");
        world.sent();
    }
}

#[test]
fn an_infinite_lease_has_no_deadline() {
    let mut world = World::new(config());
    let discover = world.sent();
    world.hear(&offer(&discover)).unwrap();
    let request = world.sent();
    world.hear(&ack_with(&request, DhcpOption::AddressLeaseTime(u32::MAX))).unwrap();
    world.action();
    world.client.probed(world.now, false);
    let Some(Action::Acquired(lease)) = world.action() else { panic!("a lease") };
    assert_eq!((lease.valid, world.client.deadline()), (None, Instant::NEVER));
}

/// RFC 2131 3.1-d.
#[test]
fn a_conflict_is_declined_and_ten_seconds_pass() {
    for acquired in [false, true] {
        let mut world = World::new(config());
        if acquired {
            world.bind();
        } else {
            let discover = world.sent();
            world.hear(&offer(&discover)).unwrap();
            let request = world.sent();
            world.hear(&ack(&request)).unwrap();
            assert_eq!(world.action(), Some(Action::Probe(ADDRESS)));
        }
        world.client.probed(world.now, true);
        if acquired {
            let lost = Action::Lost { address: ADDRESS, reason: LossReason::Conflict };
            assert_eq!(world.action(), Some(lost));
        }
        let decline = world.sent();
        assert_eq!(decline.kind(), MessageType::Decline);
        assert_eq!((decline.requested(), decline.server()), (Some(ADDRESS), Some(SERVER)));
        assert_eq!(
            (decline.source, decline.destination),
            (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
        );
        assert!(decline.message.ciaddr().is_unspecified());
        assert!(!decline.message.opts().contains(OptionCode::ParameterRequestList));
        world.wait();
        let again = world.sent();
        assert_eq!(again.kind(), MessageType::Discover);
        assert!(seconds_between(&decline, &again) >= 10.0);
    }
}

/// RFC 2131 3.1-f.
#[test]
fn a_refusal_starts_again_and_more_slowly_each_time() {
    let mut world = World::new(config());
    let mut gaps = Vec::new();
    let mut discover = world.sent();
    for _ in 0..9 {
        world.hear(&offer(&discover)).unwrap();
        let request = world.sent();
        world.hear(&answer(&request, MessageType::Nak)).unwrap();
        if world.client.deadline() > world.now {
            world.wait();
        }
        let next = world.sent();
        assert_eq!(next.kind(), MessageType::Discover);
        gaps.push(seconds_between(&request, &next));
        discover = next;
    }
    assert_eq!(gaps, [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0]);
}

#[test]
fn a_refused_renewal_takes_the_address_away() {
    let mut world = World::new(config());
    world.bind();
    world.wait();
    let renewal = world.sent();
    world.hear(&answer(&renewal, MessageType::Nak)).unwrap();
    let lost = Action::Lost { address: ADDRESS, reason: LossReason::Refused };
    assert_eq!(world.action(), Some(lost));
    assert_eq!(world.sent().kind(), MessageType::Discover);
}

/// RFC 2131 3.1-c.
#[test]
fn once_a_server_is_chosen_others_are_not_listened_to() {
    let mut world = World::new(config());
    let discover = world.sent();
    world.hear(&offer(&discover)).unwrap();
    let request = world.sent();
    let other = DhcpOption::ServerIdentifier([192, 0, 2, 2].into());
    for kind in [MessageType::Ack, MessageType::Nak] {
        let mut message = ack_with(&request, other.clone());
        message.opts_mut().insert(DhcpOption::MessageType(kind));
        assert_eq!(world.hear(&message), Err(DropReason::DhcpOtherServer));
    }
    assert_eq!(world.hear(&offer(&discover)), Err(DropReason::DhcpUnexpected), "one offer is kept");
    world.hear(&ack(&request)).unwrap();
    world.action();
    world.client.probed(world.now, false);
    world.action();
    world.wait();
    let renewal = world.sent();
    let dropped = world.hear(&ack_with(&renewal, other.clone()));
    assert_eq!(dropped, Err(DropReason::DhcpOtherServer), "while renewing");
    while world.client.state() == State::Renewing {
        world.wait();
        world.action();
    }
    let rebinding = Heard { message: renewal.message, ..discover };
    assert_eq!(world.hear(&ack_with(&rebinding, other)), Err(DropReason::DhcpNotForUs), "old");
    assert_eq!(world.client.drops().of(DropReason::DhcpOtherServer), 3);
}

/// RFC 2131 4.4.1-b. RFC 6842 3-a.
#[test]
fn answers_to_others_are_dropped() {
    let mut world = World::new(config());
    let discover = world.sent();
    let mut other_xid = offer(&discover);
    other_xid.set_xid(discover.message.xid() ^ 1);
    let mut other_hardware = offer(&discover);
    other_hardware.set_chaddr(&[2, 0, 0, 0, 0, 2]);
    let mut other_id = offer(&discover);
    other_id.opts_mut().insert(DhcpOption::ClientIdentifier(vec![1, 2, 0, 0, 0, 0, 1]));
    for message in [other_xid, other_hardware, other_id] {
        assert_eq!(world.hear(&message), Err(DropReason::DhcpNotForUs));
    }
    assert_eq!(world.hear(&ack(&discover)), Err(DropReason::DhcpUnexpected));
    assert_eq!(world.client.drops().total(), 4);
    let mut ours = offer(&discover);
    ours.opts_mut().insert(DhcpOption::ClientIdentifier(config().client_id));
    world.hear(&ours).expect("an identifier that came back");
}

/// RFC 2131 3.2-a, 4.3.2-a.
#[test]
fn the_remembered_address_is_asked_for_first() {
    let mut world = World::new(Config { remembered: Some(ADDRESS), ..config() });
    let request = world.sent();
    assert_eq!((request.kind(), world.client.state()), (MessageType::Request, State::Rebooting));
    assert_eq!((request.requested(), request.server()), (Some(ADDRESS), None));
    assert!(request.message.ciaddr().is_unspecified());
    let mut silent = World { client: world.client.clone(), now: world.now };
    world.hear(&ack(&request)).unwrap();
    assert_eq!(world.action(), Some(Action::Probe(ADDRESS)));
    silent.wait();
    assert_eq!(silent.sent().kind(), MessageType::Request);
    silent.wait();
    assert_eq!(silent.sent().kind(), MessageType::Discover, "nobody answers");
}

/// RFC 2131 3.7-a, 3.2-a.
#[test]
fn after_a_link_down_the_address_is_confirmed_refused_or_kept() {
    for answered in [Some(MessageType::Ack), Some(MessageType::Nak), None] {
        let mut world = World::new(config());
        world.bind();
        world.later(100);
        world.client.link_up(world.now);
        let request = world.sent();
        assert_eq!((request.requested(), request.server()), (Some(ADDRESS), None));
        match answered {
            Some(MessageType::Ack) => {
                world.hear(&ack(&request)).unwrap();
                assert!(matches!(world.action(), Some(Action::Renewed(_))));
            }
            Some(_) => {
                world.hear(&answer(&request, MessageType::Nak)).unwrap();
                let lost = Action::Lost { address: ADDRESS, reason: LossReason::Refused };
                assert_eq!(world.action(), Some(lost));
            }
            None => {
                world.wait();
                assert_eq!(world.sent().kind(), MessageType::Request);
                world.wait();
                assert_eq!(world.action(), None);
                assert_eq!(world.client.state(), State::Bound);
                world.wait();
                assert_eq!(world.sent().destination, SERVER, "renewed at T1");
            }
        }
    }
}

/// RFC 2131 4.4.6-a.
#[test]
fn a_stopped_client_gives_its_address_back() {
    let mut world = World::new(config());
    world.bind();
    world.client.stop(world.now);
    let release = world.sent();
    assert_eq!(release.kind(), MessageType::Release);
    assert_eq!((release.source, release.destination), (ADDRESS, SERVER));
    assert_eq!((release.message.ciaddr(), release.server()), (ADDRESS, Some(SERVER)));
    let lost = Action::Lost { address: ADDRESS, reason: LossReason::Released };
    assert_eq!(world.action(), Some(lost));
    assert_eq!((world.action(), world.client.deadline()), (None, Instant::NEVER));
    assert_eq!(world.hear(&ack(&release)), Err(DropReason::DhcpUnexpected));
    world.client.link_up(world.now);
    world.client.stop(world.now);
    assert_eq!((world.action(), world.client.state()), (None, State::Stopped));
}
