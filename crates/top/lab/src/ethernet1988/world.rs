//! Two workstations of 1988 and one TCP connection between them, in virtual time: those parts of
//! 4.3BSD's socket layer, TCP and driver that decide when a packet leaves, with each of the four
//! steps on or off.
//!
//! Called by: `ethernet1988.rs`, tests. It is a model of rules, written from the report's
//! description; it uses no code of our stack. `ethernet1988.rs` has the model of a host's
//! processor, `cable.rs` that of the wire.
//!
//! The rules. A write copies while the send buffer has room for a cluster, then output runs; with
//! the step `unit` output runs after each cluster. Output sends whole packets, and a shorter one if
//! nothing is in flight. Output runs with network interrupts masked, copies to and from programs do
//! not. An ACK leaves when the receiver's program has read two packets or 35 % of the buffer, or
//! when a timer fires, every 200 ms.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cable::{Cable, Look, frame_ns};
use super::costs::{Costs, HEADER_BYTES, KB, PACKET_BYTES, Steps, US};
use super::{Cpu, Level};

/// A cluster of mbufs.
const CLUSTER: u64 = KB;
/// The share of the receive buffer that an ACK must free.
const UPDATE_PERCENT: u64 = 35;
/// The tick of the timer of delayed ACKs.
const FAST_TICK_NS: u64 = 200_000 * US;
/// The two hosts.
pub(super) const SENDER: usize = 0;
pub(super) const RECEIVER: usize = 1;

/// A job of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// The sender's program copies into the socket.
    Copy { bytes: u64 },
    /// TCP, IP and driver for a packet to send: data, or an ACK without data.
    Send { packet: Packet },
    /// The processor switches to the process.
    Wake,
    /// The receiver's program copies out of the socket.
    Read { bytes: u64 },
    /// A packet was sent.
    Sent,
    /// A packet has come.
    Received { packet: Packet },
    /// The LANCE has the bus.
    Bus,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    Data { bytes: u64 },
    Ack { to: u64, edge: u64 },
}

impl Packet {
    fn data(self) -> u64 {
        match self {
            Packet::Data { bytes } => bytes,
            Packet::Ack { .. } => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A job of a host's processor is done, unless the processor has another number by now: then
    /// the job was interrupted.
    Done { host: usize, number: u64 },
    /// A station may begin to send.
    Look,
    /// The frame on the cable is over.
    End { by: usize },
    /// The timer of delayed ACKs fires.
    FastTick,
}

/// One host.
struct Host {
    cpu: Cpu,
    /// Packets that output has made; the one on the wire is in front.
    queue: std::collections::VecDeque<Packet>,
    /// The LANCE has the packet in front.
    is_sending: bool,
}

/// The connection at the sender: stream positions, and bytes in the send buffer.
#[derive(Default)]
struct Sending {
    queued: u64,
    una: u64,
    nxt: u64,
    edge: u64,
    resid: u64,
    is_blocked: bool,
    /// Nothing was in flight when output began.
    idle: bool,
}

/// The connection at the receiver.
#[derive(Default)]
struct Receiving {
    queued: u64,
    nxt: u64,
    edge: u64,
    delays: bool,
    is_running: bool,
    read: u64,
}

/// The results of a run so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) now_ns: u64,
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) busy_ns: [u64; 2],
    pub(super) wire_ns: u64,
    pub(super) collisions: u64,
}

/// Both hosts and the cable.
pub(super) struct World {
    costs: Costs,
    steps: Steps,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    hosts: [Host; 2],
    cable: Cable,
    sending: Sending,
    receiving: Receiving,
    packets: u64,
}

impl World {
    pub(super) fn new(costs: Costs, steps: Steps, seed: u64) -> World {
        let host = || Host { cpu: Cpu::default(), queue: Default::default(), is_sending: false };
        let mut world = World {
            costs,
            steps,
            now: 0,
            events: BinaryHeap::new(),
            order: 0,
            hosts: [host(), host()],
            cable: Cable::new(seed),
            sending: Sending { edge: costs.buffer, ..Sending::default() },
            receiving: Receiving { edge: costs.buffer, ..Receiving::default() },
            packets: 0,
        };
        // The timer's phase is random: it has no relation to the beginning of the transfer.
        let phase = device::fault::Rng::new(seed).below(FAST_TICK_NS as usize) as u64;
        world.at(phase, Event::FastTick);
        world.write();
        world
    }

    /// Run until the receiver's program has read this many bytes.
    pub(super) fn run(&mut self, bytes: u64) -> Counts {
        while self.receiving.read < bytes {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            self.now = at;
            self.take(event);
        }
        Counts {
            now_ns: self.now,
            bytes: self.receiving.read,
            packets: self.packets,
            busy_ns: [self.hosts[0].cpu.busy_ns, self.hosts[1].cpu.busy_ns],
            wire_ns: self.cable.used_ns,
            collisions: self.cable.collisions,
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Done { host, number } => {
                if let Some((level, job)) = self.hosts[host].cpu.done(number, self.now) {
                    self.finish(host, level, job);
                    self.schedule(host);
                }
            }
            Event::Look => self.look(),
            Event::End { by } => {
                self.cable.end(self.now);
                let packet = self.hosts[by].queue.pop_front();
                self.hosts[by].is_sending = false;
                if self.steps.queue {
                    self.transmit(by);
                }
                self.interrupt(by, Job::Sent);
                if let Some(packet) = packet {
                    self.interrupt(1 - by, Job::Received { packet });
                }
                self.look();
            }
            Event::FastTick => {
                if self.receiving.delays {
                    self.acknowledge(Level::Interrupt);
                }
                self.at(self.now + FAST_TICK_NS, Event::FastTick);
            }
        }
    }

    fn look(&mut self) {
        match self.cable.look(self.now) {
            Look::Nothing => {}
            Look::Later(at) => self.at(at, Event::Look),
            Look::Begun { by, end } => {
                self.at(end, Event::End { by });
                // An ACK takes so little time on the bus that it is not counted.
                let data = self.hosts[by].queue.front().map_or(0, |packet| packet.data());
                if data > 0 {
                    self.interrupt(SENDER, Job::Bus);
                    self.interrupt(RECEIVER, Job::Bus);
                }
            }
        }
    }

    /// The time that a job takes.
    fn cost_ns(&self, host: usize, job: Job) -> u64 {
        let (costs, steps) = (&self.costs, self.steps);
        match job {
            Job::Copy { bytes } | Job::Read { bytes } => costs.copy_ns(steps, bytes),
            Job::Send { packet } => {
                (costs.protocol + costs.setup) * US + costs.sum_ns(steps, packet.data())
            }
            Job::Wake => costs.wake * US,
            Job::Sent => costs.interrupt * US,
            Job::Received { packet } => {
                let hidden = host == RECEIVER && !steps.in_place;
                let pullup = if hidden { costs.pullup } else { 0 };
                (costs.interrupt + costs.protocol + pullup) * US
                    + costs.sum_ns(steps, packet.data())
            }
            Job::Bus => costs.bus * US,
        }
    }

    fn interrupt(&mut self, host: usize, job: Job) {
        let cost = self.cost_ns(host, job);
        self.hosts[host].cpu.interrupt(cost, job, self.now);
        self.schedule(host);
    }

    /// Add work that follows a job at once, at the level of that job.
    fn follow(&mut self, host: usize, level: Level, job: Job) {
        let cost = self.cost_ns(host, job);
        self.hosts[host].cpu.follow(level, cost, job);
    }

    fn schedule(&mut self, host: usize) {
        if let Some((end, number)) = self.hosts[host].cpu.next(self.now) {
            self.at(end, Event::Done { host, number });
        }
    }

    fn finish(&mut self, host: usize, level: Level, job: Job) {
        match job {
            Job::Bus => {}
            Job::Copy { bytes } => {
                self.sending.queued += bytes;
                self.sending.resid -= bytes;
                if !self.steps.unit && self.has_room() && self.sending.resid > 0 {
                    return self.write();
                }
                self.begin_output(level);
            }
            Job::Send { packet } => {
                self.hosts[host].queue.push_back(packet);
                self.transmit(host);
                self.look();
                match packet {
                    Packet::Data { .. } => self.output(level),
                    Packet::Ack { .. } if level == Level::Interrupt => {}
                    Packet::Ack { .. } => self.read(),
                }
            }
            Job::Wake if host == SENDER => self.write(),
            Job::Wake => self.read(),
            Job::Sent => {
                self.transmit(host);
                self.look();
            }
            Job::Received { packet: Packet::Data { bytes } } => {
                let receiving = &mut self.receiving;
                receiving.nxt += bytes;
                receiving.queued += bytes;
                receiving.delays = true;
                if !receiving.is_running {
                    receiving.is_running = true;
                    self.follow(RECEIVER, Level::Process, Job::Wake);
                }
            }
            Job::Received { packet: Packet::Ack { to, edge } } => {
                let sending = &mut self.sending;
                sending.queued -= to - sending.una;
                sending.una = to;
                sending.edge = edge;
                if sending.is_blocked {
                    sending.is_blocked = false;
                    self.follow(SENDER, Level::Process, Job::Wake);
                }
                self.begin_output(Level::Interrupt);
            }
            Job::Read { bytes } => {
                let receiving = &mut self.receiving;
                receiving.queued -= bytes;
                receiving.read += bytes;
                let room = self.costs.buffer - receiving.queued;
                let offers = room - (receiving.edge - receiving.nxt);
                if offers >= 2 * PACKET_BYTES || offers * 100 >= self.costs.buffer * UPDATE_PERCENT
                {
                    self.acknowledge(Level::Process);
                } else {
                    self.read();
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        let space = self.costs.buffer - self.sending.queued;
        space >= CLUSTER || (self.sending.queued < CLUSTER && space > 0)
    }

    /// The sender's program: copy, or wait for room.
    fn write(&mut self) {
        if self.sending.resid == 0 {
            self.sending.resid = self.costs.write;
        }
        if !self.has_room() {
            self.sending.is_blocked = true;
            return;
        }
        let space = self.costs.buffer - self.sending.queued;
        let bytes = space.min(self.sending.resid);
        let bytes = if self.steps.unit { bytes.min(CLUSTER) } else { bytes };
        self.follow(SENDER, Level::Process, Job::Copy { bytes });
        self.schedule(SENDER);
    }

    fn begin_output(&mut self, level: Level) {
        self.sending.idle = self.sending.una == self.sending.nxt;
        self.output(level);
    }

    /// Make the next packet that may leave. If there is none, continue the work that called output.
    fn output(&mut self, level: Level) {
        let sending = &mut self.sending;
        let off = sending.nxt - sending.una;
        let window = sending.edge - sending.una;
        let bytes = sending.queued.min(window).saturating_sub(off).min(PACKET_BYTES);
        let is_last = off + bytes >= sending.queued;
        if bytes == PACKET_BYTES || (bytes > 0 && sending.idle && is_last) {
            sending.nxt += bytes;
            self.packets += 1;
            let masked = if level == Level::Process { Level::Masked } else { level };
            self.follow(SENDER, masked, Job::Send { packet: Packet::Data { bytes } });
        } else if level != Level::Interrupt {
            self.write();
        }
    }

    /// The receiver's program: copy all received data, or sleep if there is none.
    fn read(&mut self) {
        let bytes = self.receiving.queued;
        if bytes == 0 {
            self.receiving.is_running = false;
            return;
        }
        self.follow(RECEIVER, Level::Process, Job::Read { bytes });
    }

    fn acknowledge(&mut self, level: Level) {
        let receiving = &mut self.receiving;
        receiving.delays = false;
        receiving.edge = receiving.nxt + self.costs.buffer - receiving.queued;
        let packet = Packet::Ack { to: receiving.nxt, edge: receiving.edge };
        match level {
            Level::Interrupt => self.interrupt(RECEIVER, Job::Send { packet }),
            _ => self.follow(RECEIVER, Level::Masked, Job::Send { packet }),
        }
    }

    /// Give the LANCE the first packet of the queue, if it has no packet.
    fn transmit(&mut self, host: usize) {
        let station = &mut self.hosts[host];
        let Some(packet) = station.queue.front().filter(|_| !station.is_sending) else { return };
        station.is_sending = true;
        self.cable.offer(host, frame_ns(packet.data() + HEADER_BYTES), self.now);
    }
}
