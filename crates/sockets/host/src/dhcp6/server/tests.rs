//! The DHCPv6 server against messages made of `dhcproto`, and against our own client.

use core::net::Ipv6Addr;

use base::{DropReason, Instant, KeyedHash, MacAddr};
use dhcproto::v6::{self, DhcpOption, IANA, IAPD, MessageType, OptionCode, Status};
use dhcproto::{Decodable, Encodable};
use proptest::prelude::*;

use super::*;
use crate::dhcp6::{Action, Client, Config, Mode, State};

const DUID: &[u8] = &[0, 3, 0, 1, 2, 0, 0, 0, 0, 9];
const CLIENT: &[u8] = &[0, 3, 0, 1, 2, 0, 0, 0, 0, 1];
const DNS: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3);

fn server() -> Server {
    let search = vec!["mill.example".to_owned()];
    let information = Information { dns_servers: vec![DNS], search };
    let refresh = Some(Duration::from_secs(7_200));
    Server::new(ServerConfig { duid: DUID.to_vec(), information, refresh }).expect("good")
}

fn message(kind: MessageType, options: Vec<DhcpOption>) -> v6::Message {
    let mut message = v6::Message::new_with_id(kind, [1, 2, 3]);
    options.into_iter().for_each(|option| message.opts_mut().insert(option));
    message
}

fn asked() -> DhcpOption {
    let codes = [
        OptionCode::DomainNameServers,
        OptionCode::DomainSearchList,
        OptionCode::InformationRefreshTime,
    ];
    DhcpOption::ORO(v6::ORO { opts: codes.to_vec() })
}

fn client() -> DhcpOption {
    DhcpOption::ClientId(CLIENT.to_vec())
}

fn ours() -> DhcpOption {
    DhcpOption::ServerId(DUID.to_vec())
}

fn association() -> DhcpOption {
    DhcpOption::IANA(IANA { id: 5, t1: 0, t2: 0, opts: v6::DhcpOptions::new() })
}

fn answer(to: Ipv6Addr, message: &v6::Message) -> Result<v6::Message, DropReason> {
    let bytes = server().receive(to, &message.to_vec().expect("encodable"))?;
    let answer = v6::Message::from_bytes(&bytes).expect("a DHCPv6 message");
    assert_eq!(answer.xid(), [1, 2, 3]);
    assert_eq!(answer.opts().get(OptionCode::ServerId), Some(&ours()));
    Ok(answer)
}

fn status(options: &v6::DhcpOptions) -> Option<Status> {
    match options.get(OptionCode::StatusCode)? {
        DhcpOption::StatusCode(code) => Some(code.status),
        other => panic!("{other:?}"),
    }
}

/// The status in the association of the answer.
fn status_of_association(answer: &v6::Message) -> Option<Status> {
    let Some(DhcpOption::IANA(ia)) = answer.opts().get(OptionCode::IANA) else { return None };
    assert_eq!((ia.id, ia.t1, ia.t2), (5, 0, 0));
    status(&ia.opts)
}

// RFC 8415 18.3.6-a.
#[test]
fn clients_without_state_learn_names() {
    for options in [vec![asked()], vec![client(), asked()], vec![client(), ours(), asked()]] {
        let has_id = options.contains(&client());
        let answer = answer(SERVERS, &message(MessageType::InformationRequest, options));
        let answer = answer.expect("an answer");
        assert_eq!(answer.msg_type(), MessageType::Reply);
        let get = |code| answer.opts().get(code);
        assert_eq!(get(OptionCode::ClientId).is_some(), has_id);
        let servers = DhcpOption::DomainNameServers(vec![DNS]);
        assert_eq!(get(OptionCode::DomainNameServers), Some(&servers));
        assert!(get(OptionCode::DomainSearchList).is_some());
        // dhcproto writes this option, and does not read it.
        let refresh = get(OptionCode::InformationRefreshTime).cloned().expect("it was asked for");
        let bytes = refresh.to_vec().expect("encodable");
        assert!(bytes.ends_with(&7_200_u32.to_be_bytes()), "{bytes:?}");
    }
    // What is not asked for is not said.
    let plain = message(MessageType::InformationRequest, vec![client()]);
    let answer = answer(SERVERS, &plain).expect("an answer");
    assert!(answer.opts().get(OptionCode::DomainNameServers).is_none());
}

// RFC 8415 18.3.1-a, 18.3.2-b, 18.3.4-a, 18.3.7-a, 18.3.8-a.
#[test]
fn clients_that_want_addresses_are_refused() {
    let solicit = message(MessageType::Solicit, vec![client(), association(), asked()]);
    let advertise = answer(SERVERS, &solicit).expect("an answer");
    assert_eq!(advertise.msg_type(), MessageType::Advertise);
    assert_eq!(status_of_association(&advertise), Some(Status::NoAddrsAvail));
    assert!(advertise.opts().get(OptionCode::DomainNameServers).is_some());
    let prefix = DhcpOption::IAPD(IAPD { id: 5, t1: 0, t2: 0, opts: v6::DhcpOptions::new() });
    let solicit = message(MessageType::Solicit, vec![client(), prefix]);
    let advertise = answer(SERVERS, &solicit).expect("an answer");
    let Some(DhcpOption::IAPD(ia)) = advertise.opts().get(OptionCode::IAPD) else {
        panic!("no IA_PD")
    };
    assert_eq!(status(&ia.opts), Some(Status::NoPrefixAvail));
    for (kind, expected) in [
        (MessageType::Request, Status::NoAddrsAvail),
        (MessageType::Renew, Status::NoBinding),
        (MessageType::Release, Status::NoBinding),
        (MessageType::Decline, Status::NoBinding),
    ] {
        let reply = answer(SERVERS, &message(kind, vec![client(), ours(), association()]));
        let reply = reply.expect("an answer");
        assert_eq!(reply.msg_type(), MessageType::Reply);
        assert_eq!(status_of_association(&reply), Some(expected), "{kind:?}");
        // RFC 8415 18.3.2-a.
        let reply = answer(DNS, &message(kind, vec![client(), ours(), association()]));
        let reply = reply.expect("an answer");
        assert_eq!(status(reply.opts()), Some(Status::UseMulticast));
        assert_eq!(status_of_association(&reply), None);
    }
}

// RFC 8415 16-b, 16.2-a, 16.4-a, 16.12-a, 18.3.3-a, 18.3.5-a.
#[test]
fn messages_that_are_not_for_this_server_are_dropped() {
    use DropReason::{DhcpMalformed, DhcpNotServed, DhcpOtherServer};
    let other = DhcpOption::ServerId(vec![0, 3, 0, 1, 9, 9]);
    for (kind, options, reason) in [
        (MessageType::Confirm, vec![client(), association()], DhcpNotServed),
        (MessageType::Rebind, vec![client(), association()], DhcpNotServed),
        (MessageType::Advertise, vec![client(), ours()], DhcpNotServed),
        (MessageType::Reply, vec![client(), ours()], DhcpNotServed),
        (MessageType::Reconfigure, vec![client(), ours()], DhcpNotServed),
        (MessageType::Solicit, vec![association()], DhcpMalformed),
        (MessageType::Solicit, vec![client(), ours(), association()], DhcpMalformed),
        (MessageType::Request, vec![client(), association()], DhcpMalformed),
        (MessageType::Request, vec![client(), other.clone()], DhcpOtherServer),
        (MessageType::InformationRequest, vec![other, asked()], DhcpOtherServer),
        (MessageType::InformationRequest, vec![association()], DhcpMalformed),
    ] {
        let outcome = answer(SERVERS, &message(kind, options));
        assert_eq!(outcome.err(), Some(reason), "{kind:?}");
    }
    let mut server = server();
    assert_eq!(server.receive(SERVERS, &[11, 1, 2]), Err(DhcpMalformed));
    assert_eq!(server.receive(SERVERS, &[11, 1, 2, 3, 0, 1, 0, 9]), Err(DhcpMalformed));
    assert_eq!(server.drops().of(DhcpMalformed), 2);
}

#[test]
fn settings_that_cannot_work_are_refused_with_a_sentence() {
    let good = server().config;
    let wrong = |config: ServerConfig| {
        let error = Server::new(config).expect_err("it cannot work");
        assert!(error.to_string().len() > 20, "{error}");
        error
    };
    assert_eq!(wrong(ServerConfig { duid: vec![0, 3], ..good.clone() }), ServerConfigError::Duid);
    let refresh = Some(Duration::from_secs(599));
    assert_eq!(wrong(ServerConfig { refresh, ..good.clone() }), ServerConfigError::Refresh);
    let information = Information { dns_servers: vec![DNS; 33], search: Vec::new() };
    let many = ServerConfig { information, ..good.clone() };
    assert_eq!(wrong(many), ServerConfigError::List);
    let information = Information { dns_servers: vec![], search: vec!["a b".to_owned()] };
    let named = ServerConfig { information, ..good };
    assert_eq!(wrong(named), ServerConfigError::Name("a b".to_owned()));
}

/// Our client, which has tests of its own, is informed.
#[test]
fn our_client_is_informed() {
    let (mut server, mut now) = (server(), Instant::from_nanos(1_000_000_000));
    let hardware = MacAddr([2, 0, 0, 0, 0, 1]);
    let config = Config::new(Mode::Stateless, hardware, KeyedHash::new(1, 2));
    let mut client = Client::new(config, now).expect("good");
    let mut informed = 0;
    while informed < 3 {
        match client.poll(now) {
            Some(Action::Send(message)) => {
                let reply = server.receive(SERVERS, &message).expect("an answer");
                client.receive(now, &reply).expect("a good answer");
            }
            Some(Action::Informed(information)) => {
                assert_eq!(information.dns_servers, [DNS]);
                assert_eq!(information.search, ["mill.example"]);
                informed += 1;
            }
            Some(other) => panic!("{other:?}"),
            None => now = client.deadline(),
        }
    }
    assert_eq!(client.state(), State::Informed);
    assert_eq!(server.counts(), (3, 0));
}

proptest! {
    #[test]
    fn any_message_is_answered_or_counted(
        kind in 0_u8..14,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        codes in prop::collection::vec((0_u8..30, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
    ) {
        let mut server = server();
        let mut built = vec![kind, 1, 2, 3];
        for (code, value) in &codes {
            built.extend([0, *code, 0, value.len() as u8]);
            built.extend(value);
        }
        for message in [&bytes, &built] {
            let before = server.drops().total();
            let outcome = server.receive(SERVERS, message);
            prop_assert_eq!(server.drops().total() - before, u64::from(outcome.is_err()));
            if let Ok(answer) = outcome {
                prop_assert!(Options::whole(&answer[4..]).is_some());
            }
        }
    }
}
