//! Puts adversarial peers into a world. Each has a link of its own to one host, and the oracles
//! check that host's connection like any other.
//!
//! Called by: `scenario`, tests, `events`.
//! An adversary has a placeholder in the list of ends, which shows the adversary's figures, so that
//! the laws about connections apply to it too. [`World::check_adversaries`] checks the additional
//! laws.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use base::{Instant, LinkKind};
use link::{CORRUPTED, Settings};
use mbuf::Mbuf;

use crate::adversary::{Adversary, AdversarySettings, AttachedAdversary};
use crate::app::{Endpoint, Finish, Opening, Phase, Script};
use crate::flow::Flow;
use crate::host::PortSettings;
use crate::misbehaviour::Misbehaviour;
use crate::oracle::story;
use crate::seen;
use crate::violation::Violation;
use crate::world::{Target, World};

/// The kind of an adversary's link: bare IP packets, so that it needs no neighbour discovery.
const KIND: LinkKind = LinkKind::Ip;
/// The last byte of an adversary's address, and its port number.
const NUMBER: u8 = 250;
const PORT: u16 = 9;

/// A connection to an adversary.
pub struct AdversaryFlow {
    /// The host that connects to the adversary.
    pub host: usize,
    /// The number of the network between the host and the adversary; no other host is on it.
    pub network: u8,
    /// The link to the adversary, and the link from it.
    pub links: (Settings, Settings),
    /// The adversary.
    pub adversary: AdversarySettings,
    /// Settings of the connection.
    pub config: tcp::Config,
    /// The script of the honest end. It should be [`Script::is_graceful`]; otherwise bytes may be
    /// missing, and the test shows little.
    pub script: Script,
    /// When the connection begins.
    pub at: Instant,
}

impl World {
    /// Connect a host to an adversary; returns the number of the flow.
    pub fn add_adversary(&mut self, flow: AdversaryFlow) -> usize {
        let (number, adversary) = (self.flows.len(), self.adversaries.len());
        let settings = |settings: Settings| Settings { link: KIND, ..settings };
        let there = self.add_lane(settings(flow.links.0), Target::Adversary(adversary));
        let port = self.hosts[flow.host].attachments.len();
        let back = Target::Host { host: flow.host, port };
        let back = self.add_lane(settings(flow.links.1), back);
        let port = PortSettings { link: KIND, ..PortSettings::default() };
        self.attach(flow.network, flow.host, &port, there, &[]);
        let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, flow.network, NUMBER), PORT);
        let streams = (2 * number as u64, 2 * number as u64 + 1);
        let opening = |at| Opening::Connect { to: SocketAddr::V4(address), at };
        let local = self.hosts[flow.host].clock.local(flow.at);
        let client = self.ends.len();
        self.ends.push(Endpoint::new(flow.host, opening(local), flow.config, flow.script, streams));
        let nothing = Script { writes: vec![], reads: vec![], finish: Finish::Close };
        let never = opening(Instant::NEVER);
        let back_streams = (streams.1, streams.0);
        let placeholder = Endpoint::new(flow.host, never, flow.config, nothing, back_streams);
        self.ends.push(placeholder);
        self.host_ends[flow.host].push(client);
        self.flows.push(Flow { number, client, server: client + 1, is_graceful: false });
        if flow.adversary.misbehaviour == Misbehaviour::Timestamps {
            // The adversary echoes wrong timestamps, so no measured round trip is reliable.
            self.clock_jumped[flow.host] = true;
        }
        let source = self.event_queue.add();
        let adversary = Adversary::new(flow.adversary, address, back_streams);
        self.adversaries.push(AttachedAdversary { adversary, out: back, source, flow: number });
        self.event_queue.no_later(self.host_sources[flow.host], flow.at);
        number
    }

    /// How often all adversaries together broke the protocol.
    pub fn misbehaviours(&self) -> u64 {
        self.adversaries.iter().map(|attached| attached.adversary.misbehaved).sum()
    }

    /// Deliver a frame to an adversary, and send its answers.
    pub(crate) fn deliver_to_adversary(
        &mut self,
        lane: usize,
        to: usize,
        frame: Mbuf,
    ) -> Result<(), Violation> {
        if let Some(trace) = &self.trace {
            let what = seen::describe(frame.as_slice(), KIND);
            trace.row(&format!("adversary {to} < link {lane}: {what}"));
        }
        let is_whole = frame.mark() != CORRUPTED || seen::verifies(frame.as_slice(), KIND);
        let seen = seen::segment(frame.as_slice(), KIND).filter(|_| is_whole);
        let mut answers = Vec::new();
        let mut outcome = Ok(());
        if let Some(seen) = seen {
            let payload = frame.as_slice();
            let payload = &payload[payload.len() - seen.len as usize..];
            let adversary = &mut self.adversaries[to].adversary;
            outcome = adversary.take(&seen, payload, &self.pattern, self.now, &mut answers);
        }
        self.pool.free(frame);
        self.send_for_adversary(to, &answers);
        outcome
    }

    /// Let an adversary act when its timer has expired.
    pub(crate) fn wake_adversary(&mut self, adversary: usize) {
        let mut said = Vec::new();
        self.adversaries[adversary].adversary.tick(&self.pattern, self.now, &mut said);
        self.send_for_adversary(adversary, &said);
    }

    fn send_for_adversary(&mut self, number: usize, packets: &[Vec<u8>]) {
        let out = self.adversaries[number].out;
        for packet in packets {
            if let Some(oracles) = &mut self.oracles
                && let Some(seen) = seen::segment(packet, KIND)
            {
                oracles.reported(&seen);
            }
            if let Some(trace) = &self.trace {
                let what = seen::describe(packet, KIND);
                trace.row(&format!("adversary {number} > link {out}: {what}"));
            }
            if let Some(frame) = self.pool.copy_of(packet) {
                self.enter(out, frame);
            }
        }
        let AttachedAdversary { adversary, source, .. } = &self.adversaries[number];
        self.event_queue.set(*source, adversary.wake);
    }

    /// Update the placeholders from their adversaries. If a connection survives the misbehaviour,
    /// it must have delivered every byte.
    pub(crate) fn check_adversaries(&mut self) -> Result<(), Violation> {
        let World { adversaries, flows, ends, event_queue, .. } = self;
        for AttachedAdversary { adversary, source, flow, .. } in adversaries {
            let Flow { client, server, number, .. } = flows[*flow];
            if ends[server].is_ended() {
                continue;
            }
            // The connection may have lost bytes, so the law about bytes does not apply to it.
            let is_survived = adversary.settings.misbehaviour.is_survived();
            ends[server].read = if is_survived { adversary.received() } else { 0 };
            ends[server].written = adversary.bytes();
            if ends[server].phase == Phase::Waiting && adversary.wake != Instant::NEVER {
                ends[server].phase = Phase::Open;
            }
            if !ends[client].is_ended() {
                continue;
            }
            ends[server].phase = Phase::Ended(None);
            adversary.is_gone = true;
            event_queue.set(*source, Instant::NEVER);
            let (client, server) = (&ends[client], &ends[server]);
            let is_whole = client.phase == Phase::Ended(None)
                && client.read == server.written
                && server.read == client.written;
            if is_survived && client.script.is_graceful() && !is_whole {
                let (misbehaviour, to) = (adversary.settings.misbehaviour, story(server));
                let what =
                    format!("flow {number} to {misbehaviour:?} failed; {}; {to}", story(client));
                return Err(Violation::new("stream", what));
            }
        }
        Ok(())
    }
}
