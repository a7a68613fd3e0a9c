//! The firewall's text: any rules, any rules of NAT, any sets, any question. A mistake has a place
//! in the text. Rules without a mistake compile, and the program judges as the plain list does.
//!
//! Called by: the target `rules`.

use std::net::IpAddr;

use filter::program::list;
use filter::text::{Most, Source, parse_within, question};
use filter::{Packet, Program, ROUTER, Tuple};

/// The router's ports.
const PORTS: [(&str, u16); 3] = [("lan", 0), ("wan", 1), ("guests", 2)];

/// Words that make a line more often right than letters do.
const WORDS: [&str; 64] = [
    "pass",
    "block",
    "reject",
    "in",
    "out",
    "from",
    "to",
    "lan",
    "wan",
    "guests",
    "self",
    "any",
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "proto",
    "port",
    "new",
    "states",
    "per",
    "source",
    "label",
    "log",
    "loose",
    "stateless",
    "flags",
    "S/SA",
    "200/s",
    "20",
    "443",
    "1000-2000",
    "{",
    "}",
    ",",
    "!",
    "@private",
    "@bad",
    "10.0.0.0/8",
    "10.0.0.5",
    "10.0.0.5:443",
    "192.0.2.1",
    "2001:db8::/48",
    "fd00:1::/48",
    "echo-request",
    "inet6",
    "dest",
    "both",
    "prefix",
    "keep",
    "blocks",
    "of",
    "filtering",
    "endpoint",
    "address",
    "0.0.0.0/0",
    "::/0",
    "47",
    "198.51.100.7-198.51.100.9",
    "web",
    "\n",
    "\n",
    "\n",
    "#",
];

/// Bytes as text: as they are, or with each byte as a word.
fn text(bytes: &[u8], is_in_words: bool) -> String {
    if !is_in_words {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut text = String::new();
    for byte in bytes {
        text += WORDS[usize::from(*byte) % WORDS.len()];
        text.push(' ');
    }
    text
}

/// A byte that says which texts are in words; then rules, rules of NAT, the default, entries of a
/// set and a question, each up to a byte of 255. All bytes choose packets, too.
pub fn any_text(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else { return };
    let mut parts = data.split(|byte| *byte == 255);
    let mut next = |bit: u8| text(parts.next().unwrap_or_default(), kind & bit != 0);
    let (rules, nat, default, entries) = (next(1), next(2), next(4), next(8));
    let asked = question(&next(16), &PORTS);
    let sets = [("bad".to_owned(), entries.lines().map(str::to_owned).collect())];
    let source = Source { rules: &rules, nat: &nat, default: &default, sets: &sets };
    let most = Most { rules: 200, networks: 200 };
    let file = |name: &str| match name.len() {
        0..4 => Ok("10.1.0.0/16\n# no network\n2001:db8:1::/48".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let parsed = match parse_within(most, &source, &PORTS, &file) {
        Ok(parsed) => parsed,
        Err(mistakes) => {
            assert!(!mistakes.is_empty() && mistakes.len() <= 100);
            for mistake in mistakes {
                assert!(mistake.line > 0 && mistake.column > 0 && !mistake.what.is_empty());
                assert!(!mistake.to_string().contains('\n'), "{mistake}");
            }
            return;
        }
    };
    assert!(parsed.filter.len() <= most.rules && parsed.nat.len() <= most.rules);
    let Ok(program) = Program::compile(&parsed) else { return };
    let asked = asked.map(|asked| asked.packet);
    for packet in asked.into_iter().chain(data.chunks_exact(16).take(16).filter_map(packet)) {
        assert_eq!(program.judge(&packet).rule, list::judge(&parsed, &packet), "{packet:?}");
        let source = list::judge_source(&parsed, &packet);
        assert_eq!(program.judge_source(&packet), source, "{packet:?}");
        let dest = list::judge_dest(&parsed, &packet);
        assert_eq!(program.judge_dest(&packet), dest, "{packet:?}");
    }
}

/// A packet of 16 bytes, near the words of the rules more often than not.
fn packet(bytes: &[u8]) -> Option<Packet> {
    let &[v6, a, b, c, d, protocol, in_port, out_port, flags, kind, code, p, q, r, s, near] = bytes
    else {
        return None;
    };
    let addr = |x: u8, y: u8| -> IpAddr {
        match (v6 & 1, near & 1) {
            (0, 0) => [10, 0, x & 1, y].into(),
            (0, _) => [x, y, c, d].into(),
            (_, 0) => [0x2001, 0xdb8, u16::from(x & 3), 0, 0, 0, 0, u16::from(y)].into(),
            _ => [u16::from(x) << 8 | u16::from(y), 0, 0, 0, 0, 0, 0, 1].into(),
        }
    };
    let port = |number: u8| if number > 5 { ROUTER } else { u16::from(number) };
    let protocol = [6, 17, 1, 58, 47, protocol][usize::from(protocol) % 6];
    let has_ports = matches!(protocol, 6 | 17);
    let number = |x: u8, y: u8| if has_ports { u16::from_be_bytes([x, y]) } else { 0 };
    Some(Packet {
        tuple: Tuple {
            src: addr(a, b),
            dst: addr(c, d),
            protocol,
            src_port: number(p, q),
            dst_port: number(r & 7, s),
        },
        in_port: port(in_port & 7),
        out_port: port(out_port & 7),
        icmp: matches!(protocol, 1 | 58).then_some((kind, code)),
        tcp_flags: if protocol == 6 { flags } else { 0 },
    })
}

/// The rules of the first example of docs/filter.md, and a question.
pub fn real_text() -> Vec<u8> {
    let parts = [
        "block from @bad\npass in lan out wan\npass in wan to 10.0.0.5 tcp 443 new 200/s per \
         source label web\nreject in guests to @private log",
        "source out wan from 10.0.0.0/8 to port\ndest in wan tcp 8443 to 10.0.0.5:443\nprefix out \
         wan fd00:1::/48 to 2001:db8:1::/48",
        "block",
        "192.0.2.9\n2001:db8::/64\nfile:bad",
        "in wan out lan 198.51.100.7:999 > 10.0.0.5:443 tcp syn",
    ];
    let mut bytes = vec![0];
    for part in parts {
        bytes.extend(part.as_bytes());
        bytes.push(255);
    }
    bytes
}
