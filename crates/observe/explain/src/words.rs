//! The sentence for a verdict, and advice.
//!
//! Called by: every tool that shows verdicts.

use crate::limit::Limit;
use crate::look::Look;
use crate::units::{bits, ms};
use crate::verdict::{LOOKS_LEAST, Verdict};

/// The answer in a sentence, and advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The answer.
    pub answer: String,
    /// The advice, if there is any.
    pub advice: Option<String>,
}

impl Words {
    /// The words for a verdict.
    pub fn of(v: &Verdict) -> Words {
        let Some(limit) = v.limit else { return unknown(v) };
        let (answer, advice) = match limit {
            Limit::NotConnected
            | Limit::LinkDown
            | Limit::DeadPath
            | Limit::PathMtu
            | Limit::Idle => of_standstill(limit, v),
            Limit::Application | Limit::Nagle | Limit::SendBuffer | Limit::Processor => {
                of_our_end(limit, v)
            }
            Limit::Device => of_device(v),
            Limit::PeerReader | Limit::ReceiveWindow | Limit::SillyWindow => of_window(limit, v),
            Limit::OurReader | Limit::ReceiveBuffer | Limit::Path | Limit::Peer => {
                of_receiver(limit, v)
            }
            _ => of_path(limit, v),
        };
        Words { answer, advice: (!advice.is_empty()).then_some(advice) }
    }
}

fn unknown(v: &Verdict) -> Words {
    if v.looks < LOOKS_LEAST {
        let answer = format!("cannot tell: only {} looks", v.looks);
        return Words { answer, advice: Some("a longer --seconds".to_owned()) };
    }
    Words {
        answer: "cannot tell: limits take turns, and none holds for half of the time".to_owned(),
        advice: Some("explain it for longer, or at the other end".to_owned()),
    }
}

fn of_standstill(limit: Limit, v: &Verdict) -> (String, String) {
    let silent = format!("{:.1} s", v.silent_us as f64 / 1e6);
    let (answer, advice) = match limit {
        Limit::NotConnected => (
            "not connected yet: the peer has not answered".to_owned(),
            "see with ping whether the peer is there, and with nc whether it listens",
        ),
        Limit::LinkDown => (
            "stopped: the link of our port is down".to_owned(),
            "look at the cable or the interface that the port is on",
        ),
        Limit::DeadPath => (
            format!(
                "stopped: the path is dead: nothing came from the peer for {silent} or more, and \
                 there were {} time-outs in a row",
                v.last.retries.max(v.last.probes)
            ),
            "see with ping whether the peer is there; the connection retries automatically",
        ),
        Limit::PathMtu => (
            format!(
                "stopped for a while: the path drops segments of more than {} bytes, and no router \
                 reports it (a black hole of path MTU discovery); smaller segments arrive",
                v.last.mss
            ),
            "a route with mtu, or a router that sends ICMP \"packet too big\"",
        ),
        _ => ("idle: no data moved, and none waits to be sent or read at this end".to_owned(), ""),
    };
    (answer, advice.to_owned())
}

fn of_our_end(limit: Limit, v: &Verdict) -> (String, String) {
    let u = &v.usual;
    match limit {
        Limit::Nagle => (
            format!(
                "limited by Nagle's algorithm: a short write waits until the peer acknowledges the \
                 previous one, which takes {} ms, while the path takes {} ms",
                ms(u.rtt_us),
                ms(u.min_rtt_us)
            ),
            "write each request in one call, or set TCP_NODELAY".to_owned(),
        ),
        Limit::SendBuffer => (
            format!(
                "limited by the send buffer: all its {} bytes are in flight, and the program waits",
                u.send_buffer
            ),
            "a larger send buffer (SO_SNDBUF; -b of ttcp), or one of no fixed size".to_owned(),
        ),
        Limit::Processor => (
            format!(
                "limited by the processor: the stack's thread uses {:.0} % of a core",
                v.cpu.unwrap_or(1.0) * 100.0
            ),
            "see where the time goes, with `wirespeed lab budget`; more shards".to_owned(),
        ),
        _ => (
            "limited by the application: it writes less than could be sent".to_owned(),
            "look at the program that writes".to_owned(),
        ),
    }
}

fn of_device(v: &Verdict) -> (String, String) {
    if v.pushed_back > 0 {
        let answer = format!(
            "limited by the device: it was full {} times, and windows and pacing have room",
            v.pushed_back
        );
        return (answer, "a faster device or link".to_owned());
    }
    let answer = "limited by the link or the processor: windows and pacing have room, but data \
                  waits to be sent";
    (answer.to_owned(), "see with top(1) what the processor does".to_owned())
}

fn of_window(limit: Limit, v: &Verdict) -> (String, String) {
    let (u, (least, most)) = (&v.usual, v.window);
    let larger = "a larger receive buffer at the peer's end (SO_RCVBUF; -b of ttcp)".to_owned();
    match limit {
        Limit::PeerReader if most == 0 => (
            "stopped by the receive window: the peer's program does not read, and its window is \
             closed"
                .to_owned(),
            "look at the program that reads at the peer's end".to_owned(),
        ),
        Limit::PeerReader => (
            format!(
                "limited by the receive window: the peer's program reads more slowly than data \
                 arrives (the window went down to {least} of {most} bytes)"
            ),
            "look at the program that reads at the peer's end".to_owned(),
        ),
        Limit::SillyWindow => (
            format!(
                "limited by the receive window: the peer offers {most} bytes at most, less than \
                 two segments of {}",
                u.mss_most.max(u.mss)
            ),
            larger,
        ),
        _ => (
            format!(
                "limited by the receive window: the peer's window is {} bytes{}",
                u.snd_wnd,
                at_most(u.snd_wnd, u)
            ),
            larger,
        ),
    }
}

/// The rate that a window allows at this round trip, as a part of a sentence.
fn at_most(window: u64, u: &Look) -> String {
    match u.rtt_us {
        0 => String::new(),
        us => format!(", at most {} by this RTT", bits(window as f64 * 1e6 / us as f64)),
    }
}

fn of_receiver(limit: Limit, v: &Verdict) -> (String, String) {
    let u = &v.usual;
    let (answer, advice) = match limit {
        Limit::OurReader => (
            "limited by the receive window: the program at this end reads more slowly than data \
             arrives"
                .to_owned(),
            "look at the program that reads",
        ),
        Limit::ReceiveBuffer => (
            format!(
                "limited by our receive buffer: the peer fills its {} bytes once a round trip{}",
                u.receive_buffer,
                at_most(u.rcv_wnd, u)
            ),
            "a larger receive buffer at this end (SO_RCVBUF; -b of ttcp), or one of no fixed size",
        ),
        Limit::Path => (
            "limited by the path: received data has gaps, so the path loses or reorders packets"
                .to_owned(),
            "explain the connection at the peer's end",
        ),
        _ => (
            "limited by the peer or the path: our window has room, and no more comes".to_owned(),
            "explain the connection at the peer's end",
        ),
    };
    (answer, advice.to_owned())
}

fn of_path(limit: Limit, v: &Verdict) -> (String, String) {
    let (u, rate) = (&v.usual, bits(v.bytes_per_s()));
    let queue = ms(u.rtt_us.saturating_sub(u.min_rtt_us));
    let control = &u.control;
    match limit {
        Limit::Loss => (
            format!(
                "limited by loss: the path loses packets without a queue ({} segments sent again), \
                 and {control} takes each loss for congestion; its window is {} bytes",
                v.retransmits, u.cwnd
            ),
            "a path that loses less, or a congestion control that tolerates loss: --cc bbr \
             (TCP_CONGESTION)"
                .to_owned(),
        ),
        Limit::Policer => (
            format!(
                "limited by a policer: at about {rate} the path drops segments in bursts, without \
                 a queue ({} segments sent again)",
                v.retransmits
            ),
            "a higher rate at the policer, or one that queues; --cc bbr paces below it".to_owned(),
        ),
        Limit::Reordering => (
            "limited by reordering: packets overtake each other, and late packets were taken for \
             lost"
                .to_owned(),
            "a path that keeps the order of a flow (one hash for a flow, no spraying)".to_owned(),
        ),
        Limit::Queue => (
            format!(
                "limited by the path: its slowest link is full, at {rate}, and {queue} ms of the \
                 RTT of {} ms are spent in its queue (bufferbloat)",
                ms(u.rtt_us)
            ),
            "a shorter or managed queue there (fq_codel), or --cc bbr".to_owned(),
        ),
        Limit::LinkRate => (
            format!(
                "limited by the path: its slowest link is full, at {rate}; {queue} ms of the RTT \
                 are spent in its queue"
            ),
            "a path with more capacity".to_owned(),
        ),
        Limit::Pacing => (
            format!(
                "limited by pacing: {control} sends at {}, its estimate of the path's rate",
                bits(u.pacing_bytes_per_s.unwrap_or(0) as f64)
            ),
            "a faster path, or another congestion control".to_owned(),
        ),
        _ => (
            format!(
                "limited by the congestion window: {control} allows {} bytes in flight; the window \
                 still grows, and nothing was lost",
                u.cwnd
            ),
            "time for the window to grow".to_owned(),
        ),
    }
}
