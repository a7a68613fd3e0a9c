//! The kernel as the receiver of UDP: recvmmsg over a veth pair, with its softirq. Called by
//! `receive`. The pair is in a namespace of its own. One thread sends frames into one end with
//! AF_PACKET, so that the softirq of the other end runs in its system calls; then the thread reads
//! the datagrams. The cost of sending alone is measured and subtracted. It is measured over another
//! pair, whose other end has another link address than the frames' destination. The softirq of that
//! pair drops the frames after reading the link header. So a small part of the softirq is
//! subtracted too, which is in the kernel's favour.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow, ensure};
use device::packet::{self, PacketSocket};
use device::{Burst, Device};
use mbuf::Pool;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};
use rustix::net::sockopt;
use stack::pair::{addresses, mac};

use crate::measure::{Measurement, pin, thread_cpu_s};
use crate::namespace::{enter_new_namespace, ip};

/// Datagrams of a round, and of one call of recvmmsg.
const ROUND: usize = 512;
const CALL: usize = 64;

/// Runs `work` on a thread that is pinned to `core` and has a network namespace of its own.
pub(super) fn in_namespace<T: Send>(
    core: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            pin(&[core])?;
            let _namespace = enter_new_namespace()?;
            work()
        });
        thread.join().map_err(|_| anyhow!("measuring panicked"))?
    })
}

/// A socket of the kernel, and the frame that is sent to it.
pub(super) struct Receiver {
    socket: UdpSocket,
    frame: Vec<u8>,
}

impl Receiver {
    /// A receiver in this thread's namespace. `frame` contains a datagram to end 2 of a pair.
    pub(super) fn new(frame: &[u8], port: u16) -> Result<Receiver> {
        ip("link add va type veth peer name vb")?;
        ip("link add vc type veth peer name vd")?;
        ip(&format!("link set vb address {}", mac(2)))?;
        for name in ["va", "vb", "vc", "vd"] {
            ip(&format!("link set {name} addrgenmode none"))?;
        }
        let own = addresses(2)[0];
        ip(&format!("addr add {}/{} dev vb", own.addr, own.prefix_len))?;
        for name in ["va", "vb", "vc", "vd"] {
            ip(&format!("link set {name} up"))?;
        }
        let socket = UdpSocket::bind(SocketAddr::new(own.addr, port)).context("binding")?;
        socket.set_nonblocking(true)?;
        sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20)
            .context("a receive buffer of 16 MB")?;
        Ok(Receiver { socket, frame: frame.to_vec() })
    }

    /// Receive datagrams for `seconds`. `cpu_s` of the result is the receiver's CPU time.
    pub(super) fn measure(&self, seconds: f64) -> Result<Measurement> {
        let (all, received) = self.rounds("va", seconds / 2.0)?;
        let (sending, sent) = self.rounds("vc", seconds / 2.0)?;
        ensure!(received.is_multiple_of(ROUND as u64) && sent > 0, "datagrams were lost");
        let (all_ns, send_ns) = (all * 1e9 / received as f64, sending * 1e9 / sent as f64);
        let own_ns = all_ns - send_ns;
        ensure!(
            own_ns > 0.0,
            "sending alone cost {send_ns:.0} ns, sending and receiving {all_ns:.0}"
        );
        Ok(Measurement {
            units: received,
            cpu_s: own_ns * received as f64 * 1e-9,
            wall_s: seconds,
            settings: format!(
                "kernel {own_ns:.0} ns: {all_ns:.0} with sending, {send_ns:.0} for sending alone"
            ),
            ..Measurement::default()
        })
    }

    /// Send rounds into the interface `name`. Returns CPU seconds, and how many datagrams were
    /// received; if no datagram can arrive, how many were sent.
    fn rounds(&self, name: &str, seconds: f64) -> Result<(f64, u64)> {
        let config = packet::Config { offload: false, ..packet::Config::of(name) };
        let mut sender = PacketSocket::open(&config)?;
        let mut pool = Pool::new(64 << 20);
        let mut buffers = vec![[0_u8; 128]; CALL];
        let arrives = name == "va";
        let (start, cpu, mut count) = (Clock::now(), thread_cpu_s(), 0);
        while start.elapsed().as_secs_f64() < seconds {
            for _ in 0..ROUND / device::BURST {
                let mut burst = Burst::new();
                while !burst.is_full() {
                    burst.push(pool.copy_of(&self.frame).context("memory")?);
                }
                sender.tx_burst(&mut pool, &mut burst);
                ensure!(burst.is_empty(), "the interface accepts no frames");
            }
            count += if arrives { self.read(&mut buffers)? } else { ROUND as u64 };
        }
        Ok((thread_cpu_s() - cpu, count))
    }

    /// Read the datagrams of a round.
    fn read(&self, buffers: &mut [[u8; 128]]) -> Result<u64> {
        let (mut count, mut looks) = (0, 0);
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(CALL, None);
        while count < ROUND as u64 {
            let mut slices: Vec<_> =
                buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
            let (fd, flags) = (self.socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
            let read = match recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None) {
                Ok(messages) => messages.filter(|m| m.bytes == 64).count() as u64,
                Err(nix::errno::Errno::EAGAIN) => 0,
                Err(error) => return Err(error).context("recvmmsg"),
            };
            count += read;
            looks += u32::from(read == 0);
            ensure!(looks < 1_000, "{count} of {ROUND} datagrams arrived");
        }
        Ok(count)
    }
}
