//! A foreign reader reads all that a capture writes: every frame, whole, in order, with its
//! direction and time.
//!
//! Called by: the target `capture`. The project writes pcapng and reads none, so the reader here is
//! a library's (`pcap-file`).

use core::time::Duration;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use arbitrary::Unstructured;
use base::{LinkKind, Mtu};
use device::capture::Capture;
use device::{Burst, Device, mem};
use mbuf::{Flags, Pool};
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::Block;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;

/// A file in memory that has room for `room` bytes.
#[derive(Clone)]
struct File(Arc<Mutex<Vec<u8>>>, usize);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() + bytes.len() > self.1 {
            return Err(std::io::Error::other("no space left"));
        }
        held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A frame as it went through the device: direction (1 in, 2 out), nanoseconds, bytes.
type Passed = (u32, u64, Vec<u8>);

/// Any frames both ways, with any flags, into a file that may be full soon.
pub fn written_is_read(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let link = if u.arbitrary().unwrap_or(false) { LinkKind::Ip } else { LinkKind::Ethernet };
    let room = if u.ratio(1, 4).unwrap_or(false) { 2_000 } else { usize::MAX };
    let file = File(Arc::default(), room);
    let config = mem::Config { link, mtu: Mtu::MAX, depth: 4, ..mem::Config::default() };
    let (near, mut far) = mem::pair(&config);
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let reads = clock.clone();
    let now = move || *reads.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok((mut device, status)) = Capture::new(near, file.clone(), now) else { return };
    let mut pool = Pool::new(4 << 20);
    let mut passed: Vec<Passed> = Vec::new();
    while !u.is_empty() && passed.len() < 64 {
        let time = Duration::from_nanos(u.arbitrary::<u32>().unwrap_or(0).into());
        *clock.lock().unwrap_or_else(PoisonError::into_inner) = time;
        let (out, len) = (u.arbitrary().unwrap_or(false), u.arbitrary::<u8>().unwrap_or(0));
        let bytes = u.bytes(usize::from(len).min(u.len())).unwrap_or_default().to_vec();
        let Some(mut frame) = pool.copy_of(&bytes) else { return };
        if u.arbitrary().unwrap_or(false) {
            frame.set(Flags::CSUM_PARTIAL);
            frame.set_segment_size(u.arbitrary().unwrap_or(0));
        }
        let mut burst = Burst::new();
        burst.push(frame);
        if out {
            // Without room the frame is pushed back, and is written all the same, once.
            device.tx_burst(&mut pool, &mut burst);
            passed.push((2, time.as_nanos() as u64, bytes));
            let mut taken = Burst::new();
            far.rx_burst(&mut pool, &mut taken);
            device.tx_burst(&mut pool, &mut burst);
        } else {
            far.tx_burst(&mut pool, &mut burst);
            let mut taken = Burst::new();
            if device.rx_burst(&mut pool, &mut taken) > 0 {
                passed.push((1, time.as_nanos() as u64, bytes));
            }
        }
        if u.ratio(1, 32).unwrap_or(false) {
            status.stop();
        }
    }
    drop(device);
    assert_eq!(pool.outstanding(), 0, "frames are kept by nobody");
    let held = file.0.lock().unwrap_or_else(PoisonError::into_inner);
    if status.error().is_none() {
        let written = usize::try_from(status.frames()).expect("as many as were made");
        read_back(&held, &passed[..written.min(passed.len())], link);
    }
}

fn read_back(file: &[u8], passed: &[Passed], link: LinkKind) {
    let mut reader = PcapNgReader::new(file).expect("the head of a capture");
    let mut passed = passed.iter();
    while let Some(block) = reader.next_block() {
        match block.expect("a block that we wrote").0 {
            Block::InterfaceDescription(interface) => {
                let code = u32::from(interface.linktype);
                assert_eq!(code, if link == LinkKind::Ip { 101 } else { 1 });
            }
            Block::EnhancedPacket(packet) => {
                let (direction, ns, bytes) = passed.next().expect("no more than was passed");
                assert_eq!(&packet.data[..], &bytes[..]);
                assert_eq!(packet.timestamp.as_nanos(), u128::from(*ns));
                assert_eq!(packet.original_len as usize, bytes.len());
                let flags = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Flags(flags) => Some(*flags),
                    _ => None,
                });
                assert_eq!(flags, Some(*direction));
            }
            other => panic!("nobody wrote {other:?}"),
        }
    }
    assert!(passed.next().is_none(), "a frame is missing");
}
