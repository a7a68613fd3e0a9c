//! Names that several dissectors print: Ethertypes, IP protocols, vendors, LLC service access
//! points.
//!
//! Called by: dissectors.

use crate::text::{Names, name};

pub(crate) const ETHERTYPES: Names = &[
    (0x0800, "IPv4"),
    (0x8847, "MPLS unicast"),
    (0x8848, "MPLS multicast"),
    (0x86dd, "IPv6"),
    (0x8100, "802.1Q"),
    (0x88a8, "802.1Q-QinQ"),
    (0x9100, "802.1Q-9100"),
    (0x9200, "802.1Q-9200"),
    (0x88e5, "802.1AE MACsec"),
    (0x0200, "PUP"),
    (0x0806, "ARP"),
    (0x8035, "Reverse ARP"),
    (0x0600, "NS"),
    (0x0500, "Sprite"),
    (0x1000, "Trail"),
    (0x6001, "MOP DL"),
    (0x6002, "MOP RC"),
    (0x6003, "DN"),
    (0x6004, "LAT"),
    (0x6007, "SCA"),
    (0x6558, "TEB"),
    (0x8038, "Lanbridge"),
    (0x803c, "DEC DNS"),
    (0x803e, "DEC DTS"),
    (0x805b, "VEXP"),
    (0x805c, "VPROD"),
    (0x809b, "Appletalk"),
    (0x80f3, "Appletalk ARP"),
    (0x8137, "IPX"),
    (0x880b, "PPP"),
    (0x8808, "MPCP"),
    (0x8809, "Slow Protocols"),
    (0x8863, "PPPoE D"),
    (0x8864, "PPPoE S"),
    (0x888e, "EAPOL"),
    (0x8899, "Realtek protocols"),
    (0x886f, "MS NLB heartbeat"),
    (0x8870, "Jumbo"),
    (0x894f, "NSH"),
    (0x9000, "Loopback"),
    (0xfefe, "OSI"),
    (0x00fe, "GRE-OSI"),
    (0xabcd, "CFM (old)"),
    (0x8902, "CFM"),
    (0x893a, "IEEE1905.1"),
    (0x88cc, "LLDP"),
    (0x88ca, "TIPC"),
    (0x0707, "GeoNet (old)"),
    (0x8947, "GeoNet"),
    (0x1111, "CALM FAST"),
    (0x88a2, "AoE"),
    (0x88f7, "PTP"),
    (0xd28b, "Arista Vendor Specific Protocol"),
];

/// The name of an Ethertype, or `otherwise`.
pub(crate) fn ethertype_name(ethertype: u16, otherwise: &str) -> String {
    name(ETHERTYPES, ethertype, otherwise)
}

/// The names of IP protocols, which `-v` prints.
pub(crate) const IP_PROTOCOLS: Names = &[
    (0, "Options"),
    (1, "ICMP"),
    (2, "IGMP"),
    (4, "IPIP"),
    (6, "TCP"),
    (8, "EGP"),
    (9, "IGRP"),
    (17, "UDP"),
    (33, "DCCP"),
    (41, "IPv6"),
    (43, "Routing"),
    (44, "Fragment"),
    (46, "RSVP"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (55, "Mobile IP"),
    (58, "ICMPv6"),
    (62, "Mobile IP (old)"),
    (88, "EIGRP"),
    (89, "OSPF"),
    (103, "PIM"),
    (108, "Compressed IP"),
    (112, "VRRP"),
    (113, "PGM"),
    (132, "SCTP"),
    (135, "Mobility"),
    (143, "Ethernet"),
];

/// The names of vendors, by OUI.
pub(crate) const OUIS: Names = &[
    (0x000000, "Ethernet"),
    (0x00000c, "Cisco"),
    (0x00005e, "IANA"),
    (0x000081, "Nortel Networks SONMP"),
    (0x0000f8, "Cisco bridged"),
    (0x0080c2, "Ethernet bridged"),
    (0x00a03e, "ATM Forum"),
    (0x00e02f, "DOCSIS Spanning Tree"),
    (0x080007, "Appletalk"),
    (0x009069, "Juniper"),
    (0x080009, "Hewlett-Packard"),
    (0x00120f, "IEEE 802.3 Private"),
    (0x0012bb, "ANSI/TIA"),
    (0x001b21, "DCBX"),
    (0x002320, "Nicira Networks"),
    (0x5c16c7, "Big Switch Networks"),
    (0xb0d2f5, "Vello Systems"),
    (0x002481, "HP"),
    (0x0004ea, "HP-Labs"),
    (0x748771, "Infoblox Inc"),
    (0xa42305, "Open Networking Lab"),
    (0x00049f, "Freescale"),
    (0x0015ad, "Netronome"),
    (0x001018, "Broadcom"),
    (0x00e004, "PMC-Sierra"),
    (0xd0f0db, "Ericsson"),
];

/// The names of Cisco's protocols over SNAP.
pub(crate) const CISCO_PIDS: Names = &[
    (0x2000, "CDP"),
    (0x2003, "VTP"),
    (0x2004, "DTP"),
    (0x0111, "UDLD"),
    (0x010b, "PVST"),
    (0x010c, "VLAN Bridge"),
];

/// The names of bridged frames over SNAP (RFC 2684).
pub(crate) const BRIDGED_PIDS: Names = &[
    (0x0001, "Ethernet + FCS"),
    (0x0007, "Ethernet w/o FCS"),
    (0x0002, "802.4 + FCS"),
    (0x0008, "802.4 w/o FCS"),
    (0x0003, "Token Ring + FCS"),
    (0x0009, "Token Ring w/o FCS"),
    (0x0004, "FDDI + FCS"),
    (0x000a, "FDDI w/o FCS"),
    (0x0005, "802.6 + FCS"),
    (0x000b, "802.6 w/o FCS"),
    (0x000e, "BPDU"),
];

/// The names of LLC's service access points.
pub(crate) const SAPS: Names = &[
    (0x00, "Null"),
    (0xff, "Global"),
    (0x02, "802.1B I"),
    (0x03, "802.1B G"),
    (0x06, "IP"),
    (0x04, "SNA"),
    (0x0e, "ProWay NM"),
    (0x42, "STP"),
    (0x4e, "RS511"),
    (0x7e, "ISO8208"),
    (0x8e, "ProWay"),
    (0xaa, "SNAP"),
    (0xe0, "IPX"),
    (0xf0, "NetBeui"),
    (0xfe, "OSI"),
];
