//! A `Device` of your own: IP packets inside UDP datagrams, as tunnels carry them, and a TCP
//! connection between two stacks over it.
//!
//! `cargo run -p wirespeed --features net --example bring_your_own`
//!
//! Called by: readers, the guide, tests.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, UdpSocket};

use wirespeed::device::{Burst, Limits, Offloads};
use wirespeed::net::{Net, blocking};
use wirespeed::{Device, DropReason, Drops, LinkKind, Mtu, Pool, PortConfig, Stack, StackConfig};

/// One packet per datagram. The socket is connected to the other end and nonblocking.
pub(crate) struct Tunnel(pub(crate) UdpSocket, pub(crate) Drops);

impl Device for Tunnel {
    fn limits(&self) -> Limits {
        Limits {
            link: LinkKind::Ip,                        // packets begin with the IP header
            mtu: Mtu::new(1_400).expect("68 or more"), // the datagram fits 1,500 bytes
            max_frame: 1_400,
            max_segments: 1, // contiguous, anywhere in memory
            tx_depth: 64,
            offloads: Offloads::default(), // the stack computes checksums
        }
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        while !into.is_full()
            && let Some(mut frame) = pool.alloc(1_400)
        {
            // `recv` writes straight into a buffer of the pool; a buffer without a packet is freed
            // by its drop.
            let Ok(len) = self.0.recv(frame.tail_mut()) else { break };
            frame.extend(len);
            into.push(frame);
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let mut taken = 0;
        for frame in from.iter() {
            match self.0.send(frame.as_slice()) {
                Ok(_) => {}
                // Push back: the rest stays in the burst, and the stack offers it again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The datagram can never be sent. Keeping it would block the packets behind it.
                Err(_) => self.1.count(DropReason::DeviceRefused),
            }
            taken += 1;
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        taken
    }

    fn rx_ready(&self) -> bool {
        self.0.peek(&mut [0]).is_ok()
    }

    fn tx_ready(&self) -> bool {
        true // a send reports whether there is room; a slow link would use poll(2)
    }

    fn link_up(&self) -> bool {
        true
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.1)
    }

    /// The driver sleeps until this is readable. Without it the driver polls once a millisecond.
    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.0))
    }
}

/// A stack with one address over a tunnel, driven by a thread.
fn host(socket: UdpSocket, address: &str) -> std::result::Result<Net, Box<dyn std::error::Error>> {
    socket.set_nonblocking(true)?;
    let mut stack = Stack::new(StackConfig::new([1, 2])); // a real program draws the seed at random
    let addresses = vec![address.parse()?];
    let tunnel = Box::new(Tunnel(socket, Drops::default()));
    stack.add_port(tunnel, PortConfig { addresses, ..PortConfig::default() });
    let (net, _driver) = Net::spawn_thread(stack)?; // runs until the last socket is dropped
    Ok(net)
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    let (client, server) = (host(here, "10.1.0.1/24")?, host(there, "10.1.0.2/24")?);

    let at: SocketAddr = "10.1.0.2:7".parse()?;
    let listener = blocking::TcpListener::bind(&server, at)?;
    let echo = std::thread::spawn(move || -> Result<u64> {
        let (stream, _from) = listener.accept()?;
        std::io::copy(&mut &stream, &mut &stream)
    });
    let mut stream = blocking::TcpStream::connect(&client, at)?;
    stream.write_all(&[7; 10_000])?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    assert_eq!(answer, [7; 10_000]);
    println!("{} bytes came back", echo.join().expect("it does not panic")?);
    Ok(())
}
