//! A host of a world: a stack, its devices, a clock of its own, and the faults of a machine:
//! pauses, exhausted memory, a clock that jumps.
//!
//! Called by: `world`.

use base::{Duration, Instant, LinkKind, Mtu};
use device::mem::{self, Mem};
use device::mitigation::Threshold;
use device::{Burst, Device, Offloads};
use link::cut;
use mbuf::{Mbuf, Pool};
use stack::{PortConfig, PortId, Stack, StackConfig};

/// A host's clock: the world's time plus an offset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    offset_ns: i64,
}

impl Clock {
    pub(crate) fn new(offset: Duration) -> Clock {
        Clock { offset_ns: i64::try_from(offset.as_nanos()).unwrap_or(i64::MAX) }
    }

    /// The host's time; never less than zero.
    pub(crate) fn local(self, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_add_signed(self.offset_ns))
    }

    /// The world's time at which the host's clock shows `local`.
    pub(crate) fn world(self, local: Instant) -> Instant {
        match local {
            Instant::NEVER => Instant::NEVER,
            _ => {
                let ns = i128::from(local.as_nanos()) - i128::from(self.offset_ns);
                Instant::from_nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
            }
        }
    }

    pub(crate) fn jump(&mut self, by_ns: i64) {
        self.offset_ns = self.offset_ns.saturating_add(by_ns);
    }
}

/// The settings of a host's port.
#[derive(Clone, Debug)]
pub struct PortSettings {
    /// The link kind.
    pub link: LinkKind,
    /// The largest packet, in bytes.
    pub mtu: Mtu,
    /// Frames that the device's queues hold.
    pub depth: usize,
    /// Bytes that the device's queues hold.
    pub depth_bytes: usize,
    /// Offloads of the device.
    pub offloads: Offloads,
    /// Does the device wait until one burst has left before it gives the next burst to its link?
    /// Then the device's queues can fill, and the stack is pushed back. Otherwise the link takes
    /// all frames at once into its own queue.
    pub waits_for_link: bool,
}

impl Default for PortSettings {
    /// Ethernet, MTU 1,500, queues of 4,096 frames and 64 MB, no offloads.
    fn default() -> PortSettings {
        PortSettings {
            link: LinkKind::Ethernet,
            mtu: Mtu::ETHERNET,
            depth: 4096,
            depth_bytes: 64 << 20,
            offloads: Offloads::default(),
            waits_for_link: false,
        }
    }
}

/// The settings of a host.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// The host's stack.
    pub stack: StackConfig,
    /// What the host's clock shows when the world begins.
    pub clock: Duration,
    /// Does the device copy frames from and to buffers of the host, like real hardware? Then frames
    /// in flight do not use the host's buffers, and each arrival needs a buffer.
    pub own_buffers: bool,
    /// The interrupt coalescing of the devices. Its time counts from the first frame, as in
    /// hardware.
    pub interrupt: Threshold,
    /// The CPU time that receiving takes.
    pub cost: Cost,
}

/// CPU time that receiving takes. In this time the host does nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The time for each interrupt.
    pub interrupt: Duration,
    /// The time for each frame.
    pub frame: Duration,
}

/// One port, from the network's point of view.
pub(crate) struct Attachment {
    pub(crate) wire: Mem,
    pub(crate) link: LinkKind,
    /// The direction of a link into which the port sends.
    pub(crate) out: usize,
    /// See [`PortSettings::waits_for_link`].
    pub(crate) waits_for_link: bool,
}

/// A host.
pub(crate) struct Host {
    pub(crate) stack: Stack,
    pub(crate) clock: Clock,
    pub(crate) settings: HostSettings,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) paused_until: Instant,
    /// Buffers that are withheld from the stack.
    withheld: Vec<Mbuf>,
    /// The limit of the host's pool while no buffers are withheld.
    limit_bytes: usize,
    /// Frames lost because the device's ring was full, for example while the host paused.
    pub(crate) ring_full: u64,
    /// Frames lost because the host had no buffer.
    pub(crate) no_buffer: u64,
    /// Super-segments that could not be cut.
    pub(crate) uncut: u64,
    /// How many frames were delivered since the stack was last polled. The next field counts their
    /// bytes.
    delivered: usize,
    delivered_bytes: usize,
    /// When the first of these frames arrived.
    first_at: Instant,
    /// How often the stack was polled for such frames.
    pub(crate) interrupts: u64,
    /// CPU time that receiving has taken.
    pub(crate) busy: Duration,
    /// How many times in a row the stack asked to be polled again at once.
    pub(crate) spins: u32,
}

impl Host {
    pub(crate) fn new(settings: HostSettings) -> Host {
        Host {
            // The wires have no Ethernet switch that would need the stack's group reports.
            stack: Stack::new(StackConfig {
                solicited_node_reports: false,
                ..settings.stack.clone()
            }),
            clock: Clock::new(settings.clock),
            settings,
            attachments: Vec::new(),
            paused_until: Instant::ZERO,
            withheld: Vec::new(),
            limit_bytes: 0,
            ring_full: 0,
            no_buffer: 0,
            uncut: 0,
            delivered: 0,
            delivered_bytes: 0,
            first_at: Instant::ZERO,
            interrupts: 0,
            busy: Duration::ZERO,
            spins: 0,
        }
    }

    /// Add a port whose frames go into direction `out`. `wrap` may put another device around the
    /// port's device.
    pub(crate) fn attach(
        &mut self,
        settings: &PortSettings,
        config: PortConfig,
        out: usize,
        wrap: impl FnOnce(Mem) -> Box<dyn Device>,
    ) -> PortId {
        let (inside, wire) = mem::pair(&mem::Config {
            link: settings.link,
            mtu: settings.mtu,
            depth: settings.depth,
            depth_bytes: settings.depth_bytes,
            offloads: settings.offloads,
        });
        let waits_for_link = settings.waits_for_link;
        self.attachments.push(Attachment { wire, link: settings.link, out, waits_for_link });
        self.stack.add_port(wrap(inside), config)
    }

    /// Take the packets that the stack has sent through a port, and pass each to `out` in the form
    /// in which it is on the wire. Returns their number.
    pub(crate) fn sent(
        &mut self,
        port: usize,
        pool: &mut Pool,
        mut out: impl FnMut(Mbuf, &mut Pool),
    ) -> usize {
        let Attachment { wire, link, waits_for_link, .. } = &mut self.attachments[port];
        let mut burst = Burst::new();
        let mut total = 0;
        while !(*waits_for_link && total > 0) && wire.rx_burst(pool, &mut burst) > 0 {
            for frame in burst.drain(..) {
                total += 1;
                let frame = if self.settings.own_buffers && frame.segment_size() == 0 {
                    let Some(copy) = copied(&frame, pool) else {
                        self.uncut += 1;
                        pool.free(frame);
                        continue;
                    };
                    pool.free(frame);
                    copy
                } else {
                    frame
                };
                self.uncut += cut(frame, *link, pool, &mut out);
            }
            pool.flush();
        }
        total
    }

    /// Deliver a frame from the wire to a port.
    pub(crate) fn arrive(&mut self, port: usize, frame: Mbuf, now: Instant, pool: &mut Pool) {
        let bytes = frame.len();
        let frame = if self.settings.own_buffers {
            let copy = self.stack.pool().copy_of(frame.as_slice());
            pool.free(frame);
            match copy {
                Some(copy) => copy,
                None => {
                    self.no_buffer += 1;
                    return;
                }
            }
        } else {
            frame
        };
        let mut burst = Burst::new();
        burst.push(frame);
        if self.attachments[port].wire.tx_burst(pool, &mut burst) == 0 {
            self.ring_full += 1;
            burst.drain(..).for_each(|frame| pool.free(frame));
        } else {
            if self.delivered == 0 {
                self.first_at = now;
            }
            self.delivered += 1;
            self.delivered_bytes += bytes;
        }
    }

    /// When the devices will interrupt the host for received frames; `None` if there are none.
    pub(crate) fn interrupt_at(&self) -> Option<Instant> {
        let Threshold { frames, bytes, within } = self.settings.interrupt;
        let has_gathered =
            self.delivered >= frames as usize || self.delivered_bytes >= bytes as usize;
        let wait = if has_gathered { Duration::ZERO } else { within };
        (self.delivered > 0).then_some(self.first_at + wait)
    }

    /// Let the CPU be busy with this many received frames.
    pub(crate) fn spend(&mut self, frames: usize, now: Instant) {
        let Cost { interrupt, frame } = self.settings.cost;
        if frames > 0 && self.settings.cost != Cost::default() {
            let spent = interrupt + Duration::from_nanos(frame.as_nanos() * frames as u64);
            self.busy = self.busy + spent;
            self.paused_until = self.paused_until.max(now + spent);
        }
    }

    /// Called when the stack is polled for delivered frames. Returns the number of frames.
    pub(crate) fn take_delivered(&mut self) -> usize {
        self.interrupts += u64::from(self.delivered > 0);
        self.delivered_bytes = 0;
        core::mem::take(&mut self.delivered)
    }

    /// Take every free buffer of the stack's pool, and lower the pool's limit so that it cannot get
    /// more.
    pub(crate) fn exhaust(&mut self) {
        let pool = self.stack.pool();
        self.limit_bytes = self.limit_bytes.max(pool.limit_bytes());
        pool.set_limit_bytes(pool.held_bytes());
        for len in [1_500, 3_900, 16_000, 65_000] {
            while let Some(m) = pool.alloc(len) {
                self.withheld.push(m);
            }
        }
    }

    /// Give the withheld buffers back.
    pub(crate) fn release_buffers(&mut self) {
        let pool = self.stack.pool();
        pool.set_limit_bytes(self.limit_bytes.max(pool.limit_bytes()));
        self.withheld.drain(..).for_each(|m| pool.free(m));
    }

    /// Buffers of the stack's pool that are in use, withheld ones not counted.
    pub(crate) fn outstanding(&mut self) -> usize {
        self.stack.pool().flush();
        self.stack.pool().outstanding() - self.withheld.len()
    }
}

/// A copy of a frame, with its offload requests.
fn copied(frame: &Mbuf, pool: &mut Pool) -> Option<Mbuf> {
    let mut copy = pool.copy_of(frame.as_slice())?;
    if frame.has(mbuf::Flags::CSUM_PARTIAL) {
        copy.set(mbuf::Flags::CSUM_PARTIAL);
    }
    copy.set_csum(frame.csum());
    Some(copy)
}
