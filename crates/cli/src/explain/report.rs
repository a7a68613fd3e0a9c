//! The words of `explain`: what limits a connection, by which figures, and what helps.
//!
//! Called by: `explain.rs`.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::look::{Limit, Look};
use super::run::Explained;
use super::verdict::{LOOKS_LEAST, Verdict};

/// A window that falls to this part of its largest is one that a slow reader closes.
const CLOSED: f64 = 0.25;

/// The answer in a sentence, and what helps.
struct Words {
    answer: String,
    advice: Option<String>,
}

/// For people: a block for each connection.
pub(super) fn text(all: &[Explained]) -> String {
    let mut t = String::new();
    for one in all {
        if !t.is_empty() {
            t.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = block(&mut t, one);
    }
    t
}

fn block(t: &mut String, one: &Explained) -> std::fmt::Result {
    let v = &one.verdict;
    let Words { answer, advice } = words(one);
    writeln!(t, "{} - {}  {}  (stack {})", one.local, one.remote, v.last.state, one.stack)?;
    writeln!(t, "  {answer}")?;
    if let Some(advice) = advice {
        writeln!(t, "  what helps: {advice}")?;
    }
    let shares = v.shares.iter().map(|(limit, s)| format!("{} {:.0} %", limit.name(), s * 100.0));
    let shares: Vec<String> = shares.collect();
    writeln!(t, "  {} looks in {:.1} s: {}", v.looks, v.seconds, shares.join(", "))?;
    writeln!(t, "  {}", figures(v))?;
    if one.has_ended {
        writeln!(t, "  it ended meanwhile")?;
    }
    Ok(())
}

/// The figures that the answer rests on, in a line.
fn figures(v: &Verdict) -> String {
    let (does, u) = (if v.sends { "sends" } else { "receives" }, &v.usual);
    let mut line = format!("{does} {}", bits(v.bytes_per_s()));
    let mut add = |text: String| {
        line.push_str("; ");
        line.push_str(&text);
    };
    if v.sends {
        add(format!("in flight {} of cwnd {} and window {}", u.in_flight, u.cwnd, u.snd_wnd));
        add(format!("{} bytes wait, send buffer {}", u.unsent, u.send_buffer));
        add(format!("RTT {} ms, shortest {} ms", ms(u.rtt_us), ms(u.min_rtt_us)));
        if let Some(rate) = u.pacing_bytes_per_s {
            add(format!("paced at {}", bits(rate as f64)));
        }
        add(format!("{} retransmitted, {} time-outs", v.retransmits, v.timeouts));
    } else {
        add(format!("our window {} of buffer {}", u.rcv_wnd, u.receive_buffer));
        add(format!("{} bytes wait to be read", u.unread));
    }
    line
}

fn words(one: &Explained) -> Words {
    let v = &one.verdict;
    if v.last.state == "SYN-SENT" || v.last.state == "SYN-RECEIVED" {
        let answer = "not connected yet: the peer has not answered".to_owned();
        return Words { answer, advice: None };
    }
    if v.is_idle {
        let answer = "idle: nothing moved, and nothing waits at either side of this end".to_owned();
        return Words { answer, advice: None };
    }
    if v.looks < LOOKS_LEAST {
        let answer = format!("cannot tell: only {} looks", v.looks);
        return Words { answer, advice: Some("a longer --seconds".to_owned()) };
    }
    match v.limit {
        Some(limit) => of_limit(limit, one),
        None => Words {
            answer: "cannot tell: no limit holds it for half of the time; they take turns"
                .to_owned(),
            advice: Some("look longer by --seconds 10, and at the other end".to_owned()),
        },
    }
}

fn of_limit(limit: Limit, one: &Explained) -> Words {
    let (v, u) = (&one.verdict, &one.verdict.usual);
    let (answer, advice) = match limit {
        Limit::Application => (
            "limited by the application: it gives less to send than could be sent".to_owned(),
            "look at the program that writes".to_owned(),
        ),
        Limit::SendBuffer => (
            format!(
                "limited by the send buffer: its {} bytes are all under way, and the program waits",
                u.send_buffer
            ),
            "a larger send buffer (SO_SNDBUF; -b of ttcp), or none that is fixed".to_owned(),
        ),
        Limit::ReceiveWindow => receive_window(v, u),
        Limit::CongestionWindow => congestion(v, u),
        Limit::Pacing => (
            format!(
                "limited by pacing: {} sends at {}, what it takes the path to carry",
                u.control,
                bits(u.pacing_bytes_per_s.unwrap_or(0) as f64)
            ),
            "a faster path, or another congestion control".to_owned(),
        ),
        Limit::Device if one.pushed_back > 0 => (
            format!(
                "limited by the device: it was full {} times, and windows and pacing have room",
                one.pushed_back
            ),
            "a faster device or link".to_owned(),
        ),
        Limit::Device => (
            "limited by the link or the processor: windows and pacing have room, and it waits for \
             its turn"
                .to_owned(),
            "see by top(1) whether the stack's thread has all of a core".to_owned(),
        ),
        Limit::OurReader => (
            "limited by the receive window: the program at this end reads more slowly than the \
             data comes"
                .to_owned(),
            "look at the program that reads".to_owned(),
        ),
        Limit::Peer => (
            "limited by the peer or the path: our window has room, and no more comes".to_owned(),
            "explain the connection at the peer's end".to_owned(),
        ),
    };
    Words { answer, advice: Some(advice) }
}

fn receive_window(v: &Verdict, u: &Look) -> (String, String) {
    let (least, most) = v.window;
    if (least as f64) <= CLOSED * most as f64 {
        let answer = format!(
            "limited by the receive window: the peer's program reads more slowly than the data \
             comes (its window went down to {least} of {most} bytes)"
        );
        return (answer, "look at the program that reads at the peer's end".to_owned());
    }
    let most_possible = match u.rtt_us {
        0 => String::new(),
        us => format!(", at most {} by this RTT", bits(u.snd_wnd as f64 * 1e6 / us as f64)),
    };
    let answer = format!(
        "limited by the receive window: the peer's window is {} bytes{most_possible}",
        u.snd_wnd
    );
    (answer, "a larger receive buffer at the peer's end (SO_RCVBUF; -b of ttcp)".to_owned())
}

fn congestion(v: &Verdict, u: &Look) -> (String, String) {
    let queue_us = u.rtt_us.saturating_sub(u.min_rtt_us);
    let mut answer = format!(
        "limited by the congestion window: {} takes the path to carry no more than {} bytes at a \
         time",
        u.control, u.cwnd
    );
    let path = bits(v.bytes_per_s());
    if v.repairing >= 0.5 || v.timeouts > 0 {
        let _ = write!(answer, "; it is repairing losses");
    } else if u.min_rtt_us > 0 && queue_us * 2 > u.min_rtt_us {
        let _ = write!(
            answer,
            "; {} ms of the RTT are spent in a queue: the slowest link of the path is full, at \
             {path}",
            ms(queue_us)
        );
    } else if v.retransmits == 0 {
        let _ = write!(answer, "; it grows, nothing was lost meanwhile");
    }
    let advice = match v.retransmits {
        0 => "a path with more capacity, or time for the window to grow",
        _ => "a path that loses less; see the losses by `wirespeed show tcp`",
    };
    (answer, advice.to_owned())
}

/// The document.
pub(super) fn json(all: &[Explained]) -> Result<String> {
    let row = |one: &Explained| {
        let (v, u) = (&one.verdict, &one.verdict.usual);
        let Words { answer, advice } = words(one);
        let shares = v.shares.iter().map(|(limit, share)| (limit.name().to_owned(), json!(share)));
        json!({
            "stack": one.stack,
            "local": one.local,
            "remote": one.remote,
            "state": v.last.state,
            "sends": v.sends,
            "idle": v.is_idle,
            "limit": v.limit.map(Limit::name),
            "words": answer,
            "advice": advice,
            "looks": v.looks,
            "seconds": v.seconds,
            "shares": shares.collect::<Map<String, Value>>(),
            "bytes_per_s": v.bytes_per_s(),
            "in_flight": u.in_flight,
            "cwnd_bytes": u.cwnd,
            "snd_wnd": u.snd_wnd,
            "rcv_wnd": u.rcv_wnd,
            "unsent": u.unsent,
            "unread": u.unread,
            "rtt_us": u.rtt_us,
            "min_rtt_us": u.min_rtt_us,
            "pacing_bytes_per_s": u.pacing_bytes_per_s,
            "retransmits": v.retransmits,
            "timeouts": v.timeouts,
            "pushed_back": one.pushed_back,
            "ended": one.has_ended,
        })
    };
    let document = json!({
        "tool": "explain",
        "version": env!("CARGO_PKG_VERSION"),
        "connections": all.iter().map(row).collect::<Value>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn ms(us: u64) -> String {
    format!("{:.3}", us as f64 / 1e3)
}

/// `9.41 Gb/s`, in powers of 1000.
fn bits(bytes_per_s: f64) -> String {
    match bytes_per_s * 8.0 {
        rate if rate >= 1e9 => format!("{:.2} Gb/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.2} Mb/s", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.2} kb/s", rate / 1e3),
        rate => format!("{rate:.0} b/s"),
    }
}
