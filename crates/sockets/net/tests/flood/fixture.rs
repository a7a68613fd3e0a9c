//! A server, an honest client with a stack, and up to a hundred thousand hosts made of raw segments
//! (strangers). One device connects the server with all of them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Cidr, LinkKind};
use device::channel::{Config, End, RecvError, pair};
use stack::{PortConfig, Stack, StackConfig};
use wirespeed_net::{DriverThread, Net};

use crate::flood::segment::{ACK, RST, SYN, Segment};

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The initial sequence number of all strangers.
const ISS: u32 = 1_000;

/// What a stranger does after the server's SYN-ACK.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Send nothing: the third segment of the handshake never comes.
    Silent,
    /// Open the connection, send one byte, and wait.
    Slow,
}

/// Counts of the segments that strangers have received.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) syn_acks: AtomicUsize,
    pub(crate) resets: AtomicUsize,
    /// For each stranger by number: was its SYN answered?
    answered: Vec<AtomicBool>,
}

/// The two stacks, and the threads that carry frames between the server, the client and the
/// strangers.
pub(crate) struct Fixture {
    pub(crate) server: Net,
    pub(crate) client: Net,
    pub(crate) heard: Arc<Heard>,
    wire: Arc<End>,
    carriers: Vec<JoinHandle<()>>,
    drivers: [DriverThread; 2],
}

fn net(ip: Ipv4Addr, seed: u64, tune: impl FnOnce(&mut StackConfig)) -> (Net, DriverThread, End) {
    let (device, end) = pair(&Config { link: LinkKind::Ip, depth: 1024, ..Config::default() });
    let mut config = StackConfig::new([seed, 77]);
    tune(&mut config);
    let mut stack = Stack::new(config);
    let addresses = vec![Cidr::new(ip.into(), 8).expect("a short prefix")];
    stack.add_port(Box::new(device), PortConfig { addresses, ..PortConfig::default() });
    let (net, driver) = Net::spawn_thread(stack).expect("the thread starts");
    (net, driver, end)
}

/// The address and port of stranger `n`.
fn stranger(n: usize) -> SocketAddrV4 {
    let [_, a, b, c] = (n as u32).to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(10, 16 + a, b, c), 4_000)
}

fn number_of(at: SocketAddrV4) -> usize {
    let [_, a, b, c] = at.ip().octets();
    u32::from_be_bytes([0, a.wrapping_sub(16), b, c]) as usize
}

/// Call `each` with every frame received from `from`, until `from` is closed.
fn carry(from: Arc<End>, mut each: impl FnMut(&[u8]) + Send + 'static) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut room = vec![0; 2_000];
        loop {
            match from.recv_timeout(&mut room, Duration::from_secs(1)) {
                Ok(n) => each(&room[..n]),
                Err(RecvError::Empty) => {}
                Err(_) => return,
            }
        }
    })
}

impl Fixture {
    /// Makes the stacks and threads. `strangers` is the number of strangers.
    pub(crate) fn new(
        strangers: usize,
        manner: Manner,
        tune: impl FnOnce(&mut StackConfig),
    ) -> Fixture {
        let (server, server_driver, wire) = net(SERVER, 1, tune);
        let (client, client_driver, clients) = net(CLIENT, 2, |_| {});
        let (wire, clients) = (Arc::new(wire), Arc::new(clients));
        let answered = (0..strangers).map(|_| AtomicBool::new(false)).collect();
        let heard = Arc::new(Heard { answered, ..Heard::default() });
        let to_client = clients.clone();
        let (to_server, hears) = (wire.clone(), heard.clone());
        let from_server = carry(wire.clone(), move |packet| {
            let Some(segment) = Segment::of(packet) else { return };
            if *segment.dst.ip() == CLIENT {
                // If the queue to the client is full, the packet is dropped, as by a switch.
                let _ = to_client.try_send(packet);
            } else if let Some(answer) = hears.answer(&segment, manner) {
                let _ = to_server.send(&answer);
            }
        });
        let to_server = wire.clone();
        let from_client = carry(clients, move |packet| {
            let _ = to_server.send(packet);
        });
        Fixture {
            server,
            client,
            heard,
            wire,
            carriers: vec![from_server, from_client],
            drivers: [server_driver, client_driver],
        }
    }

    /// Send a SYN to `port` from each stranger that was not answered yet, as fast as the server
    /// takes them.
    pub(crate) fn flood(&self, port: u16) {
        for n in 0..self.heard.answered.len() {
            if !self.heard.answered[n].load(Ordering::Relaxed) {
                let dst = SocketAddrV4::new(SERVER, port);
                let syn = Segment { src: stranger(n), dst, seq: ISS, ack: 0, flags: SYN };
                self.wire.send(&syn.packet(&[])).expect("the server is there");
            }
        }
    }

    /// The number of strangers.
    pub(crate) fn strangers(&self) -> usize {
        self.heard.answered.len()
    }

    /// The number of strangers whose SYN was answered with a SYN-ACK.
    pub(crate) fn answered(&self) -> usize {
        self.heard.answered.iter().filter(|a| a.load(Ordering::Relaxed)).count()
    }

    /// Send a RST from every stranger.
    pub(crate) fn reset_all(&self, port: u16) {
        for n in 0..self.heard.answered.len() {
            let dst = SocketAddrV4::new(SERVER, port);
            // The sequence number after the one byte that a slow stranger has sent.
            let seq = ISS + 2;
            let reset = Segment { src: stranger(n), dst, seq, ack: 0, flags: RST };
            self.wire.send(&reset.packet(&[])).expect("the server is there");
        }
    }

    /// The server's address with port `port`.
    pub(crate) fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(SERVER.into(), port)
    }

    /// Stop all threads.
    pub(crate) fn end(self) {
        for driver in self.drivers {
            driver.stop().expect("no panic");
        }
        drop((self.server, self.client));
        for carrier in self.carriers {
            carrier.join().expect("no panic");
        }
    }
}

impl Heard {
    fn answer(&self, segment: &Segment, manner: Manner) -> Option<Vec<u8>> {
        if segment.flags & RST != 0 {
            self.resets.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if segment.flags & SYN == 0 {
            return None;
        }
        self.syn_acks.fetch_add(1, Ordering::Relaxed);
        self.answered.get(number_of(segment.dst))?.store(true, Ordering::Relaxed);
        let (src, dst) = (segment.dst, segment.src);
        let ack = segment.seq.wrapping_add(1);
        let opened = Segment { src, dst, seq: ISS + 1, ack, flags: ACK };
        (manner == Manner::Slow).then(|| opened.packet(b"1"))
    }
}
