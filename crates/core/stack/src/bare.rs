//! Segments of connections that have no Tcb: resets, answers from TIME-WAIT, and SYN-ACKs with
//! cookies.
//!
//! Called by: `rx.rs`, `no_connection.rs`, `socket/forward.rs`, `socket/cookies.rs`.
//! RFC 9293 section 3.10.7. Limit: `resets_per_second`; counter: `tcp_resets_out`.

use core::net::SocketAddr;

use base::{Counter, DropReason, Limit, Owner, SeqNumber};
use inet::Selector;
use tcp::Segment;
use wire::checksum::Sum;
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{protocol, tcp as wire_tcp};

use crate::config::IpSettings;
use crate::connections::TimeWaitEntry;
use crate::resolve;
use crate::resolving::Egress;
use crate::stack::Stack;

/// Send a RST for a segment of no connection (RFC 9293 section 3.10.7.1), within the rate limit.
/// The segment's drop reason does not depend on the limit; a RST that is not sent counts as a hit
/// of the limit. The RST is routed like the packets of `whose`.
pub(crate) fn reset(
    stack: &mut Stack,
    (local, remote): (SocketAddr, SocketAddr),
    seg: &Segment,
    whose: (&Owner, Selector),
) {
    let core = &mut stack.core;
    if !stack.resets.admits(Limit::ResetsPerSecond, core.cx.now, &mut core.cx.budget) {
        return;
    }
    let (seq, ack, flags) = if seg.flags.contains(Flags::ACK) {
        (seg.ack, SeqNumber(0), Flags::RST)
    } else {
        (SeqNumber(0), seg.end(), Flags::RST | Flags::ACK)
    };
    stack.core.cx.counters.add(Counter::TcpResetsOut, 1);
    let bare = Bare { seq, ack, flags, window: 0, options: Options::default() };
    segment(stack, (local, remote), &bare, whose);
}

/// Send an ACK from TIME-WAIT in answer to `seg`, within the record's limit.
pub(crate) fn answer_time_wait(stack: &mut Stack, entry: &TimeWaitEntry, seg: &Segment) {
    let core = &mut stack.core;
    let kept = stack.connections.time_wait_mut(&entry.key, &core.secret);
    if !kept.is_some_and(|record| record.answer(seg, core.cx.now, &mut core.cx.budget)) {
        return;
    }
    let record = &entry.record;
    let timestamps = record.timestamps.then(|| Timestamps {
        value: stack.core.cx.now_ms.wrapping_add(record.ts_offset),
        echo: record.ts_recent,
    });
    let bare = Bare {
        seq: record.snd_nxt,
        ack: record.rcv_nxt,
        flags: Flags::ACK,
        window: record.window,
        options: Options { timestamps, ..Options::default() },
    };
    let program = (Owner::program(), Selector::default());
    let (owner, by) = entry.sender.as_deref().unwrap_or(&program);
    segment(stack, (entry.key.local(), entry.key.remote()), &bare, (owner, *by));
}

/// A segment without data, for a connection that has no Tcb.
pub(crate) struct Bare {
    pub(crate) seq: SeqNumber,
    pub(crate) ack: SeqNumber,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) options: Options,
}

/// Send a segment of a connection that has no Tcb.
fn segment(
    stack: &mut Stack,
    (local, remote): (SocketAddr, SocketAddr),
    bare: &Bare,
    (owner, by): (&Owner, Selector),
) {
    let egress = resolve::route(stack, local, remote, protocol::TCP, owner, IpSettings::by(by));
    let sent = egress.and_then(|egress| segment_over(stack, &egress, (local, remote), bare));
    if let Err(reason) = sent {
        stack.core.drops.count(reason);
    }
}

/// Like `segment`, but the caller has found the egress.
///
/// # Errors
/// The named reason: no buffer, or the error of the egress.
pub(crate) fn segment_over(
    stack: &mut Stack,
    egress: &Egress,
    (local, remote): (SocketAddr, SocketAddr),
    bare: &Bare,
) -> Result<(), DropReason> {
    let mut m = stack.core.cx.pool.alloc(0).ok_or(DropReason::MbufExhausted)?;
    let mut area = [0; 40];
    let options_len = bare.options.emit(&mut area);
    let header_len = wire_tcp::HEADER_LEN + options_len;
    let buf = m.prepend(header_len).ok_or(DropReason::IpTooBig)?;
    let Bare { seq, ack, flags, window, .. } = *bare;
    let header = Header {
        src_port: local.port(),
        dst_port: remote.port(),
        seq,
        ack,
        header_len,
        flags,
        window,
        urgent: 0,
    };
    header.emit(buf);
    buf[wire_tcp::HEADER_LEN..].copy_from_slice(&area[..options_len]);
    let pseudo = inet::ip_input::pseudo_sum(local.ip(), remote.ip(), protocol::TCP)
        .plus(Sum::of_be16(header_len as u16));
    let field = pseudo.plus(stack.core.cx.ladder.sum(buf)).field();
    wire_tcp::set_checksum(buf, field);
    resolve::send(stack, egress, m)
}
