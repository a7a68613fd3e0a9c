//! Templates: the kinds of records that an exporter sends, each with its elements in order.
//!
//! Called by: `message.rs` for template records, `record.rs` for the data records, whose fields
//! have the same order. RFC 7011 section 3.4, RFC 8158 section 4.6.

use crate::element::*;

/// A kind of record. RFC 8158 section 4.6 has the elements of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Template {
    /// One direction of a flow.
    Flow(Flow),
    /// A session of NAT44 began or ended; never of its destination alone.
    Session(Ends),
    /// A source got a block of ports, or lost it.
    Block { is_v6: bool },
    /// A source has as many ports as it may.
    QuotaOfSource { is_v6: bool },
    /// The table of sessions is full.
    QuotaOfSessions,
    /// The table of mappings is full.
    QuotaOfMappings,
    /// A pool has no address.
    AddressesExhausted,
    /// An outside address has no port.
    PortsExhausted { is_v6: bool },
    /// The name of an interface: an options template.
    Interface,
}

/// Flows have one template for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) is_v6: bool,
    pub(crate) is_translated: bool,
    /// ICMP has types instead of ports.
    pub(crate) is_icmp: bool,
    /// Both if it is not translated.
    pub(crate) ends: Ends,
}

/// The ends of a flow that a record names. RFC 8158 4.1-a, RFC 6888 REQ-12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Both,
    Source,
    Destination,
}

impl Ends {
    /// Of a source and a destination those that are named.
    pub(crate) fn of<T>(self, both: &[T; 2]) -> &[T] {
        match self {
            Ends::Both => both,
            Ends::Source => &both[..1],
            Ends::Destination => &both[1..],
        }
    }
}

/// The first template id. RFC 7011 3.4.1-a.
const FIRST: u16 = 256;

const BLOCKS: [Template; 8] = [
    Template::Block { is_v6: false },
    Template::Block { is_v6: true },
    Template::QuotaOfSource { is_v6: false },
    Template::QuotaOfSource { is_v6: true },
    Template::QuotaOfSessions,
    Template::QuotaOfMappings,
    Template::AddressesExhausted,
    Template::PortsExhausted { is_v6: false },
];

impl Template {
    /// Those that an exporter uses which names all destinations, or not.
    pub(crate) fn all(destinations: bool) -> impl Iterator<Item = Template> {
        let flow = |bits: u16| {
            let bit = |bit| bits & bit != 0;
            let (is_v6, is_translated, is_icmp) = (bit(1), bit(2), bit(4));
            Template::Flow(Flow { is_v6, is_translated, is_icmp, ends: Ends::Both })
        };
        let half = |bits: u16| {
            let bit = |bit| bits & bit != 0;
            let ends = if bit(4) { Ends::Destination } else { Ends::Source };
            Template::Flow(Flow { is_v6: bit(1), is_translated: true, is_icmp: bit(2), ends })
        };
        let halves = (0..8).map(half).chain([Template::Session(Ends::Source)]);
        let others = [Template::PortsExhausted { is_v6: true }, Template::Interface];
        let whole = (0..8).map(flow).chain([Template::Session(Ends::Both)]);
        whole.chain(BLOCKS).chain(others).chain(halves.filter(move |_| !destinations))
    }

    /// Its id, and that of sets of its records; it never changes. RFC 7011 8-a.
    pub(crate) fn id(self) -> u16 {
        let at = match self {
            Template::Flow(Flow { is_v6, is_translated, is_icmp, ends: Ends::Both }) => {
                u16::from(is_v6) | u16::from(is_translated) << 1 | u16::from(is_icmp) << 2
            }
            Template::Flow(Flow { is_v6, is_icmp, ends, .. }) => {
                let of_reply = u16::from(ends == Ends::Destination);
                20 + (u16::from(is_v6) | u16::from(is_icmp) << 1 | of_reply << 2)
            }
            Template::Session(Ends::Both) => 8,
            Template::Session(_) => 19,
            Template::Block { is_v6 } => 9 + u16::from(is_v6),
            Template::QuotaOfSource { is_v6 } => 11 + u16::from(is_v6),
            Template::QuotaOfSessions => 13,
            Template::QuotaOfMappings => 14,
            Template::AddressesExhausted => 15,
            Template::PortsExhausted { is_v6 } => 16 + u16::from(is_v6),
            Template::Interface => 18,
        };
        FIRST + at
    }

    /// How many of its elements are the scope of an options template; 0 for other templates.
    pub(crate) fn scopes(self) -> u16 {
        u16::from(self == Template::Interface)
    }

    /// Its elements in order.
    pub(crate) fn elements(self) -> Vec<Element> {
        match self {
            Template::Flow(flow) => flow.elements(),
            Template::Session(ends) => [
                &[OBSERVATION_TIME_MILLISECONDS, NAT_EVENT, PROTOCOL_IDENTIFIER][..],
                ends.of(&addresses(false)),
                ends.of(&PORTS),
                ends.of(&post_addresses(false)),
                ends.of(&POST_PORTS),
            ]
            .concat(),
            Template::Block { is_v6 } => vec![
                OBSERVATION_TIME_MILLISECONDS,
                NAT_EVENT,
                addresses(is_v6)[0],
                post_addresses(is_v6)[0],
                PORT_RANGE_START,
                PORT_RANGE_END,
            ],
            Template::QuotaOfSource { is_v6 } => {
                let source = addresses(is_v6)[0];
                [&QUOTA[..], &[MAX_ENTRIES_PER_USER, source]].concat()
            }
            Template::QuotaOfSessions => [&QUOTA[..], &[MAX_SESSION_ENTRIES]].concat(),
            Template::QuotaOfMappings => [&QUOTA[..], &[MAX_BIB_ENTRIES]].concat(),
            Template::AddressesExhausted => {
                vec![OBSERVATION_TIME_MILLISECONDS, NAT_EVENT, NAT_POOL_ID]
            }
            Template::PortsExhausted { is_v6 } => vec![
                OBSERVATION_TIME_MILLISECONDS,
                NAT_EVENT,
                post_addresses(is_v6)[0],
                PROTOCOL_IDENTIFIER,
            ],
            Template::Interface => vec![INGRESS_INTERFACE, INTERFACE_NAME],
        }
    }
}

const QUOTA: [Element; 3] = [OBSERVATION_TIME_MILLISECONDS, NAT_EVENT, NAT_QUOTA_EXCEEDED_EVENT];
const PORTS: [Element; 2] = [SOURCE_TRANSPORT_PORT, DESTINATION_TRANSPORT_PORT];
const POST_PORTS: [Element; 2] =
    [POST_NAPT_SOURCE_TRANSPORT_PORT, POST_NAPT_DESTINATION_TRANSPORT_PORT];

fn addresses(is_v6: bool) -> [Element; 2] {
    match is_v6 {
        false => [SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS],
        true => [SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS],
    }
}

fn post_addresses(is_v6: bool) -> [Element; 2] {
    match is_v6 {
        false => [POST_NAT_SOURCE_IPV4_ADDRESS, POST_NAT_DESTINATION_IPV4_ADDRESS],
        true => [POST_NAT_SOURCE_IPV6_ADDRESS, POST_NAT_DESTINATION_IPV6_ADDRESS],
    }
}

impl Flow {
    fn elements(self) -> Vec<Element> {
        let mut all = vec![
            FLOW_START_MILLISECONDS,
            FLOW_END_MILLISECONDS,
            OCTET_DELTA_COUNT,
            PACKET_DELTA_COUNT,
            INGRESS_INTERFACE,
            EGRESS_INTERFACE,
            PROTOCOL_IDENTIFIER,
            FLOW_END_REASON,
        ];
        all.extend(self.ends.of(&addresses(self.is_v6)));
        match (self.is_icmp, self.is_v6) {
            (false, _) => all.extend(self.ends.of(&PORTS)),
            (true, false) => all.push(ICMP_TYPE_CODE_IPV4),
            (true, true) => all.push(ICMP_TYPE_CODE_IPV6),
        }
        if self.is_translated {
            all.extend(self.ends.of(&post_addresses(self.is_v6)));
            if !self.is_icmp {
                all.extend(self.ends.of(&POST_PORTS));
            }
        }
        all
    }
}
