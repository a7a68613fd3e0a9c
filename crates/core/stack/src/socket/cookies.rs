//! A listener without room answers a SYN with a cookie and keeps no state. The ACK that returns the
//! cookie then creates the connection.
//!
//! Called by: `no_connection.rs` at a limit, and for an ACK to a listener. `tcp::cookie` defines a
//! cookie, and what it can hold. RFC 4987 section 3.6. Counters: `tcp_cookies_sent`,
//! `tcp_cookies_accepted`, `tcp_cookies_late`, `tcp_cookies_refused`.

use core::net::SocketAddr;

use base::{Counter, DropReason, Duration, IpVersion, Mss, Switch, WindowScale};
use inet::{FlowKey, Vrf};
use tcp::{Fate, Segment, cookie};
use wire::tcp::{Flags, Options};

use crate::bare::{self, Bare};
use crate::config::IpSettings;
use crate::handles::{ListenerHandle, TcpHandle};
use crate::resolve;
use crate::socket::listener::{Iss, Syn};
use crate::socket::passive;
use crate::stack::Stack;

/// The largest window field of a SYN, which is not scaled.
const WINDOW_MAX: u32 = 65_535;

/// The hash of a flow to a listener, in the listener's VRF.
fn flow(stack: &Stack, listener: ListenerHandle, (local, remote): (SocketAddr, SocketAddr)) -> u64 {
    let vrf = stack.listeners.get(listener).map_or(Vrf::NONE, |listener| listener.ip.vrf);
    let key = FlowKey::new(local.ip(), local.port(), remote.ip(), remote.port());
    key.within(vrf).hash(&stack.core.secret)
}

/// Answer a SYN with a cookie, and forget the SYN. While SYNs come faster than they can be
/// answered, only SYNs that come for the second time are answered (`half_open.rs`).
pub(crate) fn offer_in_time(stack: &mut Stack, syn: &Syn) -> Fate {
    if stack.is_overrun && stack.core.cx.switches.on(Switch::RepeatedSyns) {
        let hash = flow(stack, syn.listener, (syn.local, syn.remote))
            .wrapping_add(u64::from(syn.seg.seq.0));
        if !stack.repeated.came_before(hash, stack.core.cx.now) {
            return Err(DropReason::TcpSynOnce);
        }
    }
    offer(stack, syn)
}

fn offer(stack: &mut Stack, syn: &Syn) -> Fate {
    let Syn { local, remote, seg, options, .. } = syn;
    let version = IpVersion::of(&remote.ip());
    let listener = stack.listeners.get(syn.listener).ok_or(DropReason::TcpNoSocket)?;
    let (owner, ip) = (listener.owner.clone(), IpSettings::by(listener.ip.selector()));
    let egress = resolve::route(stack, *local, *remote, wire::protocol::TCP, &owner, ip)?;
    let port = stack.ports.get(egress.port).ok_or(DropReason::TxNoPort)?;
    let advertised = port.mss(version);
    let Some(listener) = stack.listeners.get_mut(syn.listener) else {
        return Err(DropReason::TcpNoSocket);
    };
    let config = listener.config.clone();
    let flow = flow(stack, syn.listener, (*local, *remote));
    let core = &mut stack.core;
    let default_mss = match version {
        IpVersion::V4 => Mss::DEFAULT_V4,
        IpVersion::V6 => Mss::DEFAULT_V6,
    };
    let theirs = options.mss.map_or(default_mss, Mss);
    let seq = cookie::sequence_number(&core.secret, flow, seg.seq, theirs, core.cx.now);
    let clock = core.cx.now_ms.wrapping_add((flow >> 32) as u32);
    let timestamps = cookie::timestamps(clock, options, &config);
    // Options that the cookie cannot hold are not agreed to. Window scale and SACK are held in the
    // timestamp.
    let kept = timestamps.is_some();
    let most = config.receive_buffer_bytes.max(config.receive_buffer_max_bytes) as usize;
    let scaled = kept && config.window_scaling && options.window_scale.is_some();
    let said = Options {
        mss: Some(advertised.0),
        window_scale: scaled.then(|| WindowScale::for_window(most)),
        sack_permitted: kept && config.sack && options.sack_permitted,
        timestamps,
        ..Options::default()
    };
    core.cx.counters.add(Counter::TcpCookiesSent, 1);
    stack.cookies_until = core.cx.now + Duration::from_secs(cookie::LIFE_SECONDS);
    let window = config.receive_buffer_bytes.min(WINDOW_MAX) as u16;
    let flags = Flags::SYN | Flags::ACK;
    let answer = Bare { seq, ack: seg.seq + 1, flags, window, options: said };
    bare::segment_over(stack, &egress, (*local, *remote), &answer)
}

/// If the ACK `seg` to a listener returns a cookie of ours, create its connection, in SYN-RECEIVED
/// with its SYN-ACK sent; the caller then processes the segment. `Ok(None)` if there is no valid
/// cookie.
pub(crate) fn redeem(
    stack: &mut Stack,
    listener: ListenerHandle,
    (local, remote): (SocketAddr, SocketAddr),
    seg: &Segment,
) -> Result<Option<TcpHandle>, DropReason> {
    let now = stack.core.cx.now;
    if now >= stack.cookies_until || seg.flags.contains(Flags::SYN) {
        return Ok(None);
    }
    let flow = flow(stack, listener, (local, remote));
    let Some(options) = cookie::check(&stack.core.secret, flow, seg, now) else {
        stack.core.cx.counters.add(Counter::TcpCookiesRefused, 1);
        return Ok(None);
    };
    let Some(there) = stack.listeners.get(listener) else { return Ok(None) };
    // Cookies are accepted up to twice the backlog: more cookies may be on the way than there was
    // room for.
    if there.accepted.len() >= 2 * there.backlog {
        // The connection is not refused: the peer's next segment may find room.
        stack.core.cx.counters.add(Counter::TcpCookiesLate, 1);
        return Err(DropReason::TcpBacklogFull);
    }
    let asked = Segment { seq: seg.seq - 1, len: 0, flags: Flags::SYN, ..*seg };
    let iss = Iss::Said(seg.ack - 1);
    let syn = Syn { listener, local, remote, seg: asked, options, iss };
    let handle = passive::complete_open(stack, &syn)?;
    if let Some(pcb) = stack.connections.get_mut(handle) {
        pcb.tcb.syn_was_answered();
    }
    stack.core.cx.counters.add(Counter::TcpCookiesAccepted, 1);
    Ok(Some(handle))
}
