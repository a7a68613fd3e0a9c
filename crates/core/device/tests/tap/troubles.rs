//! How interfaces fail, and that each error tells what to do.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

use base::{DropReason, LinkKind};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use testbed::{Case, Namespace, ip};
use wirespeed_device::tap::{Config, Declared, Setup, Tap, TapError};
use wirespeed_device::{Burst, Device};

use crate::ends::{End, kernel, ours};
use crate::frames;
use crate::wire::socket;

pub(crate) const CASES: &[Case] = &[
    ("a_name_that_is_long_taken_or_another_kind_is_refused", &[], names),
    ("without_the_privilege_the_error_names_the_command", &[], privilege),
    ("descriptors_that_cannot_carry_frames_are_refused", &[], descriptors),
    ("an_interface_that_is_down_loses_frames_until_it_is_up", &[], down),
    ("an_interface_that_is_down_or_up_again_is_noticed_by_asking", &[], asked),
    ("an_interface_deleted_under_us_is_gone_for_good", &[], deleted),
    ("frames_longer_than_the_limits_are_dropped_both_ways", &[], too_long),
    ("an_interface_in_another_namespace_is_not_here", &[], elsewhere),
];

fn named(name: &str) -> Config {
    Config { name: Some(name.to_owned()), vnet_hdr: false, ..Config::default() }
}

fn names() {
    let open = |name: &str| Tap::open(&named(name)).err();
    let long = "sixteen-letters-";
    assert_eq!(open(long), Some(TapError::NameTooLong { name: long.to_owned() }));
    assert_eq!(open("lo"), Some(TapError::Mismatch { name: "lo".to_owned() }));
    assert_eq!(open("a/b"), Some(TapError::Mismatch { name: "a/b".to_owned() }));
    let first = Tap::open(&named("ws0")).expect("it is free");
    let error = open("ws0").expect("it is taken");
    assert_eq!(error, TapError::Taken { name: "ws0".to_owned() });
    assert!(error.to_string().contains("in use by another program"), "{error}");
    drop(first);
    drop(Tap::open(&named("ws0")).expect("it is free again"));
    let chosen = Tap::open(&Config { link: LinkKind::Ip, ..Config::default() }).expect("any name");
    assert_eq!(chosen.name(), "tun0");
}

fn privilege() {
    // Only this thread gives up its privileges.
    let mut sets = capabilities(None).expect("they can be read");
    sets.effective.remove(CapabilitySet::NET_ADMIN);
    set_capabilities(None, sets).expect("less is always allowed");
    let error = Tap::open(&named("ws0")).err().expect("it takes a privilege");
    assert_eq!(error, TapError::NoPrivilege { name: "ws0".to_owned() });
    let command = "sudo ip tuntap add dev ws0 mode tap user $(id -un)";
    assert!(error.to_string().contains(command), "{error}");
}

fn descriptors() {
    let adopt = |fd: OwnedFd| Tap::adopt(fd, &Declared::default()).err().map(|e| e.to_string());
    let says = |fd: OwnedFd, what: &str| {
        let error = adopt(fd).expect("it is refused");
        assert!(error.contains(what), "{error}");
    };
    let (stream, _peer) = UnixStream::pair().expect("a pair");
    says(stream.into(), "stream socket");
    says(std::fs::File::open("/dev/null").expect("it is there").into(), "reading and writing");
    let mut both = std::fs::File::options();
    let file = std::env::temp_dir().join(format!("wsdev-{}", std::process::id()));
    let opened = both.read(true).write(true).create(true).truncate(true).open(&file);
    std::fs::remove_file(&file).expect("it was made");
    says(opened.expect("it was made").into(), "neither a device nor a socket");
    let tun = both.create(false).truncate(false).open("/dev/net/tun").expect("it is there");
    says(tun.into(), "not attached");
    let (datagrams, _peer) = UnixDatagram::pair().expect("a pair");
    let wrong = Declared { vnet_header_len: 4, ..Declared::default() };
    let error = Tap::adopt(datagrams.into(), &wrong).err().expect("it is refused");
    assert!(error.to_string().contains("10 to 32 bytes"), "{error}");
}

fn down() {
    let mut end = End::new(LinkKind::Ethernet, true);
    end.echo_both_ways();
    assert!(ip("link set ws0 down"));
    let mut burst = Burst::new();
    for _ in 0..3 {
        let frame = end.frame(&frames::echo(ours(false), kernel(false), b"?"));
        burst.push(frame);
    }
    assert_eq!(end.tap.tx_burst(&mut end.pool, &mut burst), 3);
    assert_eq!(end.dropped(DropReason::DeviceLinkDown), 3);
    assert!(!end.tap.link_up());
    let why = end.tap.failure().expect("a reason").to_string();
    assert!(why.contains("sudo ip link set ws0 up"), "{why}");
    // The kernel may have sent a few frames of its own before.
    while end.tap.rx_burst(&mut end.pool, &mut burst) > 0 {
        burst.drain(..).for_each(|m| end.pool.free(m));
    }
    end.tap.configure(&crate::ends::setup()).expect("root sets it up");
    end.echo_both_ways();
    assert!(end.tap.link_up() && end.tap.failure().is_none());
}

fn asked() {
    let mut end = End::new(LinkKind::Ethernet, true);
    assert!(end.tap.check_link());
    for _ in 0..2 {
        assert!(ip("link set ws0 down"));
        assert!(end.tap.link_up(), "nothing has passed since");
        assert!(!end.tap.check_link() && !end.tap.link_up());
        let why = end.tap.failure().expect("a reason").to_string();
        assert!(why.contains("sudo ip link set ws0 up"), "{why}");
        assert!(ip("link set ws0 up"));
        assert!(end.tap.check_link() && end.tap.link_up() && end.tap.failure().is_none());
    }
    // In another namespace it is still the same interface.
    let other = Namespace::new().expect("root may");
    assert!(ip(&format!("link set ws0 netns {}", other.name())));
    assert!(!end.tap.check_link());
    assert!(other.ip("link set ws0 up"));
    assert!(end.tap.check_link());
}

fn deleted() {
    for read_first in [true, false] {
        let mut end = End::new(LinkKind::Ethernet, true);
        end.echo_both_ways();
        assert!(ip("link delete dev ws0"));
        assert!(end.tap.rx_ready(), "the end is news");
        let mut burst = Burst::new();
        if read_first {
            assert_eq!(end.tap.rx_burst(&mut end.pool, &mut burst), 0);
        } else {
            end.send_packet(&frames::echo(ours(false), kernel(false), b"?"));
            assert_eq!(end.dropped(DropReason::DeviceLinkDown), 1);
        }
        assert!(!end.tap.link_up() && !end.tap.rx_ready() && end.tap.as_fd().is_none());
        let why = end.tap.failure().expect("a reason").to_string();
        assert!(why.contains("interface 'ws0' is gone"), "{why}");
        assert_eq!(end.tap.rx_burst(&mut end.pool, &mut burst), 0);
        assert!(end.tap.tx_ready(), "what is sent has an end");
        end.send_packet(&frames::echo(ours(false), kernel(false), b"?"));
        assert_eq!(end.dropped(DropReason::DeviceLinkDown), 2 - u64::from(read_first));
        let End { tap, mut pool, .. } = end;
        drop(tap);
        assert_eq!(pool.outstanding(), 0);
    }
}

fn too_long() {
    let mut end = End::new(LinkKind::Ethernet, false);
    end.echo_both_ways();
    // Another program changes the MTU; our limits still have 1,500.
    assert!(ip("link set dev ws0 mtu 9000"));
    let (socket, _) = socket(false);
    socket.send_to(&[1; 5000], (ours(false), 9)).expect("room in the kernel");
    socket.send_to(b"short", (ours(false), 9)).expect("room in the kernel");
    let frame = end.receive(|p| p.get(9) == Some(&frames::UDP));
    assert!(frame.as_slice().ends_with(b"short"));
    assert_eq!(end.dropped(DropReason::DeviceFrameTooBig), 1);
    let long = end.frame(&frames::echo(ours(false), kernel(false), &[0; 1_600]));
    end.send(long);
    assert_eq!(end.dropped(DropReason::DeviceFrameTooBig), 2);
    let mut finished = end.frame(&frames::echo(ours(false), kernel(false), b"?"));
    finished.truncate(10);
    end.send(finished);
    assert_eq!(end.dropped(DropReason::DeviceRefused), 1, "shorter than an Ethernet header");
    end.echo_both_ways();
}

fn elsewhere() {
    let mut tap = Tap::open(&named("ws0")).expect("it is free");
    let other = Namespace::new().expect("root may");
    assert!(ip(&format!("link set dev ws0 netns {}", other.name())));
    let result = tap.configure(&Setup { up: true, ..Setup::default() });
    let error = result.expect_err("it is not here");
    assert_eq!(error, TapError::NotHere { name: "ws0".to_owned() });
    assert!(error.to_string().contains("ip -n NAMESPACE"), "{error}");
}
