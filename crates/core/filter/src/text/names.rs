//! Names in rules: protocols, services, ICMP types and TCP flags; and the name that somebody who
//! wrote an unknown word may have meant.
//!
//! Called by: the readers of `text`. IANA's registries of protocol numbers, service names, ICMP and
//! ICMPv6 parameters, TCP header flags (RFC 9293 section 3.1).

use wire::protocol::{ICMP, ICMPV6, IGMP, TCP, UDP};

/// Protocols. No name is also a service's.
pub(super) const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", ICMP),
    ("igmp", IGMP),
    ("ipip", 4),
    ("tcp", TCP),
    ("udp", UDP),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", ICMPV6),
    ("eigrp", 88),
    ("ospf", 89),
    ("etherip", 97),
    ("pim", 103),
    ("vrrp", 112),
    ("carp", 112),
    ("l2tpv3", 115),
    ("sctp", 132),
    ("udplite", 136),
];

/// Services by their usual names.
pub(super) const SERVICES: &[(&str, u16)] = &[
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("dns", 53),
    ("domain", 53),
    ("dhcp-server", 67),
    ("dhcp-client", 68),
    ("tftp", 69),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("smb", 445),
    ("submissions", 465),
    ("ike", 500),
    ("isakmp", 500),
    ("syslog", 514),
    ("dhcpv6-client", 546),
    ("dhcpv6-server", 547),
    ("rtsp", 554),
    ("submission", 587),
    ("ipp", 631),
    ("ldaps", 636),
    ("dns-over-tls", 853),
    ("rsync", 873),
    ("imaps", 993),
    ("pop3s", 995),
    ("openvpn", 1194),
    ("l2tp", 1701),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("nfs", 2049),
    ("mysql", 3306),
    ("rdp", 3389),
    ("stun", 3478),
    ("bfd", 3784),
    ("ipsec-nat-t", 4500),
    ("vxlan", 4789),
    ("sip", 5060),
    ("sips", 5061),
    ("mdns", 5353),
    ("postgresql", 5432),
    ("wireguard", 51820),
];

/// A type, and a code if the name says one.
type Icmp = (&'static str, u8, Option<u8>);

/// Messages of ICMP (RFC 792, 950, 1191, 1256).
pub(super) const ICMP_TYPES: &[Icmp] = &[
    ("echo-reply", 0, None),
    ("unreachable", 3, None),
    ("net-unreachable", 3, Some(0)),
    ("host-unreachable", 3, Some(1)),
    ("protocol-unreachable", 3, Some(2)),
    ("port-unreachable", 3, Some(3)),
    ("fragmentation-needed", 3, Some(4)),
    ("admin-prohibited", 3, Some(13)),
    ("source-quench", 4, None),
    ("redirect", 5, None),
    ("echo-request", 8, None),
    ("router-advertisement", 9, None),
    ("router-solicitation", 10, None),
    ("time-exceeded", 11, None),
    ("parameter-problem", 12, None),
    ("timestamp-request", 13, None),
    ("timestamp-reply", 14, None),
];

/// Messages of ICMPv6 (RFC 4443, 4861, 2710, 3810, 4620).
pub(super) const ICMPV6_TYPES: &[Icmp] = &[
    ("unreachable", 1, None),
    ("no-route", 1, Some(0)),
    ("admin-prohibited", 1, Some(1)),
    ("host-unreachable", 1, Some(3)),
    ("port-unreachable", 1, Some(4)),
    ("packet-too-big", 2, None),
    ("time-exceeded", 3, None),
    ("parameter-problem", 4, None),
    ("echo-request", 128, None),
    ("echo-reply", 129, None),
    ("mld-query", 130, None),
    ("mld-report", 131, None),
    ("mld-done", 132, None),
    ("router-solicitation", 133, None),
    ("router-advertisement", 134, None),
    ("neighbour-solicitation", 135, None),
    ("neighbour-advertisement", 136, None),
    ("redirect", 137, None),
    ("node-information-query", 139, None),
    ("node-information-reply", 140, None),
    ("mldv2-report", 143, None),
];

/// Flags by their letters in rules, and by their names in questions.
pub(super) const FLAGS: &[(char, &str, u8)] = &[
    ('F', "fin", 0x01),
    ('S', "syn", 0x02),
    ('R', "rst", 0x04),
    ('P', "psh", 0x08),
    ('A', "ack", 0x10),
    ('U', "urg", 0x20),
    ('E', "ece", 0x40),
    ('W', "cwr", 0x80),
];

/// Words of other firewalls, and what to write here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("drop", "write `block`"),
    ("deny", "write `block`"),
    ("allow", "write `pass`"),
    ("accept", "write `pass`"),
    ("permit", "write `pass`"),
    ("on", "write `in PORT` or `out PORT`"),
    ("iif", "write `in`"),
    ("iifname", "write `in`"),
    ("oif", "write `out`"),
    ("oifname", "write `out`"),
    ("src", "write `from`"),
    ("saddr", "write `from`"),
    ("dst", "write `to`"),
    ("daddr", "write `to`"),
    ("sport", "write `from HOSTS port P`"),
    ("dport", "write the port behind the protocol: `tcp 443`"),
    ("quick", "leave it out: the first rule that matches wins"),
    ("keep", "leave it out: rules keep state unless they say `stateless`"),
    ("established", "leave it out: flows that have a state pass without a rule"),
    ("related", "leave it out: ICMP errors of flows that have a state pass without a rule"),
    ("inet", "write `from 0.0.0.0/0`"),
    ("inet6", "write `from ::/0`"),
    ("nat", "write `source`"),
    ("snat", "write `source`"),
    ("masquerade", "write `source out PORTS to port`"),
    ("rdr", "write `dest`"),
    ("dnat", "write `dest`"),
    ("binat", "write `both`"),
    ("nptv6", "write `prefix`"),
];

/// The number of a name in one of the tables.
pub(super) fn number_of<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, number)| number)
}

/// The name of a protocol, else its number.
#[must_use]
pub fn protocol_name(protocol: u8) -> String {
    let known = PROTOCOLS.iter().find(|&&(_, number)| number == protocol);
    known.map_or_else(|| format!("proto {protocol}"), |(name, _)| (*name).to_owned())
}

/// An unknown word: what to write instead of it, which of the `known` words is nearest, or which
/// there are.
pub(super) fn unknown<'k>(
    kind: &str,
    word: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> String {
    if let Some(advice) = number_of(ELSEWHERE, word) {
        return format!("unknown {kind} `{word}`: {advice}");
    }
    match nearest(word, known.clone()) {
        Some(near) => format!("unknown {kind} `{word}`: did you mean `{near}`?"),
        None => {
            let all: Vec<String> = known.take(16).map(|known| format!("`{known}`")).collect();
            match all.is_empty() {
                true => format!("unknown {kind} `{word}`: there are none"),
                false => format!("unknown {kind} `{word}`: there are {}", all.join(", ")),
            }
        }
    }
}

/// The word with the fewest changes to `word`, if it has at most one in three letters.
pub(super) fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let bound = (word.chars().count().min(48) / 3).max(1);
    let near = known.map(|known| (changes(word, known), known)).min_by_key(|&(n, _)| n);
    near.filter(|&(n, _)| n <= bound).map(|(_, known)| known)
}

/// Letters to add, remove or replace, or neighbours to swap, from one word to the other (optimal
/// string alignment). Words of more than 48 letters are far from every other one.
fn changes(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().take(49).collect();
    let other: Vec<char> = other.chars().take(49).collect();
    if one.len() > 48 || other.len() > 48 {
        return usize::MAX;
    }
    let (mut two_before, mut before) = (Vec::new(), (0..=other.len()).collect::<Vec<usize>>());
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = before[j] + usize::from(a != b);
            let mut least = replaced.min(before[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && one[i - 1] == *b && other[j - 1] == *a {
                least = least.min(two_before[j - 1] + 1);
            }
            row.push(least);
        }
        two_before = core::mem::replace(&mut before, row);
    }
    before.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{PROTOCOLS, SERVICES, changes, nearest, number_of};

    #[test]
    fn no_name_is_of_a_protocol_and_of_a_service() {
        for (name, _) in PROTOCOLS {
            assert_eq!(number_of(SERVICES, name), None, "{name}");
        }
    }

    #[test]
    fn the_nearest_word_has_few_changes() {
        assert_eq!(changes("htps", "https"), 1);
        assert_eq!(changes("form", "from"), 1);
        let words = ["from", "to", "label"];
        assert_eq!(nearest("form", words.into_iter()), Some("from"));
        assert_eq!(nearest("lable", words.into_iter()), Some("label"));
        assert_eq!(nearest("quux", words.into_iter()), None);
        assert_eq!(nearest(&"f".repeat(100_000), words.into_iter()), None);
    }
}
