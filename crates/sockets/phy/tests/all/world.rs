//! A stack of ours and an interface of smoltcp, and steps of virtual time.

use std::net::{IpAddr, SocketAddr};

use base::{Instant, MacAddr, Owner};
use device::Device;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy;
use smoltcp::socket::{tcp, udp};
use smoltcp::time;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use stack::{CallError, Event, ListenConfig, PortConfig, Stack, StackConfig, TcpHandle};

pub(crate) const OURS: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
pub(crate) const THEIRS: [&str; 2] = ["192.0.2.2", "2001:db8::2"];
const PORT: u16 = 7;
/// Of virtual time.
const STEP_MICROS: u64 = 200;
const STEPS_MAX: u32 = 2_000_000;

pub(crate) struct World<D> {
    pub(crate) stack: Stack,
    pub(crate) device: D,
    pub(crate) iface: Interface,
    pub(crate) sockets: SocketSet<'static>,
    micros: u64,
}

impl<D: phy::Device> World<D> {
    pub(crate) fn new(ours: impl Device + 'static, mut theirs: D) -> World<D> {
        let mut stack = Stack::new(StackConfig::new([1, 2]));
        let addresses = OURS
            .iter()
            .zip([24, 64])
            .map(|(addr, len)| format!("{addr}/{len}").parse().unwrap())
            .collect();
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        stack.add_port(Box::new(ours), PortConfig { mac, addresses, ..PortConfig::default() });
        let medium = theirs.capabilities().medium;
        let hardware = match medium {
            phy::Medium::Ethernet => HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, 2])),
            phy::Medium::Ip => HardwareAddress::Ip,
        };
        let mut config = Config::new(hardware);
        config.random_seed = 7;
        let mut iface = Interface::new(config, &mut theirs, time::Instant::ZERO);
        iface.update_ip_addrs(|addrs| {
            for (addr, len) in THEIRS.iter().zip([24, 64]) {
                let addr: IpAddr = addr.parse().unwrap();
                addrs.push(IpCidr::new(addr.into(), len)).unwrap();
            }
        });
        World { stack, device: theirs, iface, sockets: SocketSet::new(vec![]), micros: 1 }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.micros * 1_000)
    }

    pub(crate) fn step(&mut self) {
        self.micros += STEP_MICROS;
        let now = time::Instant::from_micros(self.micros as i64);
        self.stack.poll(self.now());
        self.iface.poll(now, &mut self.device, &mut self.sockets);
    }

    pub(crate) fn tcp_socket(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 64 << 10]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }

    pub(crate) fn udp_socket(&mut self) -> SocketHandle {
        let buffer =
            || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 16], vec![0; 64 << 10]);
        self.sockets.add(udp::Socket::new(buffer(), buffer()))
    }

    /// Connect from our side, `version` 0 for IPv4, send `len` bytes, which smoltcp sends back, and
    /// check that all come back.
    pub(crate) fn echo_tcp(&mut self, version: usize, len: usize) {
        let (handle, socket) = self.connecting(version);
        let back = self.exchange(handle, socket, len);
        assert!(back == pattern(len), "{} bytes came back", back.len());
    }

    /// A connection from our side that is open, and smoltcp's socket.
    pub(crate) fn connected(&mut self, version: usize) -> (TcpHandle, SocketHandle) {
        let (handle, socket) = self.connecting(version);
        for _ in 0..STEPS_MAX {
            self.step();
            if self.sockets.get_mut::<tcp::Socket>(socket).may_recv() {
                return (handle, socket);
            }
        }
        panic!("the connection does not open");
    }

    fn connecting(&mut self, version: usize) -> (TcpHandle, SocketHandle) {
        let socket = self.tcp_socket();
        self.sockets.get_mut::<tcp::Socket>(socket).listen(PORT).unwrap();
        let to = SocketAddr::new(THEIRS[version].parse().unwrap(), PORT);
        let (config, now) = (Default::default(), self.now());
        let handle = self.stack.tcp_connect(to, None, &config, Owner::program(), now).unwrap();
        (handle, socket)
    }

    /// The same with smoltcp as the client and our stack as the server.
    pub(crate) fn echo_tcp_from_theirs(&mut self, version: usize, len: usize) {
        let at = SocketAddr::new(OURS[version].parse().unwrap(), PORT);
        let listener = self.stack.tcp_listen(at, ListenConfig::default()).unwrap();
        let socket = self.tcp_socket();
        let client = self.sockets.get_mut::<tcp::Socket>(socket);
        client.connect(self.iface.context(), (at.ip(), PORT), 50_000).unwrap();
        let mut accepted = None;
        for _ in 0..STEPS_MAX {
            self.step();
            while let Some(event) = self.stack.next_event() {
                if let Event::Accept(_) = event {
                    accepted = self.stack.tcp_accept(listener);
                }
            }
            if accepted.is_some() {
                break;
            }
        }
        let back = self.exchange(accepted.expect("a connection"), socket, len);
        assert!(back == pattern(len), "{} bytes came back", back.len());
    }

    /// Our end writes `len` bytes and smoltcp's end sends them back.
    fn exchange(&mut self, handle: TcpHandle, socket: SocketHandle, len: usize) -> Vec<u8> {
        let (data, mut sent, mut back) = (pattern(len), 0, Vec::new());
        let mut room = vec![0; 64 << 10];
        for _ in 0..STEPS_MAX {
            self.step();
            while self.stack.next_event().is_some() {}
            if sent < len {
                match self.stack.tcp_write(handle, &data[sent..]) {
                    Ok(n) => sent += n,
                    Err(CallError::WouldBlock) => {}
                    Err(error) => panic!("{error:?} after {sent} bytes"),
                }
            }
            let theirs = self.sockets.get_mut::<tcp::Socket>(socket);
            while theirs.can_recv() && theirs.can_send() {
                let space = theirs.send_capacity() - theirs.send_queue();
                let n = theirs.recv(|bytes| {
                    let n = bytes.len().min(space);
                    room[..n].copy_from_slice(&bytes[..n]);
                    (n, n)
                });
                assert_eq!(theirs.send_slice(&room[..n.unwrap()]).unwrap(), n.unwrap());
            }
            match self.stack.tcp_read(handle, &mut room) {
                Ok(n) => back.extend_from_slice(&room[..n]),
                Err(CallError::WouldBlock) => {}
                Err(error) => panic!("{error:?} after {} bytes", back.len()),
            }
            if back.len() >= len {
                break;
            }
        }
        back
    }

    /// A datagram of `len` bytes to smoltcp and back.
    pub(crate) fn echo_udp(&mut self, version: usize, len: usize) {
        let socket = self.udp_socket();
        self.sockets.get_mut::<udp::Socket>(socket).bind(PORT).unwrap();
        let to = SocketAddr::new(THEIRS[version].parse().unwrap(), PORT);
        let any = SocketAddr::new(OURS[version].parse().unwrap(), 0);
        let ours = self.stack.udp_bind(any, Owner::program()).unwrap();
        let data = pattern(len);
        self.stack.udp_send(ours, to, &data, self.now()).unwrap();
        for _ in 0..5_000 {
            self.step();
            let theirs = self.sockets.get_mut::<udp::Socket>(socket);
            if let Ok((bytes, meta)) = theirs.recv() {
                let bytes = bytes.to_vec();
                theirs.send_slice(&bytes, meta.endpoint).unwrap();
            }
            if let Some(datagram) = self.stack.udp_receive(ours) {
                assert!(datagram.payload.as_slice() == data);
                return;
            }
        }
        panic!("no datagram of {len} bytes came back");
    }
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}
