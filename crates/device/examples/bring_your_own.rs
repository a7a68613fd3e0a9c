//! Bring your own device: a wire of one's own, here a pair of datagram sockets, as a [`Device`].
//!
//! `cargo run -p wirespeed-device --example bring_your_own`. A stack would be given `Wire` with
//! `Stack::add_port(Box::new(wire), ...)`; here frames are moved by hand.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use base::{LinkKind, Mtu};
use mbuf::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirespeed_device::{Burst, Device, Limits, Offloads};

/// One frame a datagram. Ethernet, 1,500 bytes of packet, 22 of header with two tags.
struct Wire {
    socket: UnixDatagram,
    pushed_back: bool,
    lost: u64,
}

const MAX_FRAME: usize = 1522;

impl Device for Wire {
    fn limits(&self) -> Limits {
        Limits {
            link: LinkKind::Ethernet,
            mtu: Mtu::ETHERNET,
            max_frame: MAX_FRAME,
            max_segments: 1,
            min_first_segment: 0,
            alignment: 1,
            tx_depth: 16,
            offloads: Offloads::default(),
        }
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        while !into.is_full()
            && let Some(mut frame) = pool.alloc(MAX_FRAME)
        {
            // A buffer from the pool, filled by the system: no copy of ours.
            match self.socket.recv(frame.tail_mut()) {
                Ok(len) => frame.extend(len),
                Err(_) => break, // nothing there; the buffer goes back by itself
            }
            into.push(frame);
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let (mut taken, mut full) = (0, false);
        for frame in from.iter() {
            match self.socket.send(frame.as_slice()) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    full = true; // push back: what is left stays in the burst
                    break;
                }
                Err(_) => self.lost += 1, // it can never go
            }
            taken += 1;
        }
        self.pushed_back = full;
        from.drain(..taken).for_each(|frame| pool.free(frame));
        taken
    }

    fn rx_ready(&self) -> bool {
        // A driver sleeps while this is false; readiness of `as_fd` wakes it.
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn tx_ready(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::OUT)];
        !self.pushed_back
            || poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn link_up(&self) -> bool {
        self.lost == 0
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

fn wires() -> std::io::Result<[Wire; 2]> {
    let (a, b) = UnixDatagram::pair()?;
    let wire = |socket: UnixDatagram| -> std::io::Result<Wire> {
        socket.set_nonblocking(true)?;
        Ok(Wire { socket, pushed_back: false, lost: 0 })
    };
    Ok([wire(a)?, wire(b)?])
}

pub(crate) fn main() -> std::io::Result<()> {
    let [mut here, mut there] = wires()?;
    let mut pool = Pool::new(1 << 20);
    let (mut going, mut coming) = (Burst::new(), Burst::new());
    for number in 0..10u8 {
        going.extend(pool.copy_of(&[number; 60]));
    }
    while coming.len() < 10 {
        here.tx_burst(&mut pool, &mut going);
        there.rx_burst(&mut pool, &mut coming);
    }
    assert!(coming.iter().enumerate().all(|(n, frame)| frame.as_slice() == [n as u8; 60]));
    println!("{} frames crossed, {} lost", coming.len(), here.lost);
    Ok(())
}
