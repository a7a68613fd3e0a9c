//! The DHCPv6 client against a server made of `dhcproto`, an implementation that is not ours: it
//! reads the messages that the client sends, and writes those that the client receives.

mod hostile;
mod states;

use core::net::Ipv6Addr;

use base::{DropReason, Duration, Instant, KeyedHash, MacAddr};
use dhcproto::v6::{self, DhcpOption, IAAddr, IANA, MessageType, OptionCode, Status};
use dhcproto::{Decodable, Encodable};

use super::*;

const HARDWARE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const IAID: u32 = 1;
const SERVER: &[u8] = &[0, 3, 0, 1, 2, 0, 0, 0, 0, 9];
const OTHER_SERVER: &[u8] = &[0, 3, 0, 1, 2, 0, 0, 0, 0, 8];
const ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
const OTHER_ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 8);
const DNS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);
const PREFERRED_SECONDS: u32 = 3_600;
const VALID_SECONDS: u32 = 7_200;

fn config() -> Config {
    Config::new(Mode::Stateful, HARDWARE, KeyedHash::new(3, 4))
}

/// A client with its clock.
struct World {
    client: Client,
    now: Instant,
}

/// A message of the client as the server reads it.
struct Heard {
    at: Instant,
    message: v6::Message,
}

impl Heard {
    fn kind(&self) -> MessageType {
        self.message.msg_type()
    }

    fn server(&self) -> Option<&[u8]> {
        match self.message.opts().get(OptionCode::ServerId) {
            Some(DhcpOption::ServerId(duid)) => Some(duid),
            _ => None,
        }
    }

    /// The address in the identity association, which must be ours.
    fn address(&self) -> Option<Ipv6Addr> {
        let Some(DhcpOption::IANA(ia)) = self.message.opts().get(OptionCode::IANA) else {
            panic!("an IA_NA")
        };
        assert_eq!((ia.id, ia.t1, ia.t2), (IAID, 0, 0));
        match ia.opts.get(OptionCode::IAAddr) {
            Some(DhcpOption::IAAddr(address)) => Some(address.addr),
            _ => None,
        }
    }

    fn elapsed(&self) -> u16 {
        match self.message.opts().get(OptionCode::ElapsedTime) {
            Some(DhcpOption::ElapsedTime(hundredths)) => *hundredths,
            other => panic!("an elapsed time, not {other:?}"),
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

    /// Lets time pass until the client has something to do.
    fn wait(&mut self) {
        assert_eq!(self.action(), None, "nothing else to do now");
        let deadline = self.client.deadline();
        assert!(deadline > self.now && deadline < Instant::NEVER, "a deadline to wait for");
        self.now = deadline;
    }

    /// The next message; time passes until it is sent.
    fn sent(&mut self) -> Heard {
        let action = loop {
            match self.action() {
                Some(action) => break action,
                None => self.wait(),
            }
        };
        let Action::Send(message) = action else { panic!("{action:?}") };
        let message = v6::Message::from_bytes(&message).expect("a DHCPv6 message");
        let client = DhcpOption::ClientId(duid_of_link_address(HARDWARE));
        assert_eq!(message.opts().get(OptionCode::ClientId), Some(&client));
        Heard { at: self.now, message }
    }

    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn hear(&mut self, message: &v6::Message) -> Result<(), DropReason> {
        self.client.receive(self.now, &message.to_vec().expect("encodable"))
    }

    /// A first lease, by the four messages.
    fn bind(&mut self) -> Lease {
        let solicit = self.sent();
        assert_eq!(solicit.kind(), MessageType::Solicit);
        self.hear(&give(&solicit, MessageType::Advertise, ADDRESS)).expect("a good Advertise");
        let request = self.sent();
        assert_eq!(request.kind(), MessageType::Request);
        self.hear(&give(&request, MessageType::Reply, ADDRESS)).expect("a good Reply");
        self.finish()
    }

    /// From the probe to the lease.
    fn finish(&mut self) -> Lease {
        assert!(matches!(self.action(), Some(Action::Probe(_))));
        self.client.probed(self.now, false);
        match self.action() {
            Some(Action::Acquired(lease)) => *lease,
            other => panic!("{other:?}"),
        }
    }
}

/// An answer with the identifiers alone.
fn answer(to: &Heard, kind: MessageType) -> v6::Message {
    let mut message = v6::Message::new_with_id(kind, to.message.xid());
    message.opts_mut().insert(DhcpOption::ServerId(SERVER.to_vec()));
    message.opts_mut().insert(DhcpOption::ClientId(duid_of_link_address(HARDWARE)));
    message
}

/// An identity association with one address and no times of the server.
fn ia_of(address: Ipv6Addr, preferred_life: u32, valid_life: u32) -> IANA {
    let addr = IAAddr { addr: address, preferred_life, valid_life, opts: Default::default() };
    IANA { id: IAID, t1: 0, t2: 0, opts: [DhcpOption::IAAddr(addr)].into_iter().collect() }
}

fn with(mut message: v6::Message, option: DhcpOption) -> v6::Message {
    message.opts_mut().insert(option);
    message
}

/// An answer that gives an address.
fn give(to: &Heard, kind: MessageType, address: Ipv6Addr) -> v6::Message {
    let ia = DhcpOption::IANA(ia_of(address, PREFERRED_SECONDS, VALID_SECONDS));
    with(with(answer(to, kind), ia), DhcpOption::DomainNameServers(vec![DNS]))
}

fn of_server(mut message: v6::Message, server: &[u8]) -> v6::Message {
    message.opts_mut().remove(OptionCode::ServerId);
    with(message, DhcpOption::ServerId(server.to_vec()))
}

fn status(status: Status) -> DhcpOption {
    DhcpOption::StatusCode(v6::StatusCode { status, msg: String::new() })
}

/// An answer whose identity association has a status and no address.
fn refuse_ia(to: &Heard, code: Status) -> v6::Message {
    let opts = [status(code)].into_iter().collect();
    with(answer(to, MessageType::Reply), DhcpOption::IANA(IANA { id: IAID, t1: 0, t2: 0, opts }))
}
