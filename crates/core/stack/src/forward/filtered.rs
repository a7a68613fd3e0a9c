//! Looking at a burst while there are rules: packets of known flows are passed and their translated
//! destinations noted, each step for the whole burst.
//!
//! Called by: `burst.rs`, instead of `look.rs`'s own way. Packets that begin a flow, and all that
//! is unusual, are refused and take the long way (`plain.rs`, `firewall.rs`), which does the same
//! one by one. A packet that is passed here and goes the long way for another reason is not judged
//! again.
//! docs/decisions/0134.

use arrayvec::ArrayVec;
use base::{Instant, MacAddr};
use device::{BURST, Burst};
use filter::Firewall;
use filter::firewall::{Flow, Guess, Tally};
use inet::forward::{plain_v4, plain_v6};
use inet::route::{View, flow_v4, flow_v6};
use mbuf::Flags;

use super::Locals;
use super::look::{FIRST_V6, REFUSED, Seen, Seens, framed};

/// The flows of the frames of a burst that the firewall has passed.
pub(super) type Passed = ArrayVec<Option<Flow>, BURST>;

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
    ) -> Passed {
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
        let (mut flows, mut tally) = ([None; BURST], Tally::default());
        // Behind a packet that takes the long way those of its flow take it too, so that tracking
        // sees them in order.
        let mut refused: u64 = 0;
        let found = hashes.into_iter().zip(guesses).zip(&mut flows);
        for (m, (at, passed)) in frames.iter().zip(found) {
            let packet = m.as_slice().get(AT..).unwrap_or_default();
            let (hash, _) = at;
            let found = match packet.first() {
                _ if hash == 0 || refused >> (hash & 63) & 1 != 0 => None,
                Some(first) if first >> 4 == 6 => {
                    self.filtered_v6(packet, at, firewall, context, &mut tally)
                }
                _ => self.filtered_v4(packet, at, firewall, context, &mut tally),
            };
            if found.is_none() {
                refused |= u64::from(hash != 0) << (hash & 63);
            }
            self.frames.push(found.map_or(REFUSED, |(seen, _)| seen));
            *passed = found.map(|(_, flow)| flow);
        }
        firewall.settle(&mut tally, context.now);
        let mut passed = Passed::from(flows);
        passed.truncate(frames.len());
        passed
    }

    #[inline(always)]
    fn filtered_v4(
        &mut self,
        packet: &[u8],
        at: (u64, Guess),
        firewall: &mut Firewall,
        context: &Context<'_, '_>,
        tally: &mut Tally,
    ) -> Option<(Seen, Flow)> {
        let ip = plain_v4(packet)?;
        let len = u16::try_from(ip.len).ok()?;
        if ip.src == ip.dst || context.locals.has_v4(ip.src) {
            return None;
        }
        let mut dst = ip.dst;
        let flow = firewall.pass_v4(packet, at, (len, context.now), tally, |leaves_to| {
            dst = leaves_to;
            !context.locals.has_v4(dst)
        })?;
        let chosen = flow_v4(ip.src, ip.dst);
        let number = self.v4.number_filtered((ip.src, dst), chosen, context.keeps_sources, |dst| {
            context.view.prefetch_v4(dst);
        });
        Some((Seen { number: number as u8, len }, flow))
    }

    #[inline(always)]
    fn filtered_v6(
        &mut self,
        packet: &[u8],
        at: (u64, Guess),
        firewall: &mut Firewall,
        context: &Context<'_, '_>,
        tally: &mut Tally,
    ) -> Option<(Seen, Flow)> {
        let ip = plain_v6(packet)?;
        let len = u16::try_from(ip.len).ok()?;
        if ip.src == ip.dst || context.locals.has_v6(ip.src) {
            return None;
        }
        let mut dst = ip.dst;
        let flow = firewall.pass_v6(packet, at, (len, context.now), tally, |leaves_to| {
            dst = leaves_to;
            !context.locals.has_v6(dst)
        })?;
        let chosen = flow_v6(ip.src, ip.dst);
        let number = self.v6.number_filtered((ip.src, dst), chosen, context.keeps_sources, |dst| {
            context.view.prefetch_v6(dst);
        });
        Some((Seen { number: (FIRST_V6 + number) as u8, len }, flow))
    }
}
