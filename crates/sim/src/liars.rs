//! Liars in a world: each at the end of a link of its own to a host, whose connection to it is
//! looked at as any other.
//!
//! Called by: `scenario`, tests, `events`. Must not know: what the lies are.
//! In the list of ends a liar has a stand-in, whose figures are the liar's: so all laws that look
//! at connections look at these too. What they ask in addition is in [`World::judge_liars`].

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use base::{Instant, LinkKind};
use link::{CORRUPTED, Settings};
use mbuf::Mbuf;

use crate::app::{Endpoint, Finish, Opening, Phase, Script};
use crate::host::PortSettings;
use crate::liar::{Liar, LiarSettings};
use crate::lies::Lie;
use crate::oracle::{Violation, story};
use crate::seen;
use crate::world::{Flow, Target, World};

/// What a liar's link is: bare IP, so that it need not know about neighbours.
const KIND: LinkKind = LinkKind::Ip;
/// The last part of its address, and its port.
const NUMBER: u8 = 250;
const PORT: u16 = 9;

/// A liar, its link, its connection.
pub(crate) struct Lying {
    pub(crate) liar: Liar,
    /// The direction that it sends into.
    out: usize,
    pub(crate) source: usize,
    flow: usize,
}

/// A connection to a liar.
pub struct LiarFlow {
    /// Who connects to it.
    pub host: usize,
    /// The number of the network between them, which nobody else is on.
    pub network: u8,
    /// The link to it, and from it.
    pub links: (Settings, Settings),
    /// The liar.
    pub liar: LiarSettings,
    /// Settings of the connection.
    pub config: tcp::Config,
    /// What its honest end does; [`Script::is_orderly`], or it proves little.
    pub script: Script,
    /// When it begins.
    pub at: Instant,
}

impl World {
    /// A host connects to a liar; the number of the flow.
    pub fn add_liar(&mut self, lies: LiarFlow) -> usize {
        let (number, liar) = (self.flows.len(), self.liars.len());
        let settings = |settings: Settings| Settings { link: KIND, ..settings };
        let there = self.add_lane(settings(lies.links.0), Target::Liar(liar));
        let port = self.hosts[lies.host].attachments.len();
        let back = Target::Host { host: lies.host, port };
        let back = self.add_lane(settings(lies.links.1), back);
        let port = PortSettings { link: KIND, ..PortSettings::default() };
        self.attach(lies.network, lies.host, &port, there, &[]);
        let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, lies.network, NUMBER), PORT);
        let streams = (2 * number as u64, 2 * number as u64 + 1);
        let opening = |at| Opening::Connect { to: SocketAddr::V4(address), at };
        let local = self.hosts[lies.host].clock.local(lies.at);
        let client = self.ends.len();
        self.ends.push(Endpoint::new(lies.host, opening(local), lies.config, lies.script, streams));
        let nothing = Script { writes: vec![], reads: vec![], finish: Finish::Close };
        let never = opening(Instant::NEVER);
        let back_streams = (streams.1, streams.0);
        let stand_in = Endpoint::new(lies.host, never, lies.config, nothing, back_streams);
        self.ends.push(stand_in);
        self.host_ends[lies.host].push(client);
        self.flows.push(Flow { number, client, server: client + 1, is_orderly: false });
        if lies.liar.lie == Lie::Timestamps {
            // Round trips are measured by what it echoes: none of them can be believed.
            self.clock_jumped[lies.host] = true;
        }
        let source = self.agenda.add();
        let liar = Liar::new(lies.liar, address, back_streams);
        self.liars.push(Lying { liar, out: back, source, flow: number });
        self.agenda.no_later(self.host_sources[lies.host], lies.at);
        number
    }

    /// Lies that were told in all.
    pub fn lies_told(&self) -> u64 {
        self.liars.iter().map(|lying| lying.liar.told).sum()
    }

    /// A frame has reached a liar.
    pub(crate) fn tell_liar(
        &mut self,
        lane: usize,
        to: usize,
        frame: Mbuf,
    ) -> Result<(), Violation> {
        if let Some(trace) = &self.trace {
            let what = seen::describe(frame.as_slice(), KIND);
            trace.row(&format!("liar {to} < link {lane}: {what}"));
        }
        let is_whole = frame.mark() != CORRUPTED || seen::verifies(frame.as_slice(), KIND);
        let seen = seen::segment(frame.as_slice(), KIND).filter(|_| is_whole);
        let mut answers = Vec::new();
        let mut outcome = Ok(());
        if let Some(seen) = seen {
            let payload = frame.as_slice();
            let payload = &payload[payload.len() - seen.len as usize..];
            let liar = &mut self.liars[to].liar;
            outcome = liar.take(&seen, payload, &self.pattern, self.now, &mut answers);
        }
        self.pool.free(frame);
        self.say_for_liar(to, &answers);
        outcome
    }

    /// A liar's time has come.
    pub(crate) fn wake_liar(&mut self, liar: usize) {
        let mut said = Vec::new();
        self.liars[liar].liar.tick(&self.pattern, self.now, &mut said);
        self.say_for_liar(liar, &said);
    }

    fn say_for_liar(&mut self, number: usize, packets: &[Vec<u8>]) {
        let out = self.liars[number].out;
        for packet in packets {
            if let Some(oracles) = &mut self.oracles
                && let Some(seen) = seen::segment(packet, KIND)
            {
                oracles.told(&seen);
            }
            if let Some(trace) = &self.trace {
                let what = seen::describe(packet, KIND);
                trace.row(&format!("liar {number} > link {out}: {what}"));
            }
            if let Some(frame) = self.pool.copy_of(packet) {
                self.enter(out, frame);
            }
        }
        let Lying { liar, source, .. } = &self.liars[number];
        self.agenda.set(*source, liar.wake);
    }

    /// The stand-ins show what their liars have; who survives a lie has to have every byte.
    pub(crate) fn judge_liars(&mut self) -> Result<(), Violation> {
        let World { liars, flows, ends, agenda, .. } = self;
        for Lying { liar, source, flow, .. } in liars {
            let Flow { client, server, number, .. } = flows[*flow];
            if ends[server].is_ended() {
                continue;
            }
            // What it may have lost it is not asked for.
            let is_survived = liar.settings.lie.is_survived();
            ends[server].read = if is_survived { liar.received() } else { 0 };
            ends[server].written = liar.bytes();
            if ends[server].phase == Phase::Waiting && liar.wake != Instant::NEVER {
                ends[server].phase = Phase::Open;
            }
            if !ends[client].is_ended() {
                continue;
            }
            ends[server].phase = Phase::Ended(None);
            liar.is_gone = true;
            agenda.set(*source, Instant::NEVER);
            let (client, server) = (&ends[client], &ends[server]);
            let is_whole = client.phase == Phase::Ended(None)
                && client.read == server.written
                && server.read == client.written;
            if is_survived && client.script.is_orderly() && !is_whole {
                let (lie, to) = (liar.settings.lie, story(server));
                let what = format!("flow {number} to {lie:?} failed; {}; {to}", story(client));
                return Err(Violation::new("stream", what));
            }
        }
        Ok(())
    }
}
