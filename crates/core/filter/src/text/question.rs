//! The packet that somebody asks about: `in wan 198.51.100.7:999 > 10.0.0.5:443 tcp syn`.
//!
//! Called by: `wirespeed filter explain`. `out PORT` is optional, because the route decides it;
//! `self` stands for the router in both places. IPv6 addresses with ports are in brackets.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::IpVersion;
use wire::protocol::{ICMP, ICMPV6, TCP};

use super::lexer::{Cursor, Token, words_of};
use super::mistake::{Fault, Location, Mistake};
use super::names;
use super::values::{icmp_type, port, protocol};
use crate::packet::{Packet, ROUTER, Tuple};
use crate::rules::has_ports;

/// A packet to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The packet; without `out` its `out_port` is [`Question::NO_PORT`].
    pub packet: Packet,
    /// The question names the port out. If not, the caller fills it in from its routes.
    pub has_out: bool,
}

impl Question {
    /// A number that no port has.
    pub const NO_PORT: u16 = ROUTER - 1;
}

const USAGE: &str = "write `in PORT [out PORT] SRC:PORT > DST:PORT PROTOCOL [FLAGS or TYPE]`";

/// Read a question. `ports` are the router's ports.
///
/// # Errors
///
/// The first mistake.
///
/// ```
/// use wirespeed_filter::text::question;
///
/// let ports = [("lan", 0), ("wan", 1)];
/// let asked = question("in wan 198.51.100.7:999 > 10.0.0.5:443 tcp syn", &ports)?;
/// assert_eq!((asked.packet.in_port, asked.packet.tuple.dst_port), (1, 443));
/// assert!(!asked.has_out);
/// # Ok::<(), wirespeed_filter::text::Mistake>(())
/// ```
pub fn question(text: &str, ports: &[(&str, u16)]) -> Result<Question, Mistake> {
    let words = words_of(text, 1);
    read(&words, ports).map_err(|fault| fault.in_text(&Location::Question))
}

fn read(words: &[Token<'_>], ports: &[(&str, u16)]) -> Result<Question, Fault> {
    let mut cursor = Cursor::new(words);
    if !cursor.accept("in") {
        let first = cursor.expect(USAGE)?;
        return Err(first.fault(USAGE));
    }
    let in_port = router_port(cursor.expect(USAGE)?, ports)?;
    let has_out = cursor.accept("out");
    let out_port =
        if has_out { router_port(cursor.expect(USAGE)?, ports)? } else { Question::NO_PORT };
    let (src, src_port) = endpoint(cursor.expect(USAGE)?)?;
    let arrow = cursor.expect(USAGE)?;
    if arrow.text != ">" {
        return Err(arrow.fault(USAGE));
    }
    let to = cursor.expect(USAGE)?;
    let (dst, dst_port) = endpoint(to)?;
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(to.fault("the addresses are of different versions of IP"));
    }
    let word =
        cursor.expect("a protocol is missing: `tcp`, `udp`, `icmp echo-request`, `proto 47`")?;
    let word = if word.text == "proto" { cursor.expect(USAGE)? } else { word };
    let protocol = protocol(word)?;
    let wrong = match IpVersion::of(&src) {
        IpVersion::V4 => ICMPV6,
        IpVersion::V6 => ICMP,
    };
    if protocol == wrong {
        return Err(word.fault("ICMP is of IPv4, ICMPv6 of IPv6: write the other one"));
    }
    if src_port.or(dst_port).is_some() && !has_ports(protocol) {
        return Err(word.fault(format!("`{}` has no ports", word.text)));
    }
    if has_ports(protocol) && (src_port.is_none() || dst_port.is_none()) {
        return Err(word.fault("a port is missing: write ADDRESS:PORT twice"));
    }
    let mut packet = Packet {
        tuple: Tuple {
            src,
            dst,
            protocol,
            src_port: src_port.unwrap_or(0),
            dst_port: dst_port.unwrap_or(0),
        },
        in_port,
        out_port,
        icmp: None,
        tcp_flags: 0,
    };
    match protocol {
        TCP => packet.tcp_flags = tcp_flags(&mut cursor)?,
        ICMP | ICMPV6 => {
            let word = cursor.expect("a type is missing: `echo-request`, `3/4`")?;
            let [kind, code] = icmp_type(protocol, word)?.first.to_be_bytes();
            packet.icmp = Some((kind, code));
        }
        _ => {}
    }
    match cursor.next() {
        Some(more) => Err(more.fault(format!("nothing follows here: {USAGE}"))),
        None => Ok(Question { packet, has_out }),
    }
}

fn router_port(word: Token<'_>, ports: &[(&str, u16)]) -> Result<u16, Fault> {
    if word.text == "self" {
        return Ok(ROUTER);
    }
    names::number_of(ports, word.text).ok_or_else(|| {
        let known = ports.iter().map(|&(name, _)| name);
        word.fault(names::unknown("port", word.text, known))
    })
}

fn endpoint(word: Token<'_>) -> Result<(IpAddr, Option<u16>), Fault> {
    let text = word.text;
    if let Ok(addr) = text.parse::<IpAddr>() {
        return Ok((addr, None));
    }
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let found = match bracketed {
        Some((addr, "")) => addr.parse::<Ipv6Addr>().ok().map(|addr| (addr.into(), None)),
        Some((addr, rest)) => rest
            .strip_prefix(':')
            .and_then(port)
            .and_then(|port| Some((addr.parse::<Ipv6Addr>().ok()?.into(), Some(port)))),
        None => text.rsplit_once(':').and_then(|(addr, number)| {
            Some((addr.parse::<Ipv4Addr>().ok()?.into(), Some(port(number)?)))
        }),
    };
    found.ok_or_else(|| {
        word.fault(format!("`{text}` is no host: write ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT"))
    })
}

/// Names of flags; without one, it is a SYN.
fn tcp_flags(cursor: &mut Cursor<'_, '_>) -> Result<u8, Fault> {
    let mut flags = None;
    for word in cursor.by_ref() {
        let known = names::FLAGS.iter().find(|(_, name, _)| *name == word.text);
        let &(_, _, bit) = known.ok_or_else(|| {
            let all = names::FLAGS.iter().map(|&(_, name, _)| name);
            word.fault(names::unknown("flag", word.text, all))
        })?;
        flags = Some(flags.unwrap_or(0) | bit);
    }
    Ok(flags.unwrap_or(0x02))
}

/// A packet in the words of a question, without its ports of the router.
impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuple { src, dst, protocol, src_port, dst_port } = self.tuple;
        let name = names::protocol_name(protocol);
        match (has_ports(protocol), src.is_ipv4()) {
            (true, true) => write!(f, "{src}:{src_port} > {dst}:{dst_port} {name}")?,
            (true, false) => write!(f, "[{src}]:{src_port} > [{dst}]:{dst_port} {name}")?,
            (false, _) => write!(f, "{src} > {dst} {name}")?,
        }
        if let Some((kind, code)) = self.icmp {
            write!(f, " {kind}/{code}")?;
        }
        for (_, name, bit) in names::FLAGS {
            if protocol == TCP && self.tcp_flags & bit != 0 {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}
