//! A watched interface: what it reports when it goes down or is deleted. And a loopback interface,
//! whose frames are shown once.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testbed::{Case, ip};
use wirespeed_device::packet::{PacketError, Watch};

use crate::pair::{PATIENCE, up, veth};

pub(crate) const CASES: &[Case] = &[
    ("a_watch_tells_that_its_interface_is_down_or_deleted", &[], troubles),
    ("a_watch_of_an_interface_that_is_down_waits_for_it", &[], down_at_first),
    ("a_loopback_shows_each_frame_once", &[], loopback),
];

/// Does a poll of its descriptor return an error event?
fn has_error(watch: &Watch) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(watch.as_fd(), PollFlags::IN)];
    poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("it can be asked");
    asked[0].revents().contains(PollFlags::ERR)
}

fn down() -> Option<PacketError> {
    Some(PacketError::Down { name: "va".to_owned() })
}

fn gone() -> Option<PacketError> {
    Some(PacketError::Gone { name: "va".to_owned() })
}

fn troubles() {
    veth();
    let watch = Watch::open("va", true).expect("root may");
    assert!(!has_error(&watch) && watch.trouble().is_none());
    assert!(ip("link set va down"));
    assert!(has_error(&watch), "it is news");
    assert_eq!(watch.trouble(), down());
    assert!(!has_error(&watch), "nobody spins on it");
    assert_eq!(watch.trouble(), down(), "as long as it is");
    up();
    assert_eq!(watch.trouble(), None);
    assert!(ip("link delete dev va"));
    assert!(has_error(&watch), "it is news");
    assert_eq!(watch.trouble(), gone());
    assert!(!has_error(&watch), "nobody spins on it");
    let why = watch.trouble().expect("a reason").to_string();
    assert!(why.contains("interface 'va' is not there") && why.contains("`ip link`"), "{why}");
    veth();
    assert_eq!(watch.trouble(), gone(), "another one of its name is another one");
}

fn down_at_first() {
    assert!(ip("link add va type veth peer name vb"));
    let watch = Watch::open("va", true).expect("root may");
    assert!(has_error(&watch), "it is told at once");
    assert_eq!(watch.trouble(), down());
    assert!(!has_error(&watch), "nobody spins on it");
    up();
    assert_eq!(watch.trouble(), None);
    assert!(ip("link set va down"));
    assert_eq!(watch.trouble(), down());
    assert!(ip("link delete dev va"));
    assert!(!has_error(&watch), "the kernel says nothing more");
    assert_eq!(watch.trouble(), gone());
}

fn loopback() {
    /// The fill byte of each datagram, in the order of sending. When the last one is shown the test
    /// ends, because all others have been shown by then.
    const SENT: [u8; 6] = [1, 2, 3, 4, 5, 6];
    assert!(ip("link set lo up"));
    let mut watch = Watch::open("lo", true).expect("root may");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = socket.local_addr().expect("it is bound");
    for number in SENT {
        socket.send_to(&[number; 32], to).expect("it is sent");
    }
    let (start, mut got) = (Instant::now(), Vec::<u8>::new());
    while got.last() != SENT.last() && start.elapsed() < PATIENCE {
        let looked = watch.next(|seen| {
            let ours = SENT.into_iter().find(|number| seen.rest.ends_with(&[*number; 32]));
            assert!(ours.is_none() || !seen.is_sent, "it is shown as received");
            ours
        });
        match looked {
            Some(number) => got.extend(number),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert_eq!(got, SENT);
}
