//! Sizes: of devices that are no ports, of frames that are too long, short or empty; buffers that
//! are exhausted; and the sleep of a driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use base::{DropReason, LinkKind};
use device::{Burst, Device as _, Doorbell, mem};
use mbuf::Pool;
use smoltcp::phy::{ChecksumCapabilities, Device as _, Medium, TxToken as _};
use smoltcp::time::Instant;
use wirespeed_phy::{AsPhy, FromPhy, NotAPort, Pump};

use crate::wire::pair;

#[test]
fn the_mtu_leaves_out_the_link_header() {
    let (a, _b) = pair(Medium::Ethernet, 1_514, 8);
    let limits = FromPhy::new(a).unwrap().limits();
    assert_eq!((limits.link, limits.mtu.bytes()), (LinkKind::Ethernet, 1_500));
    let (a, _b) = pair(Medium::Ip, 65_535, 8);
    assert_eq!(FromPhy::new(a).unwrap().limits().mtu.bytes(), 65_535);
    let (a, _b) = pair(Medium::Ip, usize::MAX, 8);
    assert_eq!(FromPhy::new(a).unwrap().limits().mtu.bytes(), 65_535);
    let (end, _other) = mem::pair(&mem::Config::default());
    let caps = AsPhy::new(end, 1 << 20).capabilities();
    assert_eq!((caps.medium, caps.max_transmission_unit), (Medium::Ethernet, 1_514));
}

#[test]
fn a_device_of_tiny_frames_is_no_port() {
    for (medium, bytes) in [(Medium::Ethernet, 81), (Medium::Ethernet, 0), (Medium::Ip, 67)] {
        let (a, _b) = pair(medium, bytes, 8);
        let Err(error) = FromPhy::new(a) else { panic!("{bytes} bytes are too few") };
        assert_eq!(error, NotAPort::TooSmall(bytes));
        assert!(error.to_string().contains("68 or more"));
        let (a, _b) = pair(medium, bytes, 8);
        assert!(Pump::new(a, 8).is_err());
    }
}

#[test]
fn frames_of_any_size_are_counted_or_pass() {
    for checksum in [ChecksumCapabilities::default(), ChecksumCapabilities::ignored()] {
        let (mut a, _b) = pair(Medium::Ethernet, 1_514, 1_000);
        a.checksum = checksum;
        let (rx, tx) = (a.rx.clone(), a.tx.clone());
        let mut port = FromPhy::new(a).unwrap();
        let (mut pool, mut burst) = (Pool::new(8 << 20), Burst::new());
        for len in (0..80).chain([1_514, 1_515, 65_664, 65_665, 100_000]) {
            // The first bytes of an IPv4 packet in Ethernet, whose lengths do not fit.
            let mut frame = vec![0xff; len];
            let head = [&[2; 12][..], &[8, 0, 0x45, 0, 0xff, 0xff]].concat();
            let n = len.min(head.len());
            frame[..n].copy_from_slice(&head[..n]);
            rx.lock().unwrap().push_back(frame);
            let received = port.rx_burst(&mut pool, &mut burst);
            assert_eq!(received, usize::from(len <= 65_664), "{len} bytes");
            port.tx_burst(&mut pool, &mut burst);
            assert!(burst.is_empty());
        }
        // The two longest found no buffer; what is longer than the device's frames did not leave.
        let drops = port.drops().unwrap();
        assert_eq!(drops.of(DropReason::MbufExhausted), 2);
        assert_eq!(drops.of(DropReason::DeviceFrameTooBig), 2);
        assert_eq!(tx.lock().unwrap().len(), 81);
        assert_eq!(pool.outstanding(), 0);
    }
}

#[test]
fn without_buffers_frames_are_lost_and_counted() {
    let (end, mut other) = mem::pair(&mem::Config::default());
    let mut phy = AsPhy::new(end, 0);
    let token = phy.transmit(Instant::ZERO).unwrap();
    token.consume(1_514, |room| room.fill(1));
    assert_eq!(phy.drops().of(DropReason::MbufExhausted), 1);
    assert_eq!(other.rx_burst(&mut Pool::new(0), &mut Burst::new()), 0);
}

#[test]
fn a_frame_that_was_looked_at_is_not_lost() {
    let (a, mut b) = pair(Medium::Ip, 1_500, 8);
    let port = FromPhy::new(a).unwrap();
    assert!(!port.rx_ready());
    b.transmit(Instant::ZERO).unwrap().consume(9, |room| room.fill(5));
    assert!(port.rx_ready() && port.rx_ready());
    let (mut port, mut pool, mut burst) = (port, Pool::new(1 << 20), Burst::new());
    assert_eq!(port.rx_burst(&mut pool, &mut burst), 1);
    assert_eq!(burst[0].as_slice(), [5; 9]);
    assert!(!port.rx_ready());
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_doorbell_wakes_the_driver() {
    let (a, mut b) = pair(Medium::Ip, 1_500, 8);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let bell = Doorbell::new();
    let mut port = FromPhy::with_doorbell(a, bell.clone()).unwrap();
    assert!(port.arm(&waker));
    b.transmit(Instant::ZERO).unwrap().consume(20, |room| room.fill(5));
    bell.ring();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(!port.arm(&waker), "a frame waits");
    let (a, _b) = pair(Medium::Ip, 1_500, 8);
    assert!(!FromPhy::new(a).unwrap().arm(&waker), "without a doorbell it is polled");
}
