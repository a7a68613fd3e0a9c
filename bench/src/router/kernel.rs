//! Linux as a router between two veth pairs, and ours between the same over AF_XDP. Called by
//! `router`. A namespace of its own for each: one thread sends frames into the far end of the first
//! pair by AF_PACKET, so that the softirqs of both pairs, and of the forwarding between them, run
//! in its system calls. The far end of the second pair is another station than the frames are for
//! and drops them when it has their link header.

use std::fs::write;
use std::time::{Duration, Instant as Clock};

use anyhow::{Context, Result, anyhow, ensure};
use base::{Instant, LinkKind, MacAddr};
use device::packet::{self, PacketSocket};
use device::xdp::{self, XdpSocket};
use device::{BURST, Burst, Device};
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use lab::forward::Shape;
use mbuf::Pool;
use stack::{PortConfig, PortId, Stack, StackConfig};

use super::memory::forwarding;
use crate::harness::{Bench, Figure, paired};
use crate::measure::{Measurement, median, pin, thread_cpu_s};
use crate::namespace::{enter, enter_new_namespace, ip};

/// Frames between two looks at what arrived.
const ROUND: usize = 512;

/// So often it is looked whether all have arrived, with a pause between.
const PATIENCE: usize = 50;

/// A frame has this many bytes, without its check sequence.
const FRAME: usize = 64;

/// Link addresses: generator, both ports of the router, and where packets go.
const GENERATOR: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PORTS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 3])];
const SINK: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// On a pinned thread, whose namespaces end with it.
fn on_thread<T: Send>(core: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            pin(&[core])?;
            work()
        });
        thread.join().map_err(|_| anyhow!("measuring panicked"))?
    })
}

/// Pairs `ga` and `ra`, `rb` and `sb`: from the generator to the router, from it to the sink; and
/// `xa` and `xb`, where frames end at once.
fn make_pairs() -> Result<()> {
    for (a, b) in [("ga", "ra"), ("rb", "sb"), ("xa", "xb")] {
        ip(&format!("link add {a} type veth peer name {b}"))?;
        for name in [a, b] {
            ip(&format!("link set {name} addrgenmode none"))?;
        }
    }
    for (name, mac) in [("ra", PORTS[0]), ("rb", PORTS[1])] {
        ip(&format!("link set {name} address {mac}"))?;
    }
    for name in ["ga", "ra", "rb", "sb", "xa", "xb"] {
        ip(&format!("link set {name} up"))?;
    }
    Ok(())
}

/// The frame that is forwarded.
fn frame() -> Result<Vec<u8>> {
    let (src, dst) = ([10, 1, 0, 9].into(), [10, 9, 0, 9].into());
    let fields = Fields { src, dst, protocol: 17, tos: 0, ttl: 64 };
    let template = HeaderTemplate::new(LinkKind::Ethernet, GENERATOR, PORTS[0], &fields);
    let mut pool = Pool::new(1 << 20);
    let mut m = pool.copy_of(&[0; FRAME - 34]).context("memory")?;
    template.prepend(&mut m).map_err(|why| anyhow!("no frame: {why:?}"))?;
    Ok(m.as_slice().to_vec())
}

/// Sends rounds of frames into an interface.
struct Sender {
    socket: PacketSocket,
    pool: Pool,
    frame: Vec<u8>,
}

impl Sender {
    fn new(name: &str) -> Result<Sender> {
        let config = packet::Config { offload: false, ..packet::Config::of(name) };
        let socket = PacketSocket::open(&config)?;
        Ok(Sender { socket, pool: Pool::new(64 << 20), frame: frame()? })
    }

    fn round(&mut self) -> Result<()> {
        for _ in 0..ROUND / BURST {
            let mut burst = Burst::new();
            while !burst.is_full() {
                burst.push(self.pool.copy_of(&self.frame).context("memory")?);
            }
            self.socket.tx_burst(&mut self.pool, &mut burst);
            ensure!(burst.is_empty(), "the interface takes no burst");
        }
        Ok(())
    }
}

/// Packets that an interface received, by the kernel's count.
fn received(name: &str) -> Result<u64> {
    let dev = std::fs::read_to_string("/proc/thread-self/net/dev").context("reading net/dev")?;
    let line = dev.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    let field = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    field.with_context(|| format!("no interface {name}"))
}

/// CPU ns a frame of rounds for `seconds`: each is sent, then `work` is done until the interface
/// `sink` has received it. `None`: nothing has to arrive.
fn rounds(
    sender: &mut Sender,
    sink: Option<&str>,
    seconds: f64,
    mut work: impl FnMut() -> Result<()>,
) -> Result<(f64, u64)> {
    let (begun, cpu, mut count) = (Clock::now(), thread_cpu_s(), 0);
    let before = sink.map_or(Ok(0), received)?;
    while begun.elapsed().as_secs_f64() < seconds {
        sender.round()?;
        work()?;
        count += ROUND as u64;
    }
    let Some(name) = sink else {
        return Ok(((thread_cpu_s() - cpu) * 1e9 / count as f64, count));
    };
    let (mut arrived, mut looks) = (received(name)? - before, 0);
    while arrived < count && looks < PATIENCE {
        // The kernel may have deferred work, and does it when this thread sleeps.
        std::thread::sleep(Duration::from_millis(2));
        work()?;
        arrived = received(name)? - before;
        looks += 1;
    }
    let cpu = thread_cpu_s() - cpu;
    ensure!(arrived * 100 >= count * 99, "{arrived} of {count} packets were forwarded");
    Ok((cpu * 1e9 / arrived as f64, arrived))
}

/// Linux forwards from `ra` to `rb`.
struct Kernel {
    sender: Sender,
    /// Sends to where frames end at once.
    alone: Sender,
}

impl Kernel {
    fn new() -> Result<Kernel> {
        make_pairs()?;
        ip("addr add 10.1.0.1/24 dev ra")?;
        ip("addr add 10.2.0.1/24 dev rb")?;
        ip("route add 10.9.0.0/16 via 10.2.0.9 dev rb")?;
        ip(&format!("neigh add 10.2.0.9 lladdr {SINK} dev rb nud permanent"))?;
        for name in ["ra", "rb"] {
            let path = format!("/proc/sys/net/ipv4/conf/{name}/forwarding");
            write(&path, "1").with_context(|| format!("writing {path}"))?;
        }
        Ok(Kernel { sender: Sender::new("ga")?, alone: Sender::new("xa")? })
    }

    /// With the sending, which `cpu_s` includes.
    fn whole(&mut self, seconds: f64) -> Result<Measurement> {
        let (ns, units) = rounds(&mut self.sender, Some("sb"), seconds, || Ok(()))?;
        let settings = format!("kernel {ns:.0} ns with sending");
        let cpu_s = ns * units as f64 * 1e-9;
        Ok(Measurement { units, cpu_s, wall_s: seconds, settings, ..Measurement::default() })
    }

    /// Without it, and without the softirq of one veth pair: in the kernel's favour.
    fn own(&mut self, seconds: f64) -> Result<Measurement> {
        let whole = self.whole(seconds / 2.0)?;
        let (alone_ns, _) = rounds(&mut self.alone, None, seconds / 2.0, || Ok(()))?;
        let all_ns = whole.cpu_s * 1e9 / whole.units as f64;
        let own_ns = all_ns - alone_ns;
        ensure!(own_ns > 0.0, "sending alone cost {alone_ns:.0} ns, with forwarding {all_ns:.0}");
        let settings =
            format!("kernel {own_ns:.0} ns: {all_ns:.0} less {alone_ns:.0} for sending alone");
        Ok(Measurement { cpu_s: own_ns * whole.units as f64 * 1e-9, settings, ..whole })
    }
}

/// Our router on AF_XDP sockets at `ra` and `rb`.
struct OverXdp {
    sender: Sender,
    stack: Box<Stack>,
    clock: Clock,
}

impl OverXdp {
    fn new() -> Result<OverXdp> {
        make_pairs()?;
        let mut config = StackConfig::new([0x1812, 0x2644]);
        config.solicited_node_reports = false;
        let mut stack = Box::new(Stack::new(config));
        for (side, name) in ["ra", "rb"].into_iter().enumerate() {
            let device = XdpSocket::open(&xdp::Config::of(name))?;
            let address = format!("10.{}.0.1/24", side + 1);
            let addresses = vec![address.parse().map_err(|_| anyhow!("no network {address}"))?];
            stack.add_port(Box::new(device), PortConfig { mac: PORTS[side], addresses });
        }
        let next = [10, 2, 0, 9].into();
        stack.add_neighbour(PortId(1), next, SINK);
        let beyond = "10.9.0.0/16".parse().map_err(|_| anyhow!("no network"))?;
        stack.add_route(stack::Route::new(beyond, Some(next), 1));
        stack.set_forwarding(true);
        Ok(OverXdp { sender: Sender::new("ga")?, stack, clock: Clock::now() })
    }

    fn whole(&mut self, seconds: f64) -> Result<Measurement> {
        let OverXdp { sender, stack, clock } = self;
        let (ns, units) = rounds(sender, Some("sb"), seconds, || {
            loop {
                let now = Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1);
                if stack.poll(now) == 0 {
                    return Ok(());
                }
            }
        })?;
        let settings = format!("{ns:.0} ns with sending");
        let cpu_s = ns * units as f64 * 1e-9;
        Ok(Measurement { units, cpu_s, wall_s: seconds, settings, ..Measurement::default() })
    }
}

/// Ours over theirs in packets a CPU-second, in pairs.
fn ratio(
    (pairs, seconds, trial_s): (usize, f64, f64),
    mut ours: impl FnMut(f64) -> Result<Measurement>,
    mut theirs: impl FnMut(f64) -> Result<Measurement>,
) -> Result<Figure> {
    ours(trial_s)?;
    theirs(trial_s)?;
    let mut notes = (String::new(), String::new());
    let samples = paired(
        pairs,
        || {
            let measured = ours(seconds)?;
            notes.0.clone_from(&measured.settings);
            measured.units_per_cpu_s()
        },
        || {
            let measured = theirs(seconds)?;
            notes.1.clone_from(&measured.settings);
            measured.units_per_cpu_s()
        },
    )?;
    let note = format!("{} beside {}, the last pair", notes.0, notes.1);
    Ok(Figure { value: median(&samples), samples, note })
}

/// How many pairs, and for how long each side.
fn plan(b: &Bench) -> (usize, f64, f64) {
    (b.pairs, b.seconds, b.trial_s)
}

pub(super) fn memory_against_veths(b: &Bench) -> Result<Figure> {
    let plan = plan(b);
    on_thread(b.cores.first, move || {
        let _namespace = enter_new_namespace()?;
        let mut kernel = Kernel::new()?;
        let ours = |seconds| forwarding(Shape::default(), seconds);
        ratio(plan, ours, |seconds| kernel.own(seconds))
    })
}

pub(super) fn xdp_against_veths(b: &Bench) -> Result<Figure> {
    let plan = plan(b);
    on_thread(b.cores.first, move || {
        let theirs = enter_new_namespace()?;
        let mut kernel = Kernel::new()?;
        let ours = enter_new_namespace()?;
        let mut router = OverXdp::new()?;
        ratio(
            plan,
            |seconds| {
                enter(&ours)?;
                router.whole(seconds)
            },
            |seconds| {
                enter(&theirs)?;
                kernel.whole(seconds)
            },
        )
    })
}
