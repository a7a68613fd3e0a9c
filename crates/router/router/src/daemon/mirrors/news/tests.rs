use proptest::prelude::*;

use super::*;

/// An attribute, padded.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A message in answer to request 7.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    bytes.extend([7_u32.to_ne_bytes(), [0; 4]].concat());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn link_message(flags: i32, kind: &str, more: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend([3_u32.to_ne_bytes(), (flags as u32).to_ne_bytes(), [0; 4]].concat());
    body.extend(attribute(libc::IFLA_IFNAME, b"vrrp.51\0"));
    body.extend(attribute(libc::IFLA_ADDRESS, &[0, 0, 0x5e, 0, 1, 51]));
    body.extend(attribute(libc::IFLA_LINK, &2_u32.to_ne_bytes()));
    let kind = attribute(libc::IFLA_INFO_KIND, format!("{kind}\0").as_bytes());
    body.extend(attribute(libc::IFLA_LINKINFO | 0x8000, &kind));
    body.extend(more);
    message(NEW_LINK, 2, &body)
}

fn address_message(len: u8, flags: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = vec![2, len, 0, 0];
    body.extend(3_u32.to_ne_bytes());
    body.extend(attribute(libc::IFA_FLAGS, &flags.to_ne_bytes()));
    body.extend(attributes.iter().flat_map(|(kind, value)| attribute(*kind, value)));
    message(NEW_ADDRESS, 2, &body)
}

const UP: i32 = libc::IFF_UP | libc::IFF_LOWER_UP;

fn one(bytes: &[u8]) -> Option<News> {
    let (all, interrupted) = read(bytes, 7);
    assert!(all.len() < 2 && !interrupted);
    all.into_iter().next()
}

#[test]
fn a_macvlan_has_its_interface_below() {
    let of = |flags, kind, more: &[u8]| match one(&link_message(flags, kind, more)) {
        Some(News::Link(link)) => (link.above, link.is_up),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(UP, "macvlan", &[]), (Some(2), true));
    // Down, or without carrier, as FRR's vrrpd has it (protodown).
    assert_eq!(of(libc::IFF_UP, "macvlan", &[]), (Some(2), false));
    assert_eq!(of(libc::IFF_LOWER_UP, "macvlan", &[]), (Some(2), false));
    assert_eq!(of(UP, "vlan", &[]), (None, true));
    // Its interface below is one of another namespace, with numbers of its own.
    let elsewhere = attribute(libc::IFLA_LINK_NETNSID, &0_u32.to_ne_bytes());
    assert_eq!(of(UP, "macvlan", &elsewhere), (None, true));
    let Some(News::Link(link)) = one(&link_message(UP, "macvlan", &[])) else { panic!() };
    assert_eq!((link.index, link.name.as_str(), link.is_running), (3, "vrrp.51", false));
    assert_eq!(link.mac, Some([0, 0, 0x5e, 0, 1, 51]));
}

#[test]
fn an_address_counts_once_it_may_be_used() {
    let (near, far): (&[u8], &[u8]) = (&[192, 0, 2, 1], &[192, 0, 2, 9]);
    let held = |ip: &str, prefix_len| {
        Some(News::Address(Held { index: 3, ip: ip.parse().expect("an address"), prefix_len }))
    };
    let plain = |len, flags| one(&address_message(len, flags, &[(libc::IFA_ADDRESS, near)]));
    assert_eq!(plain(24, 0x80), held("192.0.2.1", 24));
    assert_eq!(plain(24, libc::IFA_F_TENTATIVE), None);
    assert_eq!(plain(24, libc::IFA_F_DADFAILED | 0x80), None);
    assert_eq!((plain(0, 0), plain(33, 0)), (None, None));
    let ends = [(libc::IFA_ADDRESS, far), (libc::IFA_LOCAL, near)];
    assert_eq!(one(&address_message(32, 0, &ends)), held("192.0.2.1", 32));
    let mut v6 = [0; 16];
    (v6[0], v6[15]) = (0x20, 1);
    let bytes = address_message(128, 0, &[(libc::IFA_ADDRESS, &v6)]);
    assert_eq!(one(&bytes), held("2000::1", 128));
    assert_eq!(one(&address_message(24, 0, &[(libc::IFA_ADDRESS, &near[..3])])), None);
    assert_eq!(one(&address_message(24, 0, &[])), None);
}

#[test]
fn the_end_of_an_answer_and_a_change_while_it_was_read() {
    let done = [address_message(32, 0, &[(libc::IFA_LOCAL, &[1; 4])]), message(DONE, 2, &[0; 4])];
    let (all, interrupted) = read(&done.concat(), 7);
    assert!(matches!(all[..], [News::Address(_), News::Done]) && !interrupted);
    assert!(read(&message(DONE, INTERRUPTED, &[0; 4]), 7).1);
    let refused = message(ERROR, 0, &(-libc::EBUSY).to_ne_bytes());
    assert_eq!(one(&refused), Some(News::Refused(libc::EBUSY)));
    // An answer to another request.
    assert_eq!(read(&done.concat(), 8), (Vec::new(), false));
}

/// Lengths that lie end the reading, and what came before counts.
#[test]
fn no_length_is_believed() {
    let good = address_message(32, 0, &[(libc::IFA_LOCAL, &[1; 4])]);
    for len in (0..good.len() as u32).chain([u32::MAX, good.len() as u32 + 1]) {
        let mut bad = good.clone();
        bad[..4].copy_from_slice(&len.to_ne_bytes());
        let (all, _) = read(&[good.clone(), bad].concat(), 7);
        assert!(matches!(all.first(), Some(News::Address(_))), "{len}: {all:?}");
    }
    for end in 0..good.len() {
        assert_eq!(read(&good[..end], 7), (Vec::new(), false), "{end}");
    }
}

proptest! {
    /// The kernel does not send it; it does no harm.
    #[test]
    fn nonsense_is_read_to_an_end(
        at in 0_usize..100,
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut message = link_message(UP, "macvlan", &[]);
        let end = (at + bytes.len()).min(message.len());
        let at = at.min(end);
        message[at..end].copy_from_slice(&bytes[..end - at]);
        read(&message, 7);
        read(&bytes, 7);
    }
}
