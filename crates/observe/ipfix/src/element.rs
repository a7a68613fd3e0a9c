//! Information elements: their numbers in IANA's registry and the bytes that we give them.
//!
//! Called by: `template.rs`. Source: IANA, "IP Flow Information Export (IPFIX) Entities"; RFC 7012,
//! RFC 8158 section 4.

/// An information element of IANA's registry with its encoded length. RFC 7011 3.2-a,
/// 6.2-a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) id: u16,
    /// Bytes, or [`VARIABLE`].
    pub(crate) len: u16,
}

/// The length of an element whose values say their length. RFC 7011 section 7.
pub(crate) const VARIABLE: u16 = 0xffff;

const fn element(id: u16, len: u16) -> Element {
    Element { id, len }
}

pub(crate) const OCTET_DELTA_COUNT: Element = element(1, 8);
pub(crate) const PACKET_DELTA_COUNT: Element = element(2, 8);
pub(crate) const PROTOCOL_IDENTIFIER: Element = element(4, 1);
pub(crate) const SOURCE_TRANSPORT_PORT: Element = element(7, 2);
pub(crate) const SOURCE_IPV4_ADDRESS: Element = element(8, 4);
pub(crate) const INGRESS_INTERFACE: Element = element(10, 4);
pub(crate) const DESTINATION_TRANSPORT_PORT: Element = element(11, 2);
pub(crate) const DESTINATION_IPV4_ADDRESS: Element = element(12, 4);
pub(crate) const EGRESS_INTERFACE: Element = element(14, 4);
pub(crate) const SOURCE_IPV6_ADDRESS: Element = element(27, 16);
pub(crate) const DESTINATION_IPV6_ADDRESS: Element = element(28, 16);
pub(crate) const ICMP_TYPE_CODE_IPV4: Element = element(32, 2);
pub(crate) const INTERFACE_NAME: Element = element(82, VARIABLE);
pub(crate) const FLOW_END_REASON: Element = element(136, 1);
pub(crate) const ICMP_TYPE_CODE_IPV6: Element = element(139, 2);
pub(crate) const FLOW_START_MILLISECONDS: Element = element(152, 8);
pub(crate) const FLOW_END_MILLISECONDS: Element = element(153, 8);
pub(crate) const POST_NAT_SOURCE_IPV4_ADDRESS: Element = element(225, 4);
pub(crate) const POST_NAT_DESTINATION_IPV4_ADDRESS: Element = element(226, 4);
pub(crate) const POST_NAPT_SOURCE_TRANSPORT_PORT: Element = element(227, 2);
pub(crate) const POST_NAPT_DESTINATION_TRANSPORT_PORT: Element = element(228, 2);
pub(crate) const NAT_EVENT: Element = element(230, 1);
pub(crate) const POST_NAT_SOURCE_IPV6_ADDRESS: Element = element(281, 16);
pub(crate) const POST_NAT_DESTINATION_IPV6_ADDRESS: Element = element(282, 16);
pub(crate) const NAT_POOL_ID: Element = element(283, 4);
pub(crate) const OBSERVATION_TIME_MILLISECONDS: Element = element(323, 8);
pub(crate) const PORT_RANGE_START: Element = element(361, 2);
pub(crate) const PORT_RANGE_END: Element = element(362, 2);
pub(crate) const NAT_QUOTA_EXCEEDED_EVENT: Element = element(466, 4);
pub(crate) const MAX_SESSION_ENTRIES: Element = element(471, 4);
pub(crate) const MAX_BIB_ENTRIES: Element = element(472, 4);
pub(crate) const MAX_ENTRIES_PER_USER: Element = element(473, 4);
