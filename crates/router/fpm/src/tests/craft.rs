//! Messages as zebra writes them, for tests.

use core::net::IpAddr;

use base::Cidr;

/// Attributes of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn raw(mut self, kind: u16, value: &[u8]) -> Attributes {
        let length = u16::try_from(4 + value.len()).expect("an attribute is short");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn word(self, kind: u16, value: u32) -> Attributes {
        self.raw(kind, &value.to_ne_bytes())
    }

    pub(super) fn half(self, kind: u16, value: u16) -> Attributes {
        self.raw(kind, &value.to_ne_bytes())
    }

    pub(super) fn gateway(self, ip: &str) -> Attributes {
        self.raw(5, &octets(ip))
    }

    pub(super) fn nh_gateway(self, ip: &str) -> Attributes {
        self.raw(6, &octets(ip))
    }

    pub(super) fn via(self, ip: &str) -> Attributes {
        let family: u16 = if octets(ip).len() == 4 { 2 } else { 10 };
        self.raw(18, &[&family.to_ne_bytes()[..], &octets(ip)].concat())
    }

    /// Interface, weight less 1, attributes of each path.
    pub(super) fn paths(self, paths: &[(u32, u8, Attributes)]) -> Attributes {
        let mut all = Vec::new();
        for (interface, weight, attributes) in paths {
            let length = u16::try_from(8 + attributes.0.len()).expect("a path is short");
            all.extend(length.to_ne_bytes());
            all.extend([0, *weight]);
            all.extend(interface.to_ne_bytes());
            all.extend(&attributes.0);
        }
        self.raw(9, &all)
    }
}

fn octets(ip: &str) -> Vec<u8> {
    match ip.parse().expect("an address") {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

pub(super) fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = u32::try_from(16 + body.len()).expect("short").to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message
}

pub(super) fn frame(messages: &[Vec<u8>]) -> Vec<u8> {
    let payload = messages.concat();
    let length = u16::try_from(4 + payload.len()).expect("a frame is short");
    [&[1, 1][..], &length.to_be_bytes(), &payload].concat()
}

fn route_message(
    message_type: u16,
    prefix: &str,
    tail: [u8; 4],
    attributes: Attributes,
) -> Vec<u8> {
    let prefix: Cidr = prefix.parse().expect("a prefix");
    let family = if prefix.addr.is_ipv4() { 2 } else { 10 };
    let mut body = vec![family, prefix.prefix_len, 0, 0];
    body.extend(tail);
    body.extend([0; 4]);
    body.extend(Attributes::default().raw(1, &octets(&prefix.addr.to_string())).0);
    body.extend(attributes.0);
    message(message_type, &body)
}

pub(super) fn route(prefix: &str, protocol: u8, kind: u8, attributes: Attributes) -> Vec<u8> {
    route_message(24, prefix, [254, protocol, 0, kind], attributes)
}

pub(super) fn delete_route(prefix: &str, protocol: u8, attributes: Attributes) -> Vec<u8> {
    route_message(25, prefix, [254, protocol, 0, 0], attributes)
}

pub(super) fn nexthop(id: u32, attributes: Attributes) -> Vec<u8> {
    message(104, &[&[2, 0, 11, 0, 0, 0, 0, 0], &attributes.word(1, id).0[..]].concat())
}

pub(super) fn delete_nexthop(id: u32) -> Vec<u8> {
    message(105, &[&[0; 8], &Attributes::default().word(1, id).0[..]].concat())
}

/// Members and their weights less 1.
pub(super) fn group(id: u32, members: &[(u32, u8)]) -> Vec<u8> {
    let member = |&(id, weight): &(u32, u8)| {
        let [a, b, c, d] = id.to_ne_bytes();
        [a, b, c, d, weight, 0, 0, 0]
    };
    let members: Vec<u8> = members.iter().flat_map(member).collect();
    nexthop(id, Attributes::default().raw(2, &members))
}
