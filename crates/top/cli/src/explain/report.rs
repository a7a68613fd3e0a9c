//! Output of `explain`: the sentence, what helps, and the figures that they rest on.
//!
//! Called by: `explain.rs`.

use std::fmt::Write as _;

use anyhow::Result;
use explain::{Leg, Legs, Limit, Verdict, Words, bits, ms};
use serde_json::{Map, Value, json};

use super::run::Explained;

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
    let ours = Words::of(v);
    let Words { answer, advice } = one.legs.as_ref().map_or(&ours, |legs| &legs.words);
    writeln!(t, "{} - {}  {}  (stack {})", one.local, one.remote, v.last.state, one.stack)?;
    writeln!(t, "  {answer}")?;
    if let Some(advice) = advice {
        writeln!(t, "  what helps: {advice}")?;
    }
    let shares = v.shares.iter().map(|(held, s)| format!("{} {:.0} %", held.name(), s * 100.0));
    let shares: Vec<String> = shares.collect();
    writeln!(t, "  {} looks in {:.1} s: {}", v.looks, v.seconds, shares.join(", "))?;
    writeln!(t, "  {}", figures(v))?;
    if let Some(legs) = &one.legs {
        if legs.leg == Some(Leg::Host) {
            writeln!(t, "  the guest's leg: {}", ours.answer)?;
        }
        host(t, legs, v.seconds)?;
    }
    if one.has_ended {
        writeln!(t, "  it ended meanwhile")?;
    }
    Ok(())
}

/// The figures of the host's socket.
fn host(t: &mut String, legs: &Legs, seconds: f64) -> std::fmt::Result {
    let (o, grew) = (&legs.last, &legs.grew);
    let rate = |bytes: u64| bits(if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 });
    let share = |us: u64| format!("{:.0} %", us as f64 / (seconds * 1e4).max(1.0));
    let (sent, received) = (rate(grew.acked), rate(grew.received));
    writeln!(t, "  the host's leg: {} - {}  {}", o.local, o.remote, o.state)?;
    writeln!(
        t,
        "    sends {sent}, receives {received}; {} segments of cwnd {} in flight, {} bytes wait; \
         RTT {} ms, shortest {} ms; {} retransmitted",
        o.unacked,
        o.cwnd,
        o.unsent,
        ms(o.rtt_us),
        ms(o.min_rtt_us),
        grew.retransmits,
    )?;
    writeln!(
        t,
        "    busy {} of the time, the peer's window full {}, the send buffer full {}; receives {} \
         bytes a round trip; delivers {}",
        share(grew.busy_us),
        share(grew.window_us),
        share(grew.buffer_us),
        o.rcv_space,
        bits(o.delivery_bytes_per_s as f64),
    )
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

/// The document.
pub(super) fn json(all: &[Explained]) -> Result<String> {
    let row = |one: &Explained| {
        let (v, u) = (&one.verdict, &one.verdict.usual);
        let Words { answer, advice } = Words::of(v);
        let shares = v.shares.iter().map(|(held, share)| (held.name().to_owned(), json!(share)));
        json!({
            "stack": one.stack,
            "local": one.local,
            "remote": one.remote,
            "state": v.last.state,
            "sends": v.sends,
            "idle": v.limit == Some(Limit::Idle),
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
            "pushed_back": v.pushed_back,
            "cpu": v.cpu,
            "ended": one.has_ended,
            "leg": one.legs.as_ref().and_then(|legs| legs.leg).map(Leg::name),
            "leg_words": one.legs.as_ref().map(|legs| legs.words.answer.clone()),
            "outer": one.legs.as_ref().map(|legs| &legs.last),
        })
    };
    let document = json!({
        "tool": "explain",
        "version": env!("CARGO_PKG_VERSION"),
        "connections": all.iter().map(row).collect::<Value>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
