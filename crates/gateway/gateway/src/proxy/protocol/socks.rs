//! SOCKS5 as a server speaks it: RFC 1928, RFC 1929.
//!
//! Called by: `protocol.rs`; `datagrams.rs` for the header of datagrams.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stack::Unreachable;

use super::{Credentials, No, Request, Speaks, Target, Wish, Wrong, is_prohibited};
use crate::outside::Failure;

pub(super) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// Codes of replies.
const FAILURE: u8 = 1;
const NOT_SUPPORTED: u8 = 7;
const NO_SUCH_ADDRESS: u8 = 8;

/// What is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    Methods,
    Password,
    Request,
}

/// As `Handshake::take`.
pub(super) fn take(
    step: &mut Step,
    input: &mut Vec<u8>,
    output: &mut Vec<u8>,
    credentials: Option<&Credentials>,
) -> Result<Option<Request>, Wrong> {
    if *step == Step::Methods {
        let Some((methods, length)) = methods(input) else { return Ok(None) };
        let wanted = if credentials.is_some() { USER_AND_PASSWORD } else { NO_AUTHENTICATION };
        if !methods.contains(&wanted) {
            output.extend([VERSION, NO_METHOD]);
            return Err(Wrong::Unauthorized);
        }
        output.extend([VERSION, wanted]);
        input.drain(..length);
        *step = if credentials.is_some() { Step::Password } else { Step::Request };
    }
    if *step == Step::Password {
        let Some((user, password, length)) = password(input) else { return Ok(None) };
        if !credentials.is_some_and(|known| known.are(user, password)) {
            output.extend([1, 1]);
            return Err(Wrong::Unauthorized);
        }
        output.extend([1, 0]);
        input.drain(..length);
        *step = Step::Request;
    }
    request(input, output)
}

fn methods(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = 2 + usize::from(*input.get(1)?);
    Some((input.get(2..end)?, end))
}

fn password(input: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let user_end = 2 + usize::from(*input.get(1)?);
    let end = user_end + 1 + usize::from(*input.get(user_end)?);
    Some((input.get(2..user_end)?, input.get(user_end + 1..end)?, end))
}

fn request(input: &mut Vec<u8>, output: &mut Vec<u8>) -> Result<Option<Request>, Wrong> {
    let Some(&[version, command, _, kind]) = input.first_chunk() else { return Ok(None) };
    if version != VERSION {
        return Err(Wrong::Malformed);
    }
    if !matches!(kind, IPV4 | NAME | IPV6) {
        output.extend(reply(NO_SUCH_ADDRESS, None));
        return Err(Wrong::Malformed);
    }
    let Some((target, length)) = address(&input[3..]) else { return Ok(None) };
    let wish = match (command, target) {
        (CONNECT, Some(target)) => Wish::Connect(target),
        (ASSOCIATE, Some(Target::Address(own))) => Wish::Associate(own.port()),
        (ASSOCIATE, Some(Target::Name(_, port))) => Wish::Associate(port),
        (CONNECT | ASSOCIATE, None) => {
            output.extend(reply(FAILURE, None));
            return Err(Wrong::Malformed);
        }
        _ => {
            output.extend(reply(NOT_SUPPORTED, None));
            return Err(Wrong::Malformed);
        }
    };
    input.drain(..3 + length);
    Ok(Some(Request { wish, speaks: Speaks::Socks, first: Vec::new() }))
}

/// An address with its type in front and a port behind it, and their length; `None` if it is not
/// whole, and no target if it is none.
fn address(bytes: &[u8]) -> Option<(Option<Target>, usize)> {
    let port = |at: usize| {
        let port = bytes.get(at..at + 2)?;
        Some(u16::from_be_bytes([port[0], port[1]]))
    };
    match *bytes.first()? {
        IPV4 => {
            let octets: [u8; 4] = bytes.get(1..5)?.try_into().ok()?;
            let at = SocketAddr::new(Ipv4Addr::from(octets).into(), port(5)?);
            Some((Some(Target::Address(at)), 7))
        }
        IPV6 => {
            let octets: [u8; 16] = bytes.get(1..17)?.try_into().ok()?;
            let ip = IpAddr::from(Ipv6Addr::from(octets)).to_canonical();
            Some((Some(Target::Address(SocketAddr::new(ip, port(17)?))), 19))
        }
        NAME => {
            let end = 2 + usize::from(*bytes.get(1)?);
            let (name, port) = (bytes.get(2..end)?, port(end)?);
            let target = core::str::from_utf8(name).ok().and_then(|name| Target::of(name, port));
            Some((target, end + 2))
        }
        _ => Some((None, 1)),
    }
}

fn push_address(bytes: &mut Vec<u8>, at: SocketAddr) {
    match at.ip().to_canonical() {
        IpAddr::V4(ip) => {
            bytes.push(IPV4);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(IPV6);
            bytes.extend(ip.octets());
        }
    }
    bytes.extend(at.port().to_be_bytes());
}

/// A reply with a code.
pub(super) fn reply(code: u8, at: Option<SocketAddr>) -> Vec<u8> {
    let mut bytes = vec![VERSION, code, 0];
    push_address(&mut bytes, at.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0))));
    bytes
}

/// The code of a refusal.
pub(super) fn code(why: No) -> u8 {
    match why {
        _ if is_prohibited(why) => 2,
        No::Failed(Failure::Unreachable(Unreachable::Net)) => 3,
        No::Name | No::Failed(Failure::Unreachable(_)) => 4,
        No::Failed(Failure::Refused | Failure::Reset) => 5,
        No::Failed(Failure::TimedOut) => 6,
        No::Rules | No::Full | No::Failed(Failure::Full) => FAILURE,
    }
}

/// The target of a client's datagram, and where its payload begins; `None` for a fragment, which
/// nobody has to take (RFC 1928 section 7), and for what is malformed.
pub(in super::super) fn datagram(bytes: &[u8]) -> Option<(Target, usize)> {
    let &[_, _, fragment, ..] = bytes else { return None };
    let (target, length) = address(bytes.get(3..)?)?;
    target.filter(|_| fragment == 0).map(|target| (target, 3 + length))
}

/// The address in front of a datagram by SOCKS5, or in a reply, and where what follows it begins;
/// `None` for a name, for a fragment, and for what is malformed.
pub fn datagram_from(bytes: &[u8]) -> Option<(SocketAddr, usize)> {
    match datagram(bytes)? {
        (Target::Address(from), at) => Some((from, at)),
        (Target::Name(..), _) => None,
    }
}

/// What stands in front of a datagram by SOCKS5: for whom it is, or from whom (RFC 1928 section 7).
pub fn header(from: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0];
    push_address(&mut bytes, from);
    bytes
}
