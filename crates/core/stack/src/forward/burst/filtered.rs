//! Looking at a burst while there are rules: packets of known flows are passed and their translated
//! destinations noted, each step for the whole burst.
//!
//! Called by: `burst.rs`, instead of `look.rs`'s own way. The firewall is asked about a plain
//! packet that does not pass at once after its destination was looked up (`begin.rs`). Unusual
//! packets are refused here and take the long way (`plain.rs`, `firewall.rs`), which does the
//! same one by one. A packet that passes here and takes the long way for another reason is not
//! judged again.
//! docs/decisions/0134.

use core::net::{Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;
use base::{Instant, MacAddr};
use device::{BURST, Burst};
use filter::Firewall;
use filter::firewall::{Flow, Guess, Tally};
use inet::forward::{plain_v4, plain_v6};
use inet::route::{View, flow_v4, flow_v6};
use mbuf::Flags;
use wire::{ipv4, ipv6};

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

/// The first look at a frame.
#[derive(Clone, Copy)]
struct Looked<'a> {
    /// The packet without padding, if it is plain, not from an address of ours and not to itself;
    /// else empty.
    packet: &'a [u8],
    /// The hash of its flow; 0 if that needs a closer look. No other packet has this hash but by
    /// chance, and then it takes the long way.
    hash: u64,
    guess: Guess,
    is_v6: bool,
}

impl Looked<'_> {
    const UNUSUAL: Looked<'static> =
        Looked { packet: &[], hash: 0, guess: Guess::NONE, is_v6: false };

    /// One of 64 bits for the flow.
    #[inline(always)]
    fn bit(&self) -> u64 {
        1 << (self.hash & 63)
    }
}

/// Tracking sees the packets of a flow in order: behind one that asks those of its flow ask, and
/// behind one that takes the long way they take it too. Flows begin in order: behind a packet that
/// takes the long way none asks.
#[derive(Default)]
struct Order {
    /// A bit for the hash of each packet that did not pass at once.
    held: u64,
    /// Of these, the packets that take the long way.
    refused: u64,
    asks: bool,
    /// A packet takes the long way, perhaps one without a hash.
    is_broken: bool,
}

impl Seens {
    /// [`Seens::look`] for a router with rules.
    pub(super) fn look_filtered<const AT: usize>(
        &mut self,
        frames: &Burst,
        firewall: &mut Firewall,
        context: &Context<'_, '_>,
    ) -> Verdicts {
        let mut looked = [Looked::UNUSUAL; BURST];
        find::<AT>(frames, &mut looked, firewall, context);
        let (mut said, mut tally) = ([Said::Nothing; BURST], Tally::default());
        let mut order = Order::default();
        for (looked, said) in looked.iter().take(frames.len()).zip(&mut said) {
            let Looked { packet, guess, is_v6, .. } = *looked;
            let found = if guess == Guess::NONE || order.held & looked.bit() != 0 {
                None
            } else if is_v6 {
                self.filtered_v6(packet, guess, firewall, context, &mut tally)
            } else {
                self.filtered_v4(packet, guess, firewall, context, &mut tally)
            };
            let (seen, passes) = match found {
                Some((seen, flow)) => (seen, Said::Passes(flow)),
                None => self.other(looked, &mut order, firewall, context),
            };
            self.frames.push(seen);
            *said = passes;
        }
        firewall.settle(&mut tally, context.now);
        let mut said = ArrayVec::from(said);
        said.truncate(frames.len());
        Verdicts { said, asks: order.asks, ended: firewall.ended() }
    }

    /// A packet that does not pass at once: the firewall is asked when its destination is looked
    /// up, or it takes the long way.
    #[inline(never)]
    fn other(
        &mut self,
        looked: &Looked<'_>,
        order: &mut Order,
        firewall: &Firewall,
        context: &Context<'_, '_>,
    ) -> (Seen, Said) {
        let bit = if looked.hash == 0 { 0 } else { looked.bit() };
        let may_ask = bit != 0 && order.refused & bit == 0 && !order.is_broken;
        order.held |= bit;
        if may_ask {
            firewall.fetch_beginning(looked.packet);
            if let Some(seen) = self.asking(looked.packet, looked.is_v6, context) {
                order.asks = true;
                return (seen, Said::Asks);
            }
        }
        order.refused |= bit;
        order.is_broken = true;
        (REFUSED, Said::Nothing)
    }

    /// A plain packet that does not pass at once: it has no state, or a state that other rules have
    /// judged: its destination is looked up, and then the firewall is asked.
    #[inline(always)]
    fn asking(&mut self, packet: &[u8], is_v6: bool, context: &Context<'_, '_>) -> Option<Seen> {
        let keeps = context.keeps_sources;
        let number = if is_v6 {
            let (src, dst) = addresses_v6(packet)?;
            if context.locals.has_v6(dst) {
                return None;
            }
            let (hash, fetch) = (flow_v6(src, dst), |dst| context.view.prefetch_v6(dst));
            FIRST_V6 + self.v6.number_filtered((src, dst), hash, keeps, fetch)
        } else {
            let (src, dst) = addresses_v4(packet)?;
            if context.locals.has_v4(dst) {
                return None;
            }
            let (hash, fetch) = (flow_v4(src, dst), |dst| context.view.prefetch_v4(dst));
            self.v4.number_filtered((src, dst), hash, keeps, fetch)
        };
        Some(Seen { number: number as u8, len: packet.len() as u16 })
    }

    #[inline(always)]
    fn filtered_v4(
        &mut self,
        packet: &[u8],
        guess: Guess,
        firewall: &mut Firewall,
        context: &Context<'_, '_>,
        tally: &mut Tally,
    ) -> Option<(Seen, Flow)> {
        let (src, came_to) = addresses_v4(packet)?;
        let mut dst = came_to;
        let flow = firewall.pass_v4(packet, guess, context.now, tally, |leaves_to| {
            dst = leaves_to;
            !context.locals.has_v4(dst)
        })?;
        let chosen = flow_v4(src, came_to);
        let number = self.v4.number_filtered((src, dst), chosen, context.keeps_sources, |dst| {
            context.view.prefetch_v4(dst);
        });
        Some((Seen { number: number as u8, len: packet.len() as u16 }, flow))
    }

    /// Its own function, so that registers suffice.
    #[inline(never)]
    fn filtered_v6(
        &mut self,
        packet: &[u8],
        guess: Guess,
        firewall: &mut Firewall,
        context: &Context<'_, '_>,
        tally: &mut Tally,
    ) -> Option<(Seen, Flow)> {
        let (src, came_to) = addresses_v6(packet)?;
        let mut dst = came_to;
        let flow = firewall.pass_v6(packet, guess, context.now, tally, |leaves_to| {
            dst = leaves_to;
            !context.locals.has_v6(dst)
        })?;
        let chosen = flow_v6(src, came_to);
        let number = self.v6.number_filtered((src, dst), chosen, context.keeps_sources, |dst| {
            context.view.prefetch_v6(dst);
        });
        let number = (FIRST_V6 + number) as u8;
        Some((Seen { number, len: packet.len() as u16 }, flow))
    }
}

/// The first two steps for all frames of a burst: the headers are checked, and the flow is looked
/// up. Whether it passes is asked in the third step, when its memory is there.
#[inline(never)]
fn find<'a, const AT: usize>(
    frames: &'a Burst,
    looked: &mut [Looked<'a>; BURST],
    firewall: &Firewall,
    context: &Context<'_, '_>,
) {
    let mut places = [None; BURST];
    for ((m, looked), place) in frames.iter().zip(&mut *looked).zip(&mut places) {
        let asks_for_offloads = m.has(Flags::CSUM_PARTIAL) || m.segment_size() != 0;
        if m.is_exclusive()
            && !asks_for_offloads
            && let Some((is_v6, packet)) = framed::<AT>(m, context.mac)
        {
            let found = match is_v6 {
                false => firewall.look::<false>(packet),
                true => firewall.look::<true>(packet),
            };
            let Some((hash, at)) = found else { continue };
            let packet = match is_v6 {
                false => crossing_v4(packet, context.locals),
                true => crossing_v6(packet, context.locals),
            };
            let packet = packet.unwrap_or_default();
            *looked = Looked { packet, hash, guess: Guess::NONE, is_v6 };
            *place = Some(at);
        }
    }
    for (looked, place) in looked.iter_mut().zip(places).take(frames.len()) {
        if let Some(place) = place {
            looked.guess = firewall.fetch(looked.hash, place);
        }
    }
}

/// The packet without padding, if it is plain, not from an address of ours and not to itself.
#[inline(always)]
fn crossing_v4<'a>(packet: &'a [u8], locals: &Locals) -> Option<&'a [u8]> {
    let ip = plain_v4(packet)?;
    if ip.src == ip.dst || locals.has_v4(ip.src) {
        return None;
    }
    packet.get(..ip.len)
}

#[inline(always)]
fn crossing_v6<'a>(packet: &'a [u8], locals: &Locals) -> Option<&'a [u8]> {
    let ip = plain_v6(packet)?;
    if ip.src == ip.dst || locals.has_v6(ip.src) || ip.len > usize::from(u16::MAX) {
        return None;
    }
    packet.get(..ip.len)
}

/// Source and destination.
#[inline(always)]
fn addresses_v4(packet: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let b: &[u8; ipv4::HEADER_LEN] = packet.first_chunk()?;
    let addr = |at: usize| Ipv4Addr::new(b[at], b[at + 1], b[at + 2], b[at + 3]);
    Some((addr(12), addr(16)))
}

#[inline(always)]
fn addresses_v6(packet: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let b: &[u8; ipv6::HEADER_LEN] = packet.first_chunk()?;
    Some((Ipv6Addr::from(*b[8..].first_chunk()?), Ipv6Addr::from(*b[24..].first_chunk()?)))
}
