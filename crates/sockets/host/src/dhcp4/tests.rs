//! The DHCPv4 client against a server made of `dhcproto`, an implementation that is not ours: it
//! reads the messages that the client sends, and writes those that the client receives.

mod hostile;
mod states;

use core::net::Ipv4Addr;

use base::{Duration, Instant, KeyedHash, MacAddr};
use dhcproto::v4::{self, DhcpOption, MessageType, OptionCode};
use dhcproto::{Decodable, Encodable};

use super::*;

const HARDWARE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const LEASE_SECONDS: u32 = 3_600;

fn config() -> Config {
    Config::new(HARDWARE, KeyedHash::new(3, 4))
}

/// A client with its clock, and the actions that it asked for.
struct World {
    client: Client,
    now: Instant,
}

/// A message of the client as the server reads it.
struct Heard {
    at: Instant,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    message: v4::Message,
}

impl Heard {
    fn kind(&self) -> MessageType {
        self.message.opts().msg_type().expect("a message type")
    }

    fn requested(&self) -> Option<Ipv4Addr> {
        match self.message.opts().get(OptionCode::RequestedIpAddress) {
            Some(DhcpOption::RequestedIpAddress(address)) => Some(*address),
            _ => None,
        }
    }

    fn server(&self) -> Option<Ipv4Addr> {
        match self.message.opts().get(OptionCode::ServerIdentifier) {
            Some(DhcpOption::ServerIdentifier(address)) => Some(*address),
            _ => None,
        }
    }
}

impl World {
    fn new(config: Config) -> World {
        let now = Instant::ZERO + Duration::from_secs(1_000);
        World { client: Client::new(config, now).expect("a good configuration"), now }
    }

    fn action(&mut self) -> Option<Action> {
        self.client.poll(self.now)
    }

    /// The next action must be a message.
    fn sent(&mut self) -> Heard {
        match self.action() {
            Some(Action::Send { source, destination, message }) => {
                assert!(message.len() >= 300, "BOOTP's minimum");
                let message = v4::Message::from_bytes(&message).expect("a DHCP message");
                Heard { at: self.now, source, destination, message }
            }
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass until the client has something to do.
    fn wait(&mut self) {
        assert_eq!(self.action(), None, "nothing else to do now");
        let deadline = self.client.deadline();
        assert!(deadline > self.now && deadline < Instant::NEVER, "a deadline to wait for");
        self.now = deadline;
    }

    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn hear(&mut self, message: &v4::Message) -> Result<(), base::DropReason> {
        self.client.receive(self.now, &message.to_vec().expect("encodable"))
    }

    /// Through offer, request and probe to a lease.
    fn bind(&mut self) -> Lease {
        let discover = self.sent();
        assert_eq!(discover.kind(), MessageType::Discover);
        self.hear(&offer(&discover)).expect("a good offer");
        let request = self.sent();
        assert_eq!(request.kind(), MessageType::Request);
        self.hear(&ack(&request)).expect("a good acknowledgment");
        assert_eq!(self.action(), Some(Action::Probe(ADDRESS)));
        self.client.probed(self.now, false);
        match self.action() {
            Some(Action::Acquired(lease)) => *lease,
            other => panic!("{other:?}"),
        }
    }
}

/// An answer with the options that every answer has.
fn answer(to: &Heard, kind: MessageType) -> v4::Message {
    let unspecified = Ipv4Addr::UNSPECIFIED;
    let xid = to.message.xid();
    let mut message =
        v4::Message::new_with_id(xid, unspecified, ADDRESS, SERVER, unspecified, &HARDWARE.0);
    message.set_opcode(v4::Opcode::BootReply);
    let options = message.opts_mut();
    options.insert(DhcpOption::MessageType(kind));
    options.insert(DhcpOption::ServerIdentifier(SERVER));
    message
}

fn offer(to: &Heard) -> v4::Message {
    let mut message = answer(to, MessageType::Offer);
    let options = message.opts_mut();
    options.insert(DhcpOption::AddressLeaseTime(LEASE_SECONDS));
    options.insert(DhcpOption::SubnetMask([255, 255, 255, 0].into()));
    options.insert(DhcpOption::Router(vec![SERVER]));
    options.insert(DhcpOption::DomainNameServer(vec![SERVER, [198, 51, 100, 53].into()]));
    options.insert(DhcpOption::DomainName("example.org".to_owned()));
    message
}

fn ack(to: &Heard) -> v4::Message {
    let mut message = offer(to);
    message.opts_mut().insert(DhcpOption::MessageType(MessageType::Ack));
    message
}

/// An acknowledgment with one more option, or another value of one.
fn ack_with(to: &Heard, option: DhcpOption) -> v4::Message {
    let mut message = ack(to);
    message.opts_mut().insert(option);
    message
}
