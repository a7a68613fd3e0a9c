//! Captures: one that is read back frame by frame, one that is stopped, and one on a full disk.
//! `tests/tap` shows that tshark reads captures, with frames of a TAP.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mbuf::{Flags, Mbuf, Pool};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use wirespeed_device::capture::{Capture, CaptureStatus};
use wirespeed_device::mem::{self, Mem};
use wirespeed_device::{Burst, Device};

/// A file in memory with room for a given number of bytes.
#[derive(Clone)]
struct File {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self.bytes.lock().expect("no panic");
        let n = bytes.len().min(self.room - held.len());
        held.extend_from_slice(&bytes[..n]);
        if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn file(room: usize) -> File {
    File { bytes: Arc::default(), room }
}

/// A clock that returns a full second plus 1 ns for the first burst, and one second more for each
/// later burst.
fn clock() -> impl FnMut() -> Duration + Send {
    let mut now = Duration::from_nanos(1_700_000_000_000_000_001);
    move || {
        now += Duration::from_secs(1);
        now
    }
}

/// A broadcast frame with a UDP datagram, with correct lengths and no checksum.
fn frame(pool: &mut Pool, number: u8) -> Mbuf {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1, 0x08, 0x00]);
    let mut ip = vec![0x45, 0, 0, 32, 0, number, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let sum: u32 = ip.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend([0x30, 0x39, 0x30, 0x3a, 0, 12, 0, 0, 1, 2, 3, number]);
    pool.copy_of(&bytes).expect("room")
}

/// Capture two sent frames, one of which is pushed back and offered again, and one received frame.
/// Returns the status, the file and the number of frames that passed.
fn captured(room: usize, depth: usize) -> (CaptureStatus, Vec<u8>, u64) {
    let mut pool = Pool::new(1 << 20);
    let (near, mut far): (Mem, Mem) = mem::pair(&mem::Config { depth, ..Default::default() });
    let file = file(room);
    let (mut device, status) =
        Capture::new(near, file.clone(), clock()).expect("there is room for the head");
    let mut long = frame(&mut pool, 2);
    long.set(Flags::CSUM_PARTIAL);
    long.set_segment_size(1400);
    let mut burst = Burst::from_iter([frame(&mut pool, 1), long]);
    let mut into = Burst::new();
    let mut passed = 0;
    while !burst.is_empty() {
        device.tx_burst(&mut pool, &mut burst);
        passed += far.rx_burst(&mut pool, &mut into) as u64;
    }
    into.clear();
    into.push(frame(&mut pool, 3));
    far.tx_burst(&mut pool, &mut into);
    passed += device.rx_burst(&mut pool, &mut into) as u64;
    drop(device);
    let bytes = file.bytes.lock().expect("no panic").clone();
    (status, bytes, passed)
}

#[test]
fn every_frame_is_written_once_with_time_direction_and_notes() {
    for depth in [1, 10] {
        let (status, bytes, passed) = captured(usize::MAX, depth);
        assert_eq!((status.frames(), status.error(), passed), (3, None, 3));
        let mut reader = PcapNgReader::new(&bytes[..]).expect("a section header");
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("in order").0.into_owned() {
                packets.push(packet);
            }
        }
        let last: Vec<u8> = packets.iter().filter_map(|p| p.data.last().copied()).collect();
        assert_eq!(last, [1, 2, 3]);
        assert_eq!(packets[0].timestamp, Duration::from_nanos(1_700_000_001_000_000_001));
        let flags = |n: usize| packets[n].options[0].clone();
        assert_eq!(flags(0), EnhancedPacketOption::Flags(2), "outbound");
        assert_eq!(flags(2), EnhancedPacketOption::Flags(1), "inbound");
        let notes: Vec<usize> = packets.iter().map(|p| p.options.len()).collect();
        assert_eq!(notes, [1, 2, 1], "the super-segment has a comment");
    }
}

#[test]
fn a_full_disk_stops_the_capture_and_not_the_traffic() {
    let (status, bytes, passed) = captured(200, 10);
    assert_eq!((passed, bytes.len()), (3, 200));
    let error = status.error().expect("a reason").to_string();
    assert!(error.contains("df -h"), "{error}");
    let (near, _far) = mem::pair(&mem::Config::default());
    let error = Capture::new(near, file(10), clock()).err().expect("no room for the head");
    assert_eq!(error.frames, 0);
}

#[test]
fn a_capture_that_is_stopped_is_complete() {
    let mut pool = Pool::new(1 << 20);
    let (near, _far) = mem::pair(&mem::Config::default());
    let file = file(usize::MAX);
    let (mut device, status) = Capture::new(near, file.clone(), clock()).expect("room");
    let mut burst = Burst::from_iter([frame(&mut pool, 1)]);
    device.tx_burst(&mut pool, &mut burst);
    status.stop();
    burst.push(frame(&mut pool, 2));
    device.tx_burst(&mut pool, &mut burst);
    let bytes = file.bytes.lock().expect("no panic").clone();
    assert_eq!((status.frames(), status.error()), (1, None));
    assert!(bytes.windows(4).any(|w| w == [1, 2, 3, 1]), "the first is in the file");
    assert!(!bytes.windows(4).any(|w| w == [1, 2, 3, 2]), "the second is not");
}
