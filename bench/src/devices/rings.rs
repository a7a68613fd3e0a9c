//! UDP datagrams of 64 bytes to the application, over sockets that share a ring with the kernel,
//! compared with a loop that only empties the same ring. Called by `devices`. The ring is at one
//! end of a veth pair in a namespace of its own. One thread sends frames into the other end, then
//! empties the ring. The kernel puts the frames into the ring while the thread sends them. So a row
//! about total CPU also counts the sending, for both sides.

use std::net::SocketAddr;
use std::time::{Duration, Instant as Clock};

use anyhow::{Context, Result, anyhow, ensure};
use base::{Instant, Owner};
use device::packet::{self, PacketSocket, Receive};
use device::xdp::{self, XdpSocket};
use device::{BURST, Burst, Device};
use lab::livelock::datagram;
use mbuf::Pool;
use stack::Stack;
use stack::pair::{PairConfig, end};

use crate::harness::{Bench, Figure};
use crate::measure::{median, pin, thread_cpu_s};
use crate::namespace::{enter_new_namespace, ip};

const PORT: u16 = 5001;

/// Frames of a round. They have to fit into every ring, and they have to be so many that after the
/// sending most of them find the receiver's code and data in the cache again.
const ROUND: usize = 1536;

/// AF_PACKET hands over a block that is not full after a millisecond. AF_XDP's frames are available
/// at once, and a sleep would only cool the cache, which is warm under load.
const SETTLING: Duration = Duration::from_millis(3);

/// How many times we wait this long for an incomplete round. The kernel may have deferred the work
/// that puts frames into the ring, and does it while this thread sleeps.
const PATIENCE: usize = 20;

/// The kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Xdp,
    Packet,
}

impl Kind {
    fn open(self, name: &str) -> Result<Box<dyn Device>> {
        Ok(match self {
            Kind::Xdp => Box::new(XdpSocket::open(&xdp::Config::of(name))?),
            Kind::Packet => {
                let config =
                    packet::Config { receive: Receive::BLOCKS, ..packet::Config::of(name) };
                Box::new(PacketSocket::open(&config)?)
            }
        })
    }
}

/// What empties the ring.
enum Receiver {
    /// A loop that takes frames and gives their buffers back.
    Bare { device: Box<dyn Device>, pool: Pool },
    /// A stack that receives the frames, and an application that reads the datagrams.
    Stack { stack: Box<Stack>, socket: stack::UdpHandle, clock: Clock },
}

impl Receiver {
    fn new(kind: Kind, through_stack: bool) -> Result<Receiver> {
        let device = kind.open("vb")?;
        if !through_stack {
            return Ok(Receiver::Bare { device, pool: Pool::new(64 << 20) });
        }
        let mut server = end(&PairConfig::new([0x1993, 0x1995]), device, 2);
        let to = SocketAddr::new(server.addr, PORT);
        let bound = server.stack.udp_bind(to, Owner::program());
        let socket = bound.map_err(|error| anyhow!("bind: {error:?}"))?;
        Ok(Receiver::Stack { stack: Box::new(server.stack), socket, clock: Clock::now() })
    }

    /// Empty the ring. Returns the number of datagrams.
    fn empty(&mut self) -> usize {
        let mut count = 0;
        match self {
            Receiver::Bare { device, pool } => {
                let mut burst = Burst::new();
                while device.rx_burst(pool, &mut burst) > 0 {
                    count += burst.len();
                    burst.drain(..).for_each(|frame| pool.free(frame));
                }
            }
            Receiver::Stack { stack, socket, clock } => loop {
                let now = Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1);
                if stack.poll(now) == 0 {
                    break;
                }
                while stack.next_event().is_some() {}
                while let Some(datagram) = stack.udp_receive(*socket) {
                    std::hint::black_box(datagram.payload.as_slice().first());
                    stack.give_back(datagram.payload);
                    count += 1;
                }
            },
        }
        count
    }
}

/// The cost of a datagram in ns: the wall time of emptying the ring, and the CPU time of the whole
/// thread.
struct Spent {
    emptying_ns: f64,
    cpu_ns: f64,
}

fn rounds(kind: Kind, through_stack: bool, seconds: f64) -> Result<Spent> {
    let config = PairConfig::new([0x1993, 0x1995]);
    let to = SocketAddr::new(stack::pair::addresses(2)[0].addr, PORT);
    let frame = datagram(&config, to).context("no datagram could be made")?;
    let mut receiver = Receiver::new(kind, through_stack)?;
    let mut sender =
        PacketSocket::open(&packet::Config { offload: false, ..packet::Config::of("va") })?;
    let mut pool = Pool::new(64 << 20);
    let (mut emptying, mut cpu, mut count) = (Vec::new(), 0.0, 0);
    let begun = Clock::now();
    while begun.elapsed().as_secs_f64() < seconds || count < 4 * ROUND {
        let before = thread_cpu_s();
        for _ in 0..ROUND / BURST {
            let mut burst = Burst::new();
            while !burst.is_full() {
                burst.push(pool.copy_of(&frame).context("memory")?);
            }
            sender.tx_burst(&mut pool, &mut burst);
            ensure!(burst.is_empty(), "the interface accepts no frames");
        }
        let (mut had, mut took, mut looks) = (0, 0.0, 0);
        while had < ROUND * 9 / 10 && looks < PATIENCE {
            if kind == Kind::Packet || looks > 0 {
                std::thread::sleep(SETTLING);
            }
            let start = Clock::now();
            had += receiver.empty();
            took += start.elapsed().as_nanos() as f64;
            looks += 1;
        }
        ensure!(had >= ROUND * 9 / 10, "{had} of {ROUND} datagrams arrived");
        emptying.push(took / had as f64);
        cpu += thread_cpu_s() - before;
        count += had;
    }
    Ok(Spent { emptying_ns: median(&emptying), cpu_ns: cpu * 1e9 / count as f64 })
}

/// Measures pairs of runs, in a namespace with a veth pair `va` and `vb`.
fn in_pairs(
    b: &Bench,
    kind: Kind,
    figure: impl Fn(&Spent, &Spent) -> f64 + Send,
) -> Result<Figure> {
    let (first, pairs, seconds) = (b.cores.first, b.pairs, b.seconds / 2.0);
    std::thread::scope(|scope| {
        let measured = scope.spawn(move || -> Result<Figure> {
            pin(&[first])?;
            let _namespace = enter_new_namespace()?;
            ip("link add va type veth peer name vb")?;
            for name in ["va", "vb"] {
                ip(&format!("link set {name} addrgenmode none"))?;
                ip(&format!("link set {name} up"))?;
            }
            let (mut samples, mut last) = (Vec::new(), (0.0, 0.0));
            for _ in 0..pairs {
                let through = rounds(kind, true, seconds)?;
                let bare = rounds(kind, false, seconds)?;
                samples.push(figure(&through, &bare));
                last = match kind {
                    Kind::Xdp => (through.emptying_ns, bare.emptying_ns),
                    Kind::Packet => (through.cpu_ns, bare.cpu_ns),
                };
            }
            let note =
                format!("{:.0} ns a datagram beside {:.0} ns, the last pair", last.0, last.1);
            Ok(Figure { value: median(&samples), samples, note })
        });
        measured.join().map_err(|_| anyhow!("measuring panicked"))?
    })
}

/// The time that stack and application add to the plain loop while the ring is being emptied.
pub(super) fn above_the_ring(b: &Bench) -> Result<Figure> {
    in_pairs(b, Kind::Xdp, |through, bare| through.emptying_ns - bare.emptying_ns)
}

/// The ratio of total CPU time, which includes the kernel's work to put frames into the ring.
pub(super) fn total_cpu(b: &Bench) -> Result<Figure> {
    in_pairs(b, Kind::Packet, |through, bare| through.cpu_ns / bare.cpu_ns)
}
