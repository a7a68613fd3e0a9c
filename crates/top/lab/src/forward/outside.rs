//! A router between two interfaces of Linux: the kernel between two veth pairs, ours between two
//! veth pairs over AF_XDP, or ours between two TAPs. One thread sends frames into one side with
//! AF_PACKET, so that the softirqs of the interfaces, and of the kernel's forwarding between them,
//! run in the thread's system calls. The interface at the far end of the other side has another
//! link address than the frames' destination, so that it drops them after it has read the link
//! header.
//!
//! Called by: `wirespeed lab forward`, the benchmarks. Needs root: everything is in the network
//! namespace of the calling thread, which should be a new one.

use std::fmt::Write as _;
use std::fs::{read_to_string, write};
use std::time::{Duration, Instant as Clock};

use base::Instant;
use device::packet::{self, PacketSocket};
use device::tap::{self, Tap};
use device::xdp::{self, XdpSocket};
use device::{BURST, Burst, Device};
use mbuf::Pool;
use stack::Stack;
use wire::tcp::Flags;

use super::cost::{Cost, cpu_s};
use super::packets::{self, answer, frames, segments};
use super::{MACS, Shape, VLANS, addr, mtu, network, prefix};
use crate::Error;
use crate::namespace::{ip, ip_batch, nft};

/// Frames that are sent between two turns of the router.
const ROUND: usize = 512;

/// How often, at the end, we check whether all frames have arrived, with a pause between two
/// checks.
const PATIENCE: usize = 50;

/// Frames that a TAP holds for us: more than a round.
const TAP_QUEUE: u32 = 4 * ROUND as u32;

/// The router that forwards, and the interfaces on both of its sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel between two veth pairs.
    Kernel,
    /// Ours between two veth pairs, by AF_XDP.
    Xdp,
    /// Ours between two TAPs.
    Tap,
}

fn failed(what: impl std::fmt::Display) -> Error {
    Error::Failed(what.to_string())
}

fn run_ip(arguments: &str) -> Result<(), Error> {
    ip(&arguments.split(' ').collect::<Vec<_>>())
}

/// Sends rounds of frames into an interface.
struct Sender {
    socket: PacketSocket,
    pool: Pool,
    frames: Vec<Vec<u8>>,
    next: usize,
}

impl Sender {
    fn new(name: &str, shape: Shape, side: usize) -> Result<Sender, Error> {
        Sender::of(name, frames(shape, side))
    }

    fn of(name: &str, frames: Option<Vec<Vec<u8>>>) -> Result<Sender, Error> {
        let config = packet::Config { offload: false, ..packet::Config::of(name) };
        let socket = PacketSocket::open(&config).map_err(failed)?;
        let frames = frames.filter(|frames| !frames.is_empty());
        let frames = frames.ok_or_else(|| failed(format!("no frames for {name}")))?;
        Ok(Sender { socket, pool: Pool::new(64 << 20), frames, next: 0 })
    }

    /// Send all frames once; the last burst is filled up with the first frames.
    fn send_all(&mut self) -> Result<(), Error> {
        self.send(self.frames.len().next_multiple_of(BURST))
    }

    fn send(&mut self, count: usize) -> Result<(), Error> {
        for _ in 0..count / BURST {
            let mut burst = Burst::new();
            while !burst.is_full() {
                let frame = &self.frames[self.next];
                self.next = if self.next + 1 < self.frames.len() { self.next + 1 } else { 0 };
                let m = self.pool.copy_of(frame).ok_or_else(|| failed("no memory is left"))?;
                burst.push(m);
            }
            self.socket.tx_burst(&mut self.pool, &mut burst);
            if !burst.is_empty() {
                return Err(failed("an interface accepts no frames: make its queue longer"));
            }
        }
        Ok(())
    }
}

/// Packets that an interface received, by the kernel's count.
fn received(name: &str) -> Result<u64, Error> {
    let dev = read_to_string("/proc/thread-self/net/dev").map_err(failed)?;
    let line = dev.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    let field = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    field.ok_or_else(|| failed(format!("no interface {name} in /proc/net/dev")))
}

/// A router, with the senders into it and the receivers from it.
pub struct Outside {
    /// For each side that has a source: its sender, and the interface where its packets arrive.
    ways: Vec<(Sender, &'static str)>,
    /// The sender to an interface that drops frames at once.
    alone: Sender,
    /// Our router; `None` if the kernel forwards.
    stack: Option<Box<Stack>>,
    /// Keeps the TAP open that drops frames.
    _end: Option<Tap>,
    clock: Clock,
}

impl Outside {
    /// A router for packets of a shape, in the calling thread's namespace.
    ///
    /// # Errors
    /// If the machine does not permit such a router; the text says what is missing.
    pub fn new(kind: Kind, shape: Shape) -> Result<Outside, Error> {
        let (ports, end) = match kind {
            Kind::Tap => {
                let [a, b] = [open_tap("ra", shape)?, open_tap("rb", shape)?];
                (Some([Box::new(a) as Box<dyn Device>, Box::new(b)]), Some(open_tap("xa", shape)?))
            }
            Kind::Xdp | Kind::Kernel => {
                make_pairs(shape)?;
                (None, None)
            }
        };
        let ports = match kind {
            Kind::Xdp => Some([open_xdp("ra")?, open_xdp("rb")?]),
            _ => ports,
        };
        let ours = |ports| super::alone(ports, shape).map(Box::new);
        let stack = match ports.map(ours) {
            Some(None) => return Err(failed(format!("no router of {shape:?}"))),
            Some(made) => made,
            None => kernel(shape).map(|()| None)?,
        };
        let ends = if kind == Kind::Tap { ["ra", "rb"] } else { ["ga", "sb"] };
        let sides = (0..2).filter(|&side| shape.direction.has_source(side));
        let way = |side| Ok((Sender::new(ends[side], shape, side)?, ends[1 - side]));
        let ways = sides.map(way).collect::<Result<Vec<_>, Error>>()?;
        let alone = Sender::new("xa", shape, usize::from(!shape.direction.has_source(0)))?;
        Ok(Outside { ways, alone, stack, _end: end, clock: Clock::now() })
    }

    /// Send and forward for about `seconds` or until `stop`. Returns ns a packet, the sending
    /// included, and the number of packets.
    ///
    /// # Errors
    /// If more than one of a hundred packets is lost.
    pub fn whole(&mut self, seconds: f64, stop: &dyn Fn() -> bool) -> Result<(f64, u64), Error> {
        let arrived = |ways: &[(Sender, &str)]| {
            ways.iter().try_fold(0, |sum, (_, name)| Ok::<u64, Error>(sum + received(name)?))
        };
        let (before, begun, cpu) = (arrived(&self.ways)?, Clock::now(), cpu_s());
        let each = ROUND / self.ways.len().max(1);
        let mut count = 0;
        while count == 0 || (begun.elapsed().as_secs_f64() < seconds && !stop()) {
            for (sender, _) in &mut self.ways {
                sender.send(each)?;
                count += each as u64;
            }
            self.turn();
        }
        let (mut there, mut looks) = (arrived(&self.ways)? - before, 0);
        while there < count && looks < PATIENCE {
            // The kernel may have deferred work, which it does while this thread sleeps.
            std::thread::sleep(Duration::from_millis(2));
            self.turn();
            there = arrived(&self.ways)? - before;
            looks += 1;
        }
        let cpu = cpu_s() - cpu;
        if there * 100 < count * 99 {
            let lost = self.stack.as_ref().and_then(|stack| stack.drops().nonzero().next());
            return Err(failed(format!(
                "{there} of {count} packets were forwarded ({lost:?}): stop the other programs on \
                 this machine"
            )));
        }
        Ok((cpu * 1e9 / there as f64, there))
    }

    /// ns a packet of sending alone: to a veth that drops what it receives, or into a TAP whose
    /// queue is full. Both make the router look a little dearer: this cost is subtracted from the
    /// router's, and has less of the first interface's softirq in it, or nothing.
    ///
    /// # Errors
    /// If the interface accepts nothing.
    pub fn alone(&mut self, seconds: f64, stop: &dyn Fn() -> bool) -> Result<f64, Error> {
        let (begun, cpu, mut count) = (Clock::now(), cpu_s(), 0);
        while count == 0 || (begun.elapsed().as_secs_f64() < seconds && !stop()) {
            self.alone.send(ROUND)?;
            count += ROUND;
        }
        Ok((cpu_s() - cpu) * 1e9 / count as f64)
    }

    /// Measure with the router and sending alone, each for half of the time.
    ///
    /// # Errors
    /// Those of [`Outside::whole`] and [`Outside::alone`].
    pub fn measure(&mut self, seconds: f64, stop: &dyn Fn() -> bool) -> Result<Cost, Error> {
        let (whole_ns, packets) = self.whole(seconds / 2.0, stop)?;
        let alone_ns = self.alone(seconds / 2.0, stop)?;
        Ok(Cost { packets, whole_ns, alone_ns })
    }

    /// Give the kernel's router these rules, in the syntax of `nft -f`.
    ///
    /// # Errors
    /// If `nft` refuses the rules; the text is its message.
    pub fn set_rules(&mut self, rules: &str) -> Result<(), Error> {
        nft(rules)
    }

    /// Make the handshakes of all TCP flows through the kernel's router. With `is_masqueraded` the
    /// router replaces their source by the address of its second port, and keeps their ports.
    ///
    /// # Errors
    /// If the answers do not pass.
    pub fn shake_hands(&mut self, shape: Shape, is_masqueraded: bool) -> Result<(), Error> {
        let flows: Vec<u32> = packets::shuffled(shape.flows).collect();
        let source =
            addr(shape.v6, 2 + u8::from(is_masqueraded), if is_masqueraded { 1 } else { 9 });
        let answers = flows.iter().map(|&n| answer(&packets::syn_from(shape, n, source)?));
        let before = received("ga")?;
        Sender::of("ga", segments(shape, 0, &flows, Flags::SYN))?.send_all()?;
        std::thread::sleep(Duration::from_millis(5));
        Sender::of("sb", answers.collect())?.send_all()?;
        std::thread::sleep(Duration::from_millis(5));
        Sender::of("ga", segments(shape, 0, &flows, Flags::ACK))?.send_all()?;
        let answered = received("ga")? - before;
        if answered < u64::from(shape.flows) {
            return Err(failed(format!("{answered} of {} SYN-ACKs passed", shape.flows)));
        }
        Ok(())
    }

    /// How many flows the kernel tracks in the calling thread's namespace.
    ///
    /// # Errors
    /// If it tracks none.
    pub fn tracked(&self) -> Result<u64, Error> {
        let path = "/proc/sys/net/netfilter/nf_conntrack_count";
        let text = read_to_string(path).map_err(|error| failed(format!("{path}: {error}")))?;
        text.trim().parse().map_err(failed)
    }

    fn turn(&mut self) {
        let Some(stack) = &mut self.stack else { return };
        loop {
            let now = Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1);
            if stack.poll(now) == 0 {
                return;
            }
        }
    }
}

fn open_xdp(name: &str) -> Result<Box<dyn Device>, Error> {
    Ok(Box::new(XdpSocket::open(&xdp::Config::of(name)).map_err(failed)?))
}

fn open_tap(name: &str, shape: Shape) -> Result<Tap, Error> {
    let config = tap::Config { name: Some(name.to_owned()), ..tap::Config::default() };
    let mut tap = Tap::open(&config).map_err(failed)?;
    // The kernel gets no address on this interface, so that it sends nothing of its own.
    run_ip(&format!("link set {name} addrgenmode none"))?;
    let (queue_frames, mtu) = (Some(TAP_QUEUE), Some(mtu(shape)));
    tap.configure(&tap::Setup { queue_frames, mtu, up: true, ..tap::Setup::default() })
        .map_err(failed)?;
    Ok(tap)
}

/// Make three veth pairs: `ga` and `ra` from the generator to the router, `rb` and `sb` from the
/// router to the sink, and `xa` and `xb`, which drops frames at once.
fn make_pairs(shape: Shape) -> Result<(), Error> {
    for (a, b) in [("ga", "ra"), ("rb", "sb"), ("xa", "xb")] {
        run_ip(&format!("link add {a} type veth peer name {b}"))?;
    }
    for (name, mac) in [("ra", MACS[1]), ("rb", MACS[2])] {
        run_ip(&format!("link set {name} address {mac}"))?;
    }
    let mtu = mtu(shape).bytes();
    for name in ["ga", "ra", "rb", "sb", "xa", "xb"] {
        run_ip(&format!("link set {name} mtu {mtu} addrgenmode none up"))?;
    }
    Ok(())
}

/// Let Linux forward between `ra` and `rb`.
fn kernel(shape: Shape) -> Result<(), Error> {
    let dad = if shape.v6 { " nodad" } else { "" };
    let hosts = [(2, MACS[0]), (3, MACS[3])];
    let mut ports = [String::new(), String::new()];
    for (side, (net, mac)) in hosts.into_iter().enumerate() {
        let mut name = ["ra", "rb"][side].to_owned();
        if shape.tagged {
            let (trunk, id) = (name, VLANS[side]);
            name = format!("{trunk}.{id}");
            run_ip(&format!("link add link {trunk} name {name} type vlan id {id}"))?;
            run_ip(&format!("link set {name} addrgenmode none up"))?;
        }
        let (own, peer) = (network(shape.v6, net), addr(shape.v6, net, 9));
        run_ip(&format!("addr add {own} dev {name}{dad}"))?;
        run_ip(&format!("neigh add {peer} lladdr {mac} dev {name} nud permanent"))?;
        ports[side] = name;
    }
    let path = match shape.v6 {
        true => "/proc/sys/net/ipv6/conf/all/forwarding",
        false => "/proc/sys/net/ipv4/conf/all/forwarding",
    };
    write(path, "1")
        .map_err(|error| failed(format!("cannot write {path}: {error}: run as root")))?;
    let (sink, mut routes) = (addr(shape.v6, 3, 9), String::new());
    for n in 0..shape.routes {
        // Writing into a string cannot fail.
        let _ = writeln!(routes, "route add {} via {sink} dev {}", prefix(shape.v6, n), ports[1]);
    }
    ip_batch(&routes)
}
