//! Reassembly without a stack: any partition in any order, forged fragments, limits, and the
//! account of every fragment.

mod limits;
mod partitions;
mod refusals;

use core::net::IpAddr;

use base::{Budget, DropReason, Drops, Instant, LinkKind, MacAddr};
use mbuf::{Flags, Pool};
use wire::checksum::Ladder;
use wire::{ipv6, protocol};

use super::{FragmentHeader, Fragments, Key, Problem};
use crate::HeaderTemplate;
use crate::ip_input::{ipv4_any, ipv6_any};
use crate::ip_output::Fields;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// A fragment to make: where it begins, whether others follow, and its data.
#[derive(Clone, Debug)]
struct Cut {
    begin: usize,
    more: bool,
    data: Vec<u8>,
}

/// A datagram's data: at least a UDP header. No two parts of it are equal.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Fragments of `data`, which is cut at these places.
fn cut_at(data: &[u8], places: &[usize]) -> Vec<Cut> {
    let ends: Vec<usize> = places.iter().copied().chain([data.len()]).collect();
    let begins = [0].into_iter().chain(places.iter().copied());
    begins
        .zip(&ends)
        .map(|(begin, &end)| Cut { begin, more: end < data.len(), data: data[begin..end].to_vec() })
        .collect()
}

fn template(src: &str, dst: &str) -> HeaderTemplate {
    let [src, dst]: [IpAddr; 2] = [src, dst].map(|a| a.parse().expect("an address"));
    let fields = Fields { src, dst, protocol: protocol::UDP, tos: 0, ttl: 64 };
    HeaderTemplate::new(LinkKind::Ip, MacAddr::default(), MacAddr::default(), &fields)
}

/// The fast path for IPv4 on Ethernet and the path that parses the headers agree, even if the TOS
/// is set later.
#[test]
fn fragments_headers_of_a_template_are_those_of_its_bytes() {
    let ends = [("192.0.2.2", "192.0.2.1"), ("2001:db8::2", "2001:db8::1")];
    for (src, dst) in ends {
        let [src, dst]: [IpAddr; 2] = [src, dst].map(|a| a.parse().expect("an address"));
        let fields = Fields { src, dst, protocol: protocol::UDP, tos: 0, ttl: 64 };
        let macs = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        for link in [LinkKind::Ethernet, LinkKind::Ip] {
            let mut template = HeaderTemplate::new(link, macs.0, macs.1, &fields);
            template.set_tos_ttl(0x2e, 9);
            let quick = FragmentHeader::of(&template).expect("plain headers");
            let parsed = FragmentHeader::new(template.headers(), template.link_len());
            let written = [quick, parsed.expect("plain headers")].map(|mut header| {
                header.set_id(0xbeef);
                let mut bytes = vec![0; header.header_len()];
                assert!(header.write(&mut bytes, 1_480, 1_480, true));
                (header.flow(), bytes)
            });
            assert_eq!(written[0], written[1]);
        }
    }
}

/// The IP packet of a fragment.
fn packet(v6: bool, id: u32, cut: &Cut) -> Vec<u8> {
    let template = match v6 {
        true => template("2001:db8::2", "2001:db8::1"),
        false => template("192.0.2.2", "192.0.2.1"),
    };
    packet_of(&template, id, cut)
}

fn packet_of(template: &HeaderTemplate, id: u32, cut: &Cut) -> Vec<u8> {
    let mut header = FragmentHeader::new(template.headers(), 0).expect("plain headers");
    header.set_id(id);
    let mut bytes = vec![0; header.header_len()];
    assert!(header.write(&mut bytes, cut.begin, cut.data.len(), cut.more));
    bytes.extend_from_slice(&cut.data);
    bytes
}

/// A host that receives fragments, and its account of them.
struct Host {
    pool: Pool,
    frags: Fragments,
    budget: Budget,
    drops: Drops,
    /// Fragments given, and those that became datagrams.
    given: u64,
    joined: u64,
}

impl Host {
    fn new() -> Host {
        Host {
            pool: Pool::new(64 << 20),
            frags: Fragments::default(),
            budget: Budget::default(),
            drops: Drops::default(),
            given: 0,
            joined: 0,
        }
    }

    /// Give the host a packet that is a fragment; returns the datagram if it is complete.
    fn give(
        &mut self,
        packet: &[u8],
        now: Instant,
    ) -> Result<Option<Vec<u8>>, (DropReason, Option<Problem>)> {
        let mut m = self.pool.copy_of(packet).expect("the pool is large");
        // Flags that a device sets for a fragment do not hold for the datagram.
        m.set(Flags::CSUM_VERIFIED | Flags::VLAN);
        m.set_segment_size(8);
        self.given += 1;
        let (budget, drops) = (&mut self.budget, &mut self.drops);
        let taken = if packet[0] >> 4 == 4 {
            let (ip, part) = ipv4_any(packet).expect("a header");
            let part = part.expect("a fragment");
            let key = Key::of(&ip, &part, m.in_port());
            self.frags.insert(key, (&ip, part), m, now, budget, drops)
        } else {
            let (ip, part) = ipv6_any(packet).expect("headers");
            let part = part.expect("a fragment");
            let key = Key::of(&ip, &part, m.in_port());
            self.frags.insert(key, (&ip, part), m, now, budget, drops)
        };
        let outcome = match taken {
            Ok(None) => Ok(None),
            Ok(Some(datagram)) => {
                self.joined += datagram.len() as u64;
                let joined = self.frags.join(datagram, &mut self.pool, Ladder::best());
                let joined = joined.expect("memory");
                let bytes = joined.packet.as_slice();
                let sum = Ladder::Byte.sum(&bytes[joined.data_at as usize..]);
                assert_eq!(
                    joined.data_sum.field(),
                    sum.field(),
                    "the sum is not that of the datagram's data"
                );
                let flags = [Flags::CSUM_VERIFIED, Flags::VLAN, Flags::LINK_GROUP];
                let has_any = flags.iter().any(|&flag| joined.packet.has(flag));
                assert!(!has_any && joined.packet.segment_size() == 0);
                Ok(Some(bytes.to_vec()))
            }
            Err(refused) => {
                self.drops.count(refused.reason);
                Err((refused.reason, refused.report.map(|(problem, _)| problem)))
            }
        };
        self.settle();
        outcome
    }

    /// Check that every fragment is in a datagram, was dropped for one reason, or is held. The
    /// memory in use is that of the held fragments, and within the limits.
    fn settle(&mut self) {
        let held = self.frags.held();
        assert_eq!(self.given, self.joined + self.drops.total() + held as u64);
        assert_eq!(self.pool.outstanding(), held);
        let sum: usize = self.frags.bytes();
        assert!(sum <= self.budget.of(base::Limit::FragmentBytes));
        assert!(
            sum >= held * 2_048 && (sum == 0) == (held == 0),
            "{sum} bytes are charged for {held} held fragments"
        );
    }
}

/// The data of a joined datagram, whose headers must not be those of a fragment.
fn data_of(datagram: &[u8]) -> Vec<u8> {
    if datagram[0] >> 4 == 4 {
        let (ip, part) = ipv4_any(datagram).expect("a header with its checksum");
        assert_eq!(
            (part, ip.protocol, datagram.len()),
            (None, protocol::UDP, 20 + ip.transport_len as usize)
        );
        return datagram[20..].to_vec();
    }
    let (ip, part) = ipv6_any(datagram).expect("a header");
    assert_eq!((part, ip.protocol), (None, protocol::UDP));
    assert_eq!(datagram.len(), ipv6::HEADER_LEN + ip.transport_len as usize);
    datagram[ipv6::HEADER_LEN..].to_vec()
}
