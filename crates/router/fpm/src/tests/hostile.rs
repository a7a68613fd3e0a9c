//! Bytes of any kind: nothing panics, nothing grows beyond its limit, and where the bytes are cut
//! does not matter.

use proptest::prelude::*;

use super::craft::{Attributes, frame, group, message, nexthop, route};
use super::{changes, key};
use crate::{Change, Fpm, Limit, Violation};

/// More groups of five than there may be members of all groups.
const GROUPS: u32 = 60_000;

#[test]
fn a_peer_that_breaks_the_protocol_is_told_by_what() {
    let cases: [(&[u8], Violation); 6] = [
        (&[2, 1, 0, 4], Violation::Version(2)),
        (&[1, 2, 0, 4], Violation::MessageType(2)),
        (&[1, 1, 0, 3], Violation::FrameLength(3)),
        (&[1, 1, 0, 6, 1, 0], Violation::MessageLength(0)),
        (&[1, 1, 0, 8, 0xff, 0, 0, 0], Violation::MessageLength(255)),
        (&[1, 1, 0, 8, 4, 0, 0, 0], Violation::MessageLength(4)),
    ];
    for (bytes, violation) in cases {
        assert_eq!(Fpm::default().receive(bytes, &mut |_| ()), Err(violation), "{bytes:?}");
    }
    let short = frame(&[message(24, &[0; 11])]);
    assert_eq!(Fpm::default().receive(&short, &mut |_| ()), Err(Violation::ShortMessage(24)));
    let long = frame(&[message(24, &[2, 33, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0])]);
    assert_eq!(Fpm::default().receive(&long, &mut |_| ()), Err(Violation::PrefixLength(33)));
}

#[test]
fn groups_stop_at_the_limit() {
    let mut fpm = Fpm::default();
    for id in 0..GROUPS {
        let bytes = frame(&[group(id, &[(id + 1, 0); 5])]);
        fpm.receive(&bytes, &mut |_| ()).expect("a group that is refused does not end the session");
    }
    let most = Limit::AllMembers.most() / 5;
    assert_eq!(fpm.nexthops(), most);
    assert_eq!(fpm.counts().limited[Limit::AllMembers as usize], u64::from(GROUPS) - most as u64);
    let large = frame(&[group(7, &[(1, 0); 257])]);
    fpm.receive(&large, &mut |_| ()).expect("it keeps to the protocol");
    assert_eq!(fpm.counts().limited[Limit::Members as usize], 1);
}

#[test]
fn paths_within_paths_do_not_use_the_stack() {
    let mut attributes = Attributes::default().gateway("192.0.2.2");
    for _ in 0..5_000 {
        attributes = Attributes::default().paths(&[(1, 0, attributes)]);
    }
    let got = changes(&mut Fpm::default(), &frame(&[route("10.0.0.0/8", 186, 1, attributes)]));
    assert_eq!(got, [Change::Delete { key: key("10.0.0.0/8") }]);
}

/// Frames that zebra might send, so that random changes reach deep.
fn sound() -> Vec<u8> {
    let path = |ip: &str| (3, 0, Attributes::default().gateway(ip));
    let several = Attributes::default().paths(&[path("192.0.2.2"), path("192.0.2.3")]);
    [
        frame(&[nexthop(1, Attributes::default().nh_gateway("192.0.2.2").word(5, 7))]),
        frame(&[group(2, &[(1, 0), (3, 1)]), route("10.1.0.0/16", 186, 1, several)]),
        frame(&[route("2001:db8::/32", 186, 1, Attributes::default().word(30, 2))]),
    ]
    .concat()
}

proptest! {
    #[test]
    fn any_bytes_end_in_changes_or_a_violation(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = Fpm::default().receive(&bytes, &mut |_| ());
        let _ = Fpm::default().receive(&frame(&[message(24, &bytes)]), &mut |_| ());
        let _ = Fpm::default().receive(&frame(&[message(104, &bytes)]), &mut |_| ());
    }

    #[test]
    fn changed_and_truncated_frames_end_in_changes_or_a_violation(
        changed in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = sound();
        for (at, to) in changed {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        let _ = Fpm::default().receive(&bytes, &mut |_| ());
    }

    #[test]
    fn where_the_stream_is_cut_does_not_matter(
        cuts in proptest::collection::vec(1..40usize, 1..20),
    ) {
        let bytes = sound();
        let whole = changes(&mut Fpm::default(), &bytes);
        let (mut fpm, mut parts, mut rest) = (Fpm::default(), Vec::new(), &bytes[..]);
        for cut in cuts.into_iter().cycle() {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            parts.extend(changes(&mut fpm, now));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(parts, whole);
    }
}
