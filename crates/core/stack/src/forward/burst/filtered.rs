//! Looking at a burst while there are rules: packets of known flows are passed and their translated
//! destinations noted, each step for the whole burst.
//!
//! Called by: `burst.rs`, instead of `look.rs`'s own way. The firewall is asked about a plain
//! packet that does not pass at once after its destination was looked up (`begin.rs`). Unusual
//! packets are refused here and take the long way (`plain.rs`, `firewall.rs`), which does the
//! same one by one. A packet that passes here and takes the long way for another reason is not
//! judged again.
//! docs/decisions/0134.

use arrayvec::ArrayVec;
use base::{Instant, MacAddr};
use device::{BURST, Burst};
use filter::Firewall;
use filter::firewall::{Guess, Tally};
use inet::forward::{plain_v4, plain_v6};
use inet::route::{View, flow_v4, flow_v6};
use mbuf::Flags;

use super::begin::{Said, Verdicts};
use super::look::{FIRST_V6, REFUSED, Seen, Seens, framed};
use crate::forward::Locals;

/// The state of the router that looking at a burst needs.
pub(super) struct Context<'a, 'v> {
    pub(super) mac: MacAddr,
    pub(super) locals: &'a Locals,
    pub(super) view: &'a View<'v>,
    pub(super) now: Instant,
    /// Sources will be checked by the FIB.
    pub(super) keeps_sources: bool,
}

impl Seens {
    /// [`Seens::look`] for a router with rules.
    pub(super) fn look_filtered<const AT: usize>(
        &mut self,
        frames: &Burst,
        firewall: &mut Firewall,
        context: &Context<'_, '_>,
    ) -> Verdicts {
        // No plain packet has this hash but by chance, and then it takes the long way.
        let mut hashes = [0; BURST];
        for (m, hash) in frames.iter().zip(&mut hashes) {
            let asks_for_offloads = m.has(Flags::CSUM_PARTIAL) || m.segment_size() != 0;
            if m.is_exclusive()
                && !asks_for_offloads
                && let Some((is_v6, packet)) = framed::<AT>(m, context.mac)
            {
                let found = match is_v6 {
                    false => firewall.look::<false>(packet),
                    true => firewall.look::<true>(packet),
                };
                *hash = found.unwrap_or(0);
            }
        }
        let mut guesses = [Guess::NONE; BURST];
        for (&hash, guess) in hashes.iter().zip(&mut guesses).filter(|(hash, _)| **hash != 0) {
            *guess = firewall.fetch(hash);
        }
        let (mut said, mut tally) = ([Said::Nothing; BURST], Tally::default());
        // Tracking sees the packets of a flow in order: behind one that asks those of its flow ask,
        // and behind one that takes the long way they take it too. Flows begin in order: behind a
        // packet that takes the long way none asks.
        let (mut asked, mut refused, mut is_in_order) = (0_u64, 0_u64, true);
        let found = hashes.into_iter().zip(guesses).zip(&mut said);
        for (m, ((hash, guess), said)) in frames.iter().zip(found) {
            let packet = m.as_slice().get(AT..).unwrap_or_default();
            let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
            let bit = 1 << (hash & 63);
            let mut found = if guess == Guess::NONE || (asked | refused) & bit != 0 {
                None
            } else if is_v6 {
                self.filtered_v6(packet, guess, firewall, context, &mut tally)
            } else {
                self.filtered_v4(packet, guess, firewall, context, &mut tally)
            };
            if found.is_none() && hash != 0 && refused & bit == 0 && is_in_order {
                found = self.asking(packet, is_v6, context).map(|seen| (seen, Said::Asks));
                asked |= if found.is_some() { bit } else { 0 };
                firewall.fetch_beginning(packet);
            }
            if found.is_none() {
                refused |= if hash != 0 { bit } else { 0 };
                is_in_order = false;
            }
            self.frames.push(found.map_or(REFUSED, |(seen, _)| seen));
            *said = found.map_or(Said::Nothing, |(_, said)| said);
        }
        firewall.settle(&mut tally, context.now);
        let mut said = ArrayVec::from(said);
        said.truncate(frames.len());
        Verdicts { said, asks: asked != 0, ended: firewall.ended() }
    }

    /// A plain packet that does not pass at once: it has no state, or a state that other rules have
    /// judged: its destination is looked up, and then the firewall is asked.
    #[cold]
    #[inline(never)]
    fn asking(&mut self, packet: &[u8], is_v6: bool, context: &Context<'_, '_>) -> Option<Seen> {
        let keeps = context.keeps_sources;
        let (number, len) = if is_v6 {
            let ip = plain_v6(packet)?;
            let has = |addr| context.locals.has_v6(addr);
            if ip.src == ip.dst || has(ip.src) || has(ip.dst) {
                return None;
            }
            let (hash, fetch) = (flow_v6(ip.src, ip.dst), |dst| context.view.prefetch_v6(dst));
            (FIRST_V6 + self.v6.number_filtered((ip.src, ip.dst), hash, keeps, fetch), ip.len)
        } else {
            let ip = plain_v4(packet)?;
            let has = |addr| context.locals.has_v4(addr);
            if ip.src == ip.dst || has(ip.src) || has(ip.dst) {
                return None;
            }
            let (hash, fetch) = (flow_v4(ip.src, ip.dst), |dst| context.view.prefetch_v4(dst));
            (self.v4.number_filtered((ip.src, ip.dst), hash, keeps, fetch), ip.len)
        };
        Some(Seen { number: number as u8, len: u16::try_from(len).ok()? })
    }

    #[inline(always)]
    fn filtered_v4(
        &mut self,
        packet: &[u8],
        guess: Guess,
        firewall: &mut Firewall,
        context: &Context<'_, '_>,
        tally: &mut Tally,
    ) -> Option<(Seen, Said)> {
        let ip = plain_v4(packet)?;
        let len = u16::try_from(ip.len).ok()?;
        if ip.src == ip.dst || context.locals.has_v4(ip.src) {
            return None;
        }
        let mut dst = ip.dst;
        let flow = firewall.pass_v4(packet, guess, (len, context.now), tally, |leaves_to| {
            dst = leaves_to;
            !context.locals.has_v4(dst)
        })?;
        let chosen = flow_v4(ip.src, ip.dst);
        let number = self.v4.number_filtered((ip.src, dst), chosen, context.keeps_sources, |dst| {
            context.view.prefetch_v4(dst);
        });
        Some((Seen { number: number as u8, len }, Said::Passes(flow)))
    }

    #[inline(always)]
    fn filtered_v6(
        &mut self,
        packet: &[u8],
        guess: Guess,
        firewall: &mut Firewall,
        context: &Context<'_, '_>,
        tally: &mut Tally,
    ) -> Option<(Seen, Said)> {
        let ip = plain_v6(packet)?;
        let len = u16::try_from(ip.len).ok()?;
        if ip.src == ip.dst || context.locals.has_v6(ip.src) {
            return None;
        }
        let mut dst = ip.dst;
        let flow = firewall.pass_v6(packet, guess, (len, context.now), tally, |leaves_to| {
            dst = leaves_to;
            !context.locals.has_v6(dst)
        })?;
        let chosen = flow_v6(ip.src, ip.dst);
        let number = self.v6.number_filtered((ip.src, dst), chosen, context.keeps_sources, |dst| {
            context.view.prefetch_v6(dst);
        });
        Some((Seen { number: (FIRST_V6 + number) as u8, len }, Said::Passes(flow)))
    }
}
