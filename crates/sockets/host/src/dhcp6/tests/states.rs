//! The exchanges of RFC 8415 section 18.2, one after the other, in virtual time.

use dhcproto::v6::ORO;

use super::*;

fn seconds_between(earlier: &Heard, later: &Heard) -> f64 {
    later.at.since(earlier.at).as_secs_f64()
}

/// RFC 8415 18.2.1-a, 18.2.1-c, 18.2.2-a, 18.2.10-e, 21.7-a.
#[test]
fn an_address_is_solicited_requested_probed_and_acquired() {
    let mut world = World::new(config());
    let began = world.now;
    let solicit = world.sent();
    assert!(solicit.at.since(began) <= Duration::from_secs(1));
    assert_eq!(
        (solicit.kind(), solicit.address(), solicit.server()),
        (MessageType::Solicit, None, None)
    );
    assert_eq!(solicit.elapsed(), 0);
    assert!(solicit.message.opts().get(OptionCode::RapidCommit).is_some());
    let Some(DhcpOption::ORO(ORO { opts })) = solicit.message.opts().get(OptionCode::ORO) else {
        panic!("an option request")
    };
    let asked: Vec<u16> = opts.iter().map(|&code| code.into()).collect();
    assert_eq!(asked, [23, 24, 82]);
    world.hear(&give(&solicit, MessageType::Advertise, ADDRESS)).unwrap();
    let request = world.sent();
    assert_eq!((request.kind(), request.address()), (MessageType::Request, Some(ADDRESS)));
    assert_eq!(request.server(), Some(SERVER));
    assert_ne!(request.message.xid(), solicit.message.xid());
    world.hear(&give(&request, MessageType::Reply, ADDRESS)).unwrap();
    assert_eq!(world.client.lease(), None);
    let lease = world.finish();
    assert_eq!((lease.address, lease.information.dns_servers), (ADDRESS, vec![DNS]));
    assert_eq!(lease.preferred, Some(Duration::from_secs(3_600)));
    assert_eq!(lease.valid, Some(Duration::from_secs(7_200)));
    assert_eq!(world.client.state(), State::Bound);
}

/// RFC 8415 15-a, 7.6-a, 18.2.1-b.
#[test]
fn solicits_are_repeated_at_doubled_times_up_to_sol_max_rt() {
    for secret in 0..20 {
        let mut world = World::new(Config { secret: KeyedHash::new(secret, 0), ..config() });
        let mut last = world.sent();
        let mut rt: f64 = 0.0;
        for round in 0..18 {
            let next = world.sent();
            let (gap, before) = (seconds_between(&last, &next), rt);
            let (low, high) = match round {
                0 => (1.000_000_001, 1.1),
                _ if before * 2.0 < 3_200.0 => (before * 1.9, before * 2.1),
                _ => (before.min(3_240.0), 3_960.0),
            };
            assert!(low <= gap && gap <= high, "round {round}: {gap} not in {low}..={high}");
            assert_eq!(next.message.xid(), last.message.xid());
            rt = gap;
            last = next;
        }
        assert!((3_240.0..=3_960.0).contains(&rt), "{rt} at the end");
        assert_eq!(last.elapsed(), u16::MAX, "saturated");
    }
}

/// RFC 8415 18.2.1-d, 18.2.1-e, 18.2.9-b.
#[test]
fn advertises_are_collected_and_the_highest_preference_wins() {
    let preferred = |to: &Heard, server: &[u8], address, preference| {
        let message = of_server(give(to, MessageType::Advertise, address), server);
        with(message, DhcpOption::Preference(preference))
    };
    let mut world = World::new(config());
    let solicit = world.sent();
    world.hear(&preferred(&solicit, SERVER, ADDRESS, 5)).unwrap();
    world.hear(&preferred(&solicit, OTHER_SERVER, OTHER_ADDRESS, 9)).unwrap();
    world.hear(&preferred(&solicit, SERVER, ADDRESS, 9)).unwrap();
    let request = world.sent();
    assert!((1.0..=1.1).contains(&seconds_between(&solicit, &request)));
    assert_eq!((request.server(), request.address()), (Some(OTHER_SERVER), Some(OTHER_ADDRESS)));

    let mut world = World::new(config());
    let solicit = world.sent();
    world.hear(&preferred(&solicit, SERVER, ADDRESS, 254)).unwrap();
    world.hear(&preferred(&solicit, OTHER_SERVER, OTHER_ADDRESS, 255)).unwrap();
    let request = world.sent();
    assert_eq!((request.at, request.server()), (solicit.at, Some(OTHER_SERVER)));

    let mut world = World::new(config());
    world.sent();
    let solicit = world.sent();
    world.hear(&preferred(&solicit, SERVER, ADDRESS, 0)).unwrap();
    assert_eq!(world.sent().at, solicit.at, "the first one after a retransmission");
}

/// RFC 8415 18.2.1-f.
#[test]
fn a_rapid_commit_needs_two_messages() {
    let rapid = |to: &Heard| with(give(to, MessageType::Reply, ADDRESS), DhcpOption::RapidCommit);
    let mut world = World::new(config());
    let solicit = world.sent();
    let plain = give(&solicit, MessageType::Reply, ADDRESS);
    assert_eq!(world.hear(&plain), Err(DropReason::DhcpUnexpected));
    world.hear(&rapid(&solicit)).unwrap();
    assert_eq!(world.finish().address, ADDRESS);
    let mut world = World::new(Config { rapid_commit: false, ..config() });
    let solicit = world.sent();
    assert!(solicit.message.opts().get(OptionCode::RapidCommit).is_none());
    assert_eq!(world.hear(&rapid(&solicit)), Err(DropReason::DhcpUnexpected));
}

/// RFC 8415 7.6-a.
#[test]
fn a_request_without_an_answer_is_given_up_after_ten_messages() {
    let mut world = World::new(config());
    let solicit = world.sent();
    world.hear(&give(&solicit, MessageType::Advertise, ADDRESS)).unwrap();
    let mut requests = vec![world.sent()];
    let again = loop {
        let next = world.sent();
        match next.kind() {
            MessageType::Request => requests.push(next),
            _ => break next,
        }
    };
    assert_eq!((requests.len(), again.kind()), (10, MessageType::Solicit));
    let gaps = requests.windows(2).map(|pair| seconds_between(&pair[0], &pair[1]));
    assert!(gaps.fold(0.0, f64::max) <= 33.0);
}

/// RFC 8415 14.2-a, 18.2.4-a, 18.2.5-a, 18.2.5-b.
#[test]
fn a_lease_is_renewed_rebound_and_expires() {
    let mut world = World::new(config());
    world.bind();
    let began = world.now;
    let since = |at: Instant| at.since(began).as_secs_f64();
    let mut renewals = vec![world.sent()];
    assert_eq!((renewals[0].kind(), renewals[0].server()), (MessageType::Renew, Some(SERVER)));
    assert_eq!((renewals[0].address(), since(world.now)), (Some(ADDRESS), 1_800.0));
    let mut rebinds = Vec::new();
    loop {
        world.wait();
        let message = match world.action() {
            Some(Action::Send(message)) => v6::Message::from_bytes(&message).unwrap(),
            Some(Action::Lost { address, reason }) => {
                assert_eq!((address, reason), (ADDRESS, LossReason::Expired));
                break;
            }
            other => panic!("{other:?}"),
        };
        let heard = Heard { at: world.now, message };
        match heard.kind() {
            MessageType::Renew => renewals.push(heard),
            MessageType::Rebind => rebinds.push(heard),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((since(rebinds[0].at), rebinds[0].server()), (2_880.0, None));
    assert_eq!((rebinds[0].address(), since(world.now)), (Some(ADDRESS), 7_200.0));
    let first = seconds_between(&renewals[0], &renewals[1]);
    assert!((9.0..=11.0).contains(&first), "{first}");
    let longest = rebinds.windows(2).map(|pair| seconds_between(&pair[0], &pair[1]));
    assert!((540.0..=660.0).contains(&longest.fold(0.0, f64::max)));
    assert_eq!(world.sent().kind(), MessageType::Solicit);
}

/// RFC 8415 18.2.10-c, 18.2.10-d, 18.2.10-g.
#[test]
fn what_a_server_says_to_a_renewal_is_done() {
    let renewing = || {
        let mut world = World::new(config());
        world.bind();
        let renewal = world.sent();
        (world, renewal)
    };
    let (mut world, renewal) = renewing();
    let other = of_server(give(&renewal, MessageType::Reply, ADDRESS), OTHER_SERVER);
    assert_eq!(world.hear(&other), Err(DropReason::DhcpOtherServer));
    let none = give(&renewal, MessageType::Reply, OTHER_ADDRESS);
    assert_eq!(world.hear(&none), Err(DropReason::DhcpUnusable), "not our address");
    let failed = refuse_ia(&renewal, Status::UnspecFail);
    assert_eq!(world.hear(&failed), Err(DropReason::DhcpRefused));
    world.hear(&give(&renewal, MessageType::Reply, ADDRESS)).unwrap();
    assert!(matches!(world.action(), Some(Action::Renewed(lease)) if lease.address == ADDRESS));
    assert_eq!(world.client.state(), State::Bound);

    let (mut world, renewal) = renewing();
    let ended = with(answer(&renewal, MessageType::Reply), DhcpOption::IANA(ia_of(ADDRESS, 0, 0)));
    world.hear(&ended).unwrap();
    let lost = Action::Lost { address: ADDRESS, reason: LossReason::Refused };
    assert_eq!(world.action(), Some(lost));
    assert_eq!(world.sent().kind(), MessageType::Solicit);

    // RFC 8415 18.2.10-g: after a renumbering, in either order of the two addresses.
    for old_first in [true, false] {
        let (mut world, renewal) = renewing();
        let address = |addr, life| IAAddr {
            addr,
            preferred_life: life,
            valid_life: life,
            opts: Default::default(),
        };
        let mut addresses = [address(ADDRESS, 0), address(OTHER_ADDRESS, 600)];
        if !old_first {
            addresses.reverse();
        }
        let opts = addresses.into_iter().map(DhcpOption::IAAddr).collect();
        let ia = DhcpOption::IANA(IANA { id: IAID, t1: 0, t2: 0, opts });
        world.hear(&with(answer(&renewal, MessageType::Reply), ia)).unwrap();
        let lost = Action::Lost { address: ADDRESS, reason: LossReason::Refused };
        assert_eq!(world.action(), Some(lost));
        assert_eq!(world.finish().address, OTHER_ADDRESS, "the new one");
    }

    let (mut world, renewal) = renewing();
    world.hear(&refuse_ia(&renewal, Status::NoBinding)).unwrap();
    let request = world.sent();
    assert_eq!((request.kind(), request.address()), (MessageType::Request, Some(ADDRESS)));
    assert!(world.client.lease().is_some(), "used on");
    world.hear(&give(&request, MessageType::Reply, ADDRESS)).unwrap();
    assert!(matches!(world.action(), Some(Action::Renewed(_))));

    let (mut world, renewal) = renewing();
    world.hear(&refuse_ia(&renewal, Status::NoBinding)).unwrap();
    let request = world.sent();
    world.hear(&give(&request, MessageType::Reply, OTHER_ADDRESS)).unwrap();
    let lost = Action::Lost { address: ADDRESS, reason: LossReason::Refused };
    assert_eq!(world.action(), Some(lost));
    assert_eq!(world.finish().address, OTHER_ADDRESS);
}

/// RFC 8415 18.2.10-a, 18.2.10-b.
#[test]
fn refused_requests_start_again_ever_more_slowly_and_failed_ones_are_repeated() {
    let mut world = World::new(config());
    let mut gaps = Vec::new();
    let mut solicit = world.sent();
    for code in [Status::NoAddrsAvail, Status::NotOnLink].repeat(4) {
        let now = DhcpOption::Preference(255);
        world.hear(&with(give(&solicit, MessageType::Advertise, ADDRESS), now)).unwrap();
        let request = world.sent();
        assert_eq!(world.hear(&refuse_ia(&request, code)), Err(DropReason::DhcpRefused));
        solicit = world.sent();
        assert_eq!(solicit.kind(), MessageType::Solicit);
        gaps.push(seconds_between(&request, &solicit));
    }
    let backoff = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    assert!(gaps.iter().zip(backoff).all(|(gap, least)| (least..least + 1.0).contains(gap)));

    world
        .hear(&with(give(&solicit, MessageType::Advertise, ADDRESS), DhcpOption::Preference(255)))
        .unwrap();
    let request = world.sent();
    let failed = with(answer(&request, MessageType::Reply), status(Status::UnspecFail));
    assert_eq!(world.hear(&failed), Err(DropReason::DhcpRefused));
    let repeated = world.sent();
    assert_eq!(repeated.message.xid(), request.message.xid());
    assert!(seconds_between(&request, &repeated) >= 0.9);
}

/// RFC 8415 18.2.3-a, 18.2.3-b, 18.2.10-f, 18.2.12-a.
#[test]
fn after_a_link_down_the_address_is_confirmed_refused_or_kept() {
    for answered in [Some(Status::Success), Some(Status::NotOnLink), None] {
        let mut world = World::new(config());
        world.bind();
        world.later(100);
        world.client.link_up(world.now);
        let confirm = world.sent();
        assert_eq!((confirm.kind(), confirm.address()), (MessageType::Confirm, Some(ADDRESS)));
        assert_eq!(confirm.server(), None);
        let reply = |code| with(answer(&confirm, MessageType::Reply), status(code));
        match answered {
            Some(Status::Success) => {
                world.hear(&reply(Status::Success)).unwrap();
                assert_eq!((world.action(), world.client.state()), (None, State::Bound));
            }
            Some(code) => {
                world.hear(&reply(code)).unwrap();
                let lost = Action::Lost { address: ADDRESS, reason: LossReason::Refused };
                assert_eq!(world.action(), Some(lost));
                assert_eq!(world.sent().kind(), MessageType::Solicit);
            }
            None => {
                while world.client.state() == State::Confirming {
                    world.wait();
                    world.action();
                }
                assert!((9.9..=10.1).contains(&world.now.since(confirm.at).as_secs_f64()));
                assert_eq!(world.client.state(), State::Bound);
            }
        }
    }
}

/// RFC 8415 18.2.8-a.
#[test]
fn a_conflict_is_declined_until_the_server_knows() {
    for answered in [true, false] {
        let mut world = World::new(config());
        let solicit = world.sent();
        world.hear(&give(&solicit, MessageType::Advertise, ADDRESS)).unwrap();
        let request = world.sent();
        world.hear(&give(&request, MessageType::Reply, ADDRESS)).unwrap();
        assert_eq!(world.action(), Some(Action::Probe(ADDRESS)));
        world.client.probed(world.now, true);
        let decline = world.sent();
        assert_eq!((decline.kind(), decline.address()), (MessageType::Decline, Some(ADDRESS)));
        assert_eq!(decline.server(), Some(SERVER));
        if answered {
            world.hear(&answer(&decline, MessageType::Reply)).unwrap();
        } else {
            for _ in 1..4 {
                assert_eq!(world.sent().kind(), MessageType::Decline);
            }
        }
        let again = world.sent();
        assert_eq!((again.kind(), again.address()), (MessageType::Solicit, None));
    }
}

/// RFC 8415 18.2.7-a.
#[test]
fn a_stopped_client_releases_its_address() {
    for answered in [true, false] {
        let mut world = World::new(config());
        world.bind();
        world.client.stop(world.now);
        let lost = Action::Lost { address: ADDRESS, reason: LossReason::Released };
        assert_eq!(world.action(), Some(lost), "before the first message");
        let release = world.sent();
        assert_eq!((release.kind(), release.address()), (MessageType::Release, Some(ADDRESS)));
        if answered {
            world.hear(&answer(&release, MessageType::Reply)).unwrap();
        } else {
            for _ in 1..4 {
                assert_eq!(world.sent().kind(), MessageType::Release);
            }
            world.wait();
        }
        assert_eq!((world.action(), world.client.state()), (None, State::Stopped));
        assert_eq!(world.client.deadline(), Instant::NEVER);
    }
}

/// RFC 8415 18.2.6-a, 18.2.6-b, 21.23-a.
#[test]
fn options_alone_are_asked_for_and_refreshed() {
    for (said, expected) in [(None, 86_400), (Some(3_000), 3_000), (Some(1), 600)] {
        let mut world = World::new(Config { mode: Mode::Stateless, ..config() });
        let began = world.now;
        let request = world.sent();
        assert!(request.at.since(began) <= Duration::from_secs(1));
        assert_eq!(request.kind(), MessageType::InformationRequest);
        assert!(request.message.opts().get(OptionCode::IANA).is_none());
        let mut reply = answer(&request, MessageType::Reply);
        reply.opts_mut().insert(DhcpOption::DomainNameServers(vec![DNS]));
        if let Some(seconds) = said {
            reply.opts_mut().insert(DhcpOption::InformationRefreshTime(seconds));
        }
        world.hear(&reply).unwrap();
        let information = Information { dns_servers: vec![DNS], search: Vec::new() };
        assert_eq!(world.action(), Some(Action::Informed(Box::new(information))));
        assert_eq!(world.hear(&reply), Err(DropReason::DhcpUnexpected));
        world.wait();
        assert_eq!(world.now.since(request.at), Duration::from_secs(expected));
        let again = world.sent();
        assert_ne!(again.message.xid(), request.message.xid());
    }
    let mut world = World::new(Config { mode: Mode::Stateless, ..config() });
    let request = world.sent();
    let reply = answer(&request, MessageType::Reply);
    world.hear(&with(reply, DhcpOption::InformationRefreshTime(u32::MAX))).unwrap();
    world.action();
    assert_eq!(world.client.deadline(), Instant::NEVER);
    world.client.link_up(world.now);
    assert_eq!(world.sent().kind(), MessageType::InformationRequest);
}
