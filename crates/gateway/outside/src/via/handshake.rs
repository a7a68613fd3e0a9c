//! What a proxy and we say to each other before it passes bytes on: bytes in, bytes out.
//!
//! Called by: `tcp.rs`, while a connect is under way. It takes no byte of what follows the
//! handshake. RFC 1928, RFC 1929; RFC 9110 section 9.3.6, RFC 7617.

use core::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway::{Failure, datagram_from};
use stack::Unreachable;

use super::{Credentials, Kind, Refused, Via, no_proxy};

/// Bytes of a proxy's answer at most.
const ANSWER_MAX: usize = 16 * 1024;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;

/// What the user has to know.
const CREDENTIALS: &str = "the proxy of --via does not accept the user name and the password, or \
                           asks for them: give socks5://USER:PASSWORD@HOST:PORT";
const OTHER: &str = "the proxy of --via speaks another protocol: check whether it is one for \
                     socks5:// or for http://";

/// What is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Method,
    Password,
    Reply,
    Status,
    Over,
}

/// A handshake that is under way.
#[derive(Debug)]
pub(crate) struct Handshake {
    step: Step,
    to: SocketAddr,
    command: u8,
    /// The address in the reply.
    bound: Option<SocketAddr>,
    credentials: Option<Credentials>,
    unsent: Vec<u8>,
    /// The beginning of the answer that is awaited.
    received: Vec<u8>,
}

impl Handshake {
    pub(super) fn new(via: &Via, to: SocketAddr) -> Handshake {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let credentials = via.credentials.clone();
        let (step, unsent) = match via.kind {
            Kind::Socks5 if credentials.is_some() => {
                (Step::Method, vec![VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD])
            }
            Kind::Socks5 => (Step::Method, vec![VERSION, 1, NO_AUTHENTICATION]),
            Kind::Http => (Step::Status, request(to, credentials.as_ref())),
        };
        let (command, bound, received) = (CONNECT, None, Vec::new());
        Handshake { step, to, command, bound, credentials, unsent, received }
    }

    /// Ask for a relay of datagrams instead, of SOCKS5 alone.
    pub(super) fn of_association(self) -> Handshake {
        Handshake { command: ASSOCIATE, ..self }
    }

    /// Where the proxy says that datagrams go.
    pub(crate) fn bound(&self) -> Option<SocketAddr> {
        self.bound
    }

    /// What is to be sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    /// So much of it was sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.unsent.drain(..bytes.min(self.unsent.len()));
    }

    /// Has the proxy connected?
    pub(crate) fn is_over(&self) -> bool {
        self.step == Step::Over
    }

    /// Take what the proxy has sent; returns how many bytes were the handshake's.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<usize, Refused> {
        let before = self.received.len();
        self.received.extend_from_slice(bytes);
        match self.length().filter(|length| *length <= self.received.len()) {
            Some(length) => {
                let mut answer = core::mem::take(&mut self.received);
                answer.truncate(length);
                self.answer(&answer)?;
                Ok(length - before)
            }
            None if self.received.len() > ANSWER_MAX => Err(other()),
            None => Ok(bytes.len()),
        }
    }

    /// The length of the answer, once its beginning says that.
    fn length(&self) -> Option<usize> {
        let bytes = &self.received;
        match self.step {
            Step::Method | Step::Password => Some(2),
            // A refusal may be shorter; nothing follows it.
            Step::Reply if *bytes.get(1)? != 0 => Some(2),
            Step::Reply => match *bytes.get(3)? {
                1 => Some(4 + 4 + 2),
                3 => Some(4 + 1 + usize::from(*bytes.get(4)?) + 2),
                4 => Some(4 + 16 + 2),
                _ => Some(4),
            },
            Step::Status => bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4),
            Step::Over => Some(0),
        }
    }

    fn answer(&mut self, answer: &[u8]) -> Result<(), Refused> {
        match (self.step, answer) {
            (Step::Method, &[VERSION, NO_AUTHENTICATION]) => self.connect(),
            (Step::Method, &[VERSION, USER_AND_PASSWORD]) => {
                let Some(Credentials { user, password }) = &self.credentials else {
                    return Err(not_accepted());
                };
                let fields =
                    [user, password].map(|text| [&[text.len() as u8], text.as_bytes()].concat());
                self.unsent = [&[1][..], &fields.concat()].concat();
                self.step = Step::Password;
            }
            (Step::Method, &[VERSION, _]) => return Err(not_accepted()),
            (Step::Password, &[_, 0]) => self.connect(),
            (Step::Password, _) => return Err(not_accepted()),
            (Step::Reply, &[VERSION, 0, _, 1 | 3 | 4, ..]) => {
                self.bound = datagram_from(answer).map(|(bound, _)| bound);
                self.step = Step::Over;
            }
            (Step::Reply, &[VERSION, code]) => return Err(reply(code).into()),
            (Step::Status, line) => {
                status(line)?;
                self.step = Step::Over;
            }
            (Step::Over, _) => {}
            _ => return Err(other()),
        }
        Ok(())
    }

    fn connect(&mut self) {
        self.step = Step::Reply;
        self.unsent = vec![VERSION, self.command, 0];
        match self.to.ip() {
            IpAddr::V4(ip) => {
                self.unsent.push(1);
                self.unsent.extend(ip.octets());
            }
            IpAddr::V6(ip) => {
                self.unsent.push(4);
                self.unsent.extend(ip.octets());
            }
        }
        self.unsent.extend(self.to.port().to_be_bytes());
    }
}

fn request(to: SocketAddr, credentials: Option<&Credentials>) -> Vec<u8> {
    let mut text = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
    if let Some(Credentials { user, password }) = credentials {
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        text += &format!("Proxy-Authorization: Basic {encoded}\r\n");
    }
    text += "\r\n";
    text.into_bytes()
}

fn other() -> Refused {
    Refused { notice: Some(OTHER), ..no_proxy(Failure::Reset) }
}

fn not_accepted() -> Refused {
    let failure = Failure::Unreachable(Unreachable::Prohibited);
    Refused { failure, notice: Some(CREDENTIALS) }
}

/// A reply of SOCKS5: RFC 1928 section 6.
fn reply(code: u8) -> Failure {
    Failure::Unreachable(match code {
        5 => return Failure::Refused,
        6 => return Failure::TimedOut,
        2 | 7 => Unreachable::Prohibited,
        3 | 8 => Unreachable::Net,
        // A general failure, among others.
        _ => Unreachable::Host,
    })
}

/// The head of an answer of HTTP: RFC 9112 section 4, RFC 9110 section 15.
fn status(head: &[u8]) -> Result<(), Refused> {
    let code = head.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let code = code.and_then(|code| core::str::from_utf8(code).ok()?.parse::<u16>().ok());
    Err(match code {
        Some(200..=299) => return Ok(()),
        Some(407) => not_accepted(),
        Some(504) => Failure::TimedOut.into(),
        Some(400..=499) => Failure::Unreachable(Unreachable::Prohibited).into(),
        Some(500..=599) => Failure::Unreachable(Unreachable::Host).into(),
        _ => other(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(via: &str, to: &str) -> Handshake {
        let via: Via = via.parse().expect("a proxy");
        via.handshake(to.parse().expect("an address"))
    }

    /// The proxy's answer in one piece, and byte by byte, with bytes of the peer behind it.
    fn answer(handshake: &mut Handshake, bytes: &[u8], whole: bool) -> Result<(), Refused> {
        let sent = handshake.unsent().len();
        handshake.sent(sent);
        if whole {
            let with_more = [bytes, b"220 hello"].concat();
            return handshake.take(&with_more).map(|used| assert_eq!(used, bytes.len()));
        }
        bytes.iter().try_for_each(|&byte| handshake.take(&[byte]).map(|used| assert_eq!(used, 1)))
    }

    #[test]
    fn socks_connects_with_and_without_a_password() {
        for whole in [true, false] {
            let mut plain = begin("socks5://p:1", "192.0.2.1:80");
            assert_eq!(plain.unsent(), [5, 1, 0]);
            assert_eq!(answer(&mut plain, &[5, 0], whole), Ok(()));
            assert_eq!(plain.unsent(), [5, 1, 0, 1, 192, 0, 2, 1, 0, 80]);
            let name = [&[5, 0, 0, 3, 2][..], b"me", &[1, 2]].concat();
            assert_eq!(answer(&mut plain, &name, whole), Ok(()));
            assert!(plain.is_over());
            let mut with = begin("socks5://ab:c@p:1", "[2001:db8::1]:443");
            assert_eq!(with.unsent(), [5, 2, 0, 2]);
            assert_eq!(answer(&mut with, &[5, 2], whole), Ok(()));
            assert_eq!(with.unsent(), [1, 2, b'a', b'b', 1, b'c']);
            assert_eq!(answer(&mut with, &[1, 0], whole), Ok(()));
            assert_eq!(with.unsent()[..6], [5, 1, 0, 4, 0x20, 1]);
            assert_eq!(answer(&mut with, &[&[5, 0, 0, 4][..], &[0; 18]].concat(), whole), Ok(()));
            assert!(with.is_over());
        }
    }

    #[test]
    fn http_connects() {
        for whole in [true, false] {
            let mut handshake = begin("http://me:secret@p:1", "[2001:db8::1]:443");
            let text = core::str::from_utf8(handshake.unsent()).expect("a text");
            assert_eq!(
                text,
                "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\
                 Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
            );
            let established = b"HTTP/1.0 200 Connection established\r\nVia: p\r\n\r\n";
            assert_eq!(answer(&mut handshake, established, whole), Ok(()));
            assert!(handshake.is_over());
        }
    }

    #[test]
    fn refusals_say_why() {
        let host = Failure::Unreachable(Unreachable::Host);
        let prohibited = Failure::Unreachable(Unreachable::Prohibited);
        let net = Failure::Unreachable(Unreachable::Net);
        for (code, failure) in
            [(1, host), (2, prohibited), (3, net), (4, host), (5, Failure::Refused), (99, host)]
        {
            let mut handshake = begin("socks5://p:1", "192.0.2.1:80");
            assert_eq!(answer(&mut handshake, &[5, 0], true), Ok(()));
            assert_eq!(answer(&mut handshake, &[5, code], false), Err(failure.into()));
        }
        for (via, bytes, failure, notice) in [
            ("socks5://p:1", &[5, 0xff][..], prohibited, Some(CREDENTIALS)),
            ("socks5://p:1", &[5, 2], prohibited, Some(CREDENTIALS)),
            ("socks5://p:1", b"HTTP/1.1 400 Bad", net, Some(OTHER)),
            ("http://p:1", &[5; 20_000], net, Some(OTHER)),
            ("http://p:1", b"SSH-2.0-x\r\n\r\n", net, Some(OTHER)),
            ("http://p:1", b"HTTP/1.1 407 No\r\n\r\n", prohibited, Some(CREDENTIALS)),
            ("http://p:1", b"HTTP/1.1 403 No\r\n\r\n", prohibited, None),
            ("http://p:1", b"HTTP/1.1 502 No\r\n\r\n", host, None),
            ("http://p:1", b"HTTP/1.1 504 No\r\n\r\n", Failure::TimedOut, None),
        ] {
            let mut handshake = begin(via, "192.0.2.1:80");
            assert_eq!(handshake.take(bytes), Err(Refused { failure, notice }), "{bytes:?}");
        }
    }
}
