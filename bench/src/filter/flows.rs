//! First packets of flows, in datagrams that each begin a new flow: through our router in memory,
//! and through Linux with nft. Called by `filter`. The state table is empty at the start of a pass
//! over all flows. Between two passes it is emptied, and that time is not counted: our table by
//! timeouts in virtual time, the kernel's by a message of ctnetlink.

use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base::Instant;
use filter::Published;
use lab::forward::outside::Outside;
use lab::forward::{Alone, Rig, Shape};
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};

use super::kernel::kernel;
use super::rules::{Rules, masqueraded, of_set, stateful};
use crate::harness::{Bench, Figure};
use crate::measure::{Measurement, thread_cpu_s};
use crate::namespace::enter_new_namespace;
use crate::router::kernel::{on_thread, plan, ratio};

/// Flows of a pass. Each has its own source port, so that NAT makes a mapping for each. They are
/// fewer than the limit `nat_ports_per_source`.
const FLOWS: u32 = 30_720;
/// Frames that our router gets in a round.
const ROUND: usize = 256;
/// Frames that the kernel's router gets in a round.
const KERNEL_ROUND: u32 = 512;
const _: () = assert!(FLOWS.is_multiple_of(KERNEL_ROUND) && (FLOWS as usize).is_multiple_of(ROUND));
/// The most turns that emptying the table may take.
const TURNS_MAX: usize = 100_000;

fn new_flows() -> Shape {
    Shape { flows: FLOWS, ..Shape::default() }
}

/// Our router, which gets new flows in each pass.
struct Fresh {
    rig: Rig,
    alone: Alone,
    now: Instant,
}

impl Fresh {
    fn new(published: Arc<Published>) -> Result<Fresh> {
        let made = Rig::new(new_flows()).zip(Alone::new(new_flows()));
        let (mut rig, alone) = made.context("no router of this shape")?;
        rig.with_stack(|stack| stack.set_filter(Some(published)));
        Ok(Fresh { rig, alone, now: Instant::from_nanos(1) })
    }

    /// Sends one pass of flows through the router. Returns CPU seconds, including those of
    /// generator and sink.
    fn pass(&mut self) -> Result<f64> {
        let begun = thread_cpu_s();
        for _ in 0..FLOWS as usize / ROUND {
            let offered = self.rig.offer(ROUND);
            self.now += base::Duration::from_micros(20);
            self.rig.turn(self.now);
            let passed = self.rig.drain();
            ensure!(passed == offered, "{passed} of {offered} passed: {:?}", self.rig.lost());
        }
        let spent = thread_cpu_s() - begun;
        let states = self.rig.with_stack(|s| s.filter().map_or(0, |f| f.states().len()));
        ensure!(states == FLOWS as usize, "{states} states of {FLOWS} flows");
        self.empty()?;
        Ok(spent)
    }

    /// Let virtual time pass until all states and mappings have ended.
    fn empty(&mut self) -> Result<()> {
        for _ in 0..TURNS_MAX {
            let is_empty = self.rig.with_stack(|stack| {
                stack.filter().is_none_or(|f| f.states().is_empty() && f.mappings().is_empty())
            });
            if is_empty {
                return Ok(());
            }
            self.now += base::Duration::from_secs(1);
            self.rig.turn(self.now);
        }
        anyhow::bail!("states and mappings do not end")
    }

    /// Sends new flows for about `seconds`. `cpu_s` of the result is the router's own time.
    fn begin(&mut self, seconds: f64) -> Result<Measurement> {
        let (mut whole, mut alone, mut passes) = (0.0, 0.0, 0);
        while passes == 0 || whole + alone < seconds {
            whole += self.pass()?;
            let begun = thread_cpu_s();
            for _ in 0..FLOWS as usize / ROUND {
                ensure!(self.alone.pass(ROUND) == ROUND, "the wire lost a frame");
            }
            alone += thread_cpu_s() - begun;
            passes += 1;
        }
        let units = passes * u64::from(FLOWS);
        measurement(units, whole, alone)
    }
}

fn measurement(units: u64, whole_s: f64, alone_s: f64) -> Result<Measurement> {
    let cpu_s = whole_s - alone_s;
    ensure!(cpu_s > 0.0, "sending alone took {alone_s:.4} s, with the router {whole_s:.4}");
    let settings = format!("{:.0} ns a flow", cpu_s * 1e9 / units as f64);
    Ok(Measurement { units, cpu_s, wall_s: whole_s, settings, ..Measurement::default() })
}

/// Sends new flows through the kernel for about `seconds`. `cpu_s` of the result is the kernel's
/// router's own time.
fn kernel_flows(router: &mut Outside, seconds: f64) -> Result<Measurement> {
    let (mut whole, mut alone, mut packets) = (0.0, 0.0, 0);
    while packets == 0 || whole + alone < seconds {
        let (ns, there) = router.whole(f64::INFINITY, &a_pass())?;
        let tracked = router.tracked()?;
        ensure!(tracked >= u64::from(FLOWS), "the kernel tracks {tracked} flows of {FLOWS}");
        forget_flows()?;
        let alone_ns = router.alone(f64::INFINITY, &a_pass())?;
        whole += ns * there as f64 * 1e-9;
        alone += alone_ns * there as f64 * 1e-9;
        packets += there;
    }
    measurement(packets, whole, alone)
}

/// A function that returns `true` at the end of a pass. It is called between two rounds.
fn a_pass() -> impl Fn() -> bool {
    let rounds = Cell::new(1);
    move || {
        rounds.set(rounds.get() + 1);
        rounds.get() > FLOWS / KERNEL_ROUND
    }
}

/// Deletes all flows that the kernel tracks in the calling thread's namespace.
fn forget_flows() -> Result<()> {
    let protocol = SockProtocol::NetlinkNetFilter;
    let fd =
        socket::socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)
            .context("opening a socket of netfilter")?;
    // A netlink header with its length, the type "delete" of conntrack, and the flags "request,
    // acknowledge"; then an empty filter for all address families.
    let mut message = [0; 20];
    message[..4].copy_from_slice(&20_u32.to_ne_bytes());
    message[4..6].copy_from_slice(&0x0102_u16.to_ne_bytes());
    message[6..8].copy_from_slice(&5_u16.to_ne_bytes());
    socket::send(fd.as_raw_fd(), &message, MsgFlags::empty()).context("asking conntrack")?;
    let mut answer = [0; 64];
    let len = socket::recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    ensure!(
        len >= 20 && answer[16..20] == [0; 4],
        "conntrack keeps its flows: {:?}",
        &answer[..len]
    );
    Ok(())
}

/// The ratio of new flows per CPU-second, ours over those of Linux with nft.
fn beside_nft(b: &Bench, rules: Rules) -> Result<Figure> {
    let plan = plan(b);
    on_thread(b.cores.first, move || {
        let _namespace = enter_new_namespace()?;
        let mut ours = Fresh::new(rules.published(1)?)?;
        let mut theirs = kernel(new_flows(), rules)?;
        ratio(plan, |seconds| ours.begin(seconds), |seconds| kernel_flows(&mut theirs, seconds))
    })
}

pub(super) fn with_states(b: &Bench) -> Result<Figure> {
    beside_nft(b, stateful(100))
}

pub(super) fn with_nat(b: &Bench) -> Result<Figure> {
    beside_nft(b, masqueraded(100))
}

/// The ratio of the CPU time of a first packet with the first rules to that with the second rules.
fn times(b: &Bench, these: Arc<Published>, those: Arc<Published>) -> Result<Figure> {
    let (mut these, mut those) = (Fresh::new(these)?, Fresh::new(those)?);
    let each = |m: &Measurement| Ok(1e9 / m.units_per_cpu_s()?);
    b.ratio(each, |seconds| these.begin(seconds), |seconds| those.begin(seconds))
}

pub(super) fn many_rules(b: &Bench) -> Result<Figure> {
    times(b, stateful(1_000).published(1)?, stateful(100).published(1)?)
}

pub(super) fn large_set(b: &Bench) -> Result<Figure> {
    times(b, of_set(1_000_000, 1)?, of_set(10, 1)?)
}
