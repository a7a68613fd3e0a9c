//! Linux sends bulk data over a TAP without offload directly to a stack of ours. The stack's
//! counters show how many of the segments follow a leader. Called by `strangers/mod.rs`. It needs a
//! network namespace, and so CAP_SYS_ADMIN.

use std::net::SocketAddr;
use std::time::{Duration, Instant as Clock};

use anyhow::{Context, Result, anyhow, ensure};
use base::{Counter, Instant};
use device::Device;
use device::tap::Tap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stack::{ListenConfig, PortConfig, Stack, StackConfig};

use super::record::{Kind, OUR_MAC, PORT, while_linux_sends};
use crate::peers::kernel::UNIT;

/// What the stack's counters show.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// TCP segments received; nearly all of them contain data.
    pub segments: u64,
    /// The segments that followed a leader.
    pub followed: u64,
    /// The number of bursts in which the segments were read.
    pub bursts: u64,
}

/// Lets Linux send for this many seconds.
///
/// # Errors
/// If a namespace or a TAP cannot be made, or if almost nothing arrives.
pub fn live(kind: Kind, seconds: f64) -> Result<Live> {
    while_linux_sends(kind, |tap| receive(kind, tap, Duration::from_secs_f64(seconds)))
}

fn receive(kind: Kind, tap: Tap, span: Duration) -> Result<Live> {
    let fd = tap.as_fd().context("the TAP is gone")?.try_clone_to_owned()?;
    let kernel_mac = tap.kernel_mac().context("no link address")?;
    let mut stack = Stack::new(StackConfig::new([0x1988, 0x1989]));
    let addresses = vec![kind.ours()];
    let port = stack
        .add_port(Box::new(tap), PortConfig { mac: OUR_MAC, addresses, ..PortConfig::default() });
    stack.add_neighbour(port, kind.kernel().addr, kernel_mac);
    let at = SocketAddr::new(kind.ours().addr, PORT);
    let listener = stack
        .tcp_listen(at, ListenConfig { backlog: 256, ..ListenConfig::default() })
        .map_err(|e| anyhow!("listen: {e:?}"))?;
    let (clock, mut begun) = (Clock::now(), None);
    let (mut handles, mut into) = (Vec::new(), vec![0; UNIT]);
    while begun.is_none_or(|begun: Clock| begun.elapsed() < span) {
        ensure!(clock.elapsed() < span + Duration::from_secs(10), "nobody connected in 10 s");
        let work = stack.poll(Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1));
        while stack.next_event().is_some() {}
        while let Some(handle) = stack.tcp_accept(listener) {
            handles.push(handle);
            begun = begun.or_else(|| Some(Clock::now()));
        }
        for &handle in &handles {
            while stack.tcp_read(handle, &mut into).is_ok_and(|n| n > 0) {}
        }
        if work == 0 {
            let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout))?;
        }
    }
    let of = |counter| stack.counters().of(counter);
    let segments = of(Counter::TcpSegmentsIn);
    ensure!(segments > 1000, "{segments} segments arrived");
    let (followed, bursts) = (of(Counter::TcpFollowed), of(Counter::RxBursts));
    Ok(Live { segments, followed, bursts })
}
