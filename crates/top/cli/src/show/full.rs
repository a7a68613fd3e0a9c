//! Connections in full, for people: the fields of `ss -ti`, in named groups.
//!
//! Called by: `show.rs`, and `top` for one connection.

use core::fmt::Display;
use std::fmt::Write as _;

use explain::bits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wirespeed::control::protocol::{Connection, Outer};

use super::report::plain;

/// A connection with what it moved between two looks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Full {
    #[serde(flatten)]
    pub(crate) connection: Connection,
    /// The rate of acknowledged bytes; `None`: the connection was gone.
    #[serde(default)]
    pub(crate) delivery_bytes_per_s: Option<u64>,
    /// The rate of received bytes.
    #[serde(default)]
    pub(crate) receiving_bytes_per_s: Option<u64>,
}

/// A block for each connection of each stack.
pub(super) fn text(document: &Value) -> String {
    let mut t = String::new();
    for stack in document["stacks"].as_array().into_iter().flatten() {
        for row in stack["connections"].as_array().into_iter().flatten() {
            let Ok(full) = Full::deserialize(row) else { continue };
            if !t.is_empty() {
                t.push('\n');
            }
            connection(&mut t, &plain(&stack["name"]), &full);
        }
    }
    t
}

/// The block of a connection.
pub(crate) fn connection(t: &mut String, stack: &str, full: &Full) {
    // Writing to a String cannot fail.
    let _ = block(t, stack, full).and_then(|()| amounts(t, &full.connection));
    let _ = timers(t, &full.connection);
    let _ = full.connection.outer.as_ref().map_or(Ok(()), |outer| beyond(t, outer));
}

/// A figure, or a dash if it is not known.
fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn block(t: &mut String, stack: &str, full: &Full) -> std::fmt::Result {
    let c = &full.connection;
    let ms = |us: u64| format!("{:.3}", us as f64 / 1e3);
    let rate = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| bits(bytes as f64));
    let on = |is_on: bool| if is_on { "on" } else { "off" };
    writeln!(t, "{} - {}  {}", c.local, c.remote, c.state)?;
    let port = if c.dev.is_empty() { c.port.to_string() } else { c.dev.clone() };
    let age_s = c.age_ms as f64 / 1e3;
    writeln!(t, "  owner     uid:{} stack:{stack} port:{port} age:{age_s:.1} s", c.uid)?;
    let (ours, theirs) = (known(c.wscale_snd), known(c.wscale_rcv));
    let (sack, timestamps, ecn) = (on(c.sack), on(c.timestamps), on(c.ecn));
    writeln!(
        t,
        "  agreed    wscale:{ours},{theirs} sack:{sack} timestamps:{timestamps} ecn:{ecn}"
    )?;
    let segments = (c.mss > 0).then(|| format!("{:.0}", c.cwnd_bytes as f64 / c.mss as f64));
    writeln!(
        t,
        "  control   {} cwnd:{} ({} segments) ssthresh:{} recovering:{} no_delay:{}",
        c.congestion_control,
        c.cwnd_bytes,
        known(segments),
        known(c.ssthresh_bytes),
        c.recovering,
        on(c.no_delay),
    )?;
    writeln!(
        t,
        "  time      rtt:{}/{} ms minrtt:{} ms rto:{} ms backoff:{}",
        ms(c.rtt_us),
        ms(c.rttvar_us),
        ms(c.min_rtt_us),
        ms(c.rto_us),
        c.backoff,
    )?;
    writeln!(
        t,
        "  rates     pacing_rate {} delivery_rate {} receiving {}",
        rate(c.pacing_bytes_per_s),
        rate(full.delivery_bytes_per_s),
        rate(full.receiving_bytes_per_s),
    )
}

/// Windows, bytes and segments.
fn amounts(t: &mut String, c: &Connection) -> std::fmt::Result {
    writeln!(
        t,
        "  windows   snd_wnd:{} rcv_wnd:{} send_buffer:{} receive_buffer:{}",
        c.snd_wnd, c.rcv_wnd, c.send_buffer_bytes, c.receive_buffer_bytes,
    )?;
    writeln!(
        t,
        "  bytes     bytes_acked:{} bytes_received:{} unacked:{} notsent:{} unread:{}",
        c.bytes_acked, c.bytes_received, c.in_flight, c.unsent, c.unread,
    )?;
    writeln!(
        t,
        "  segments  mss:{} rcvmss:{} advmss:{} segs_out:{} segs_in:{}",
        c.mss, c.rcv_mss, c.advmss, c.segments_out, c.segments_in,
    )?;
    writeln!(
        t,
        "  trouble   retrans:{} timeouts:{} recoveries:{} tail_probes:{} undone:{} dupacks:{} \
         reordered:{} ce_marks:{}",
        c.retransmits,
        c.timeouts,
        c.fast_recoveries,
        c.tail_probes,
        c.undone,
        c.duplicate_acks,
        c.out_of_order,
        c.ce_marks,
    )?;
    writeln!(
        t,
        "  now       sacked:{} lost:{} resent:{} bytes",
        c.sacked_bytes, c.lost_bytes, c.resent_bytes,
    )
}

fn timers(t: &mut String, c: &Connection) -> std::fmt::Result {
    let all = &c.timers_ms;
    let due = [
        ("retransmit", all.retransmit),
        ("delayed_ack", all.delayed_ack),
        ("keepalive", all.keepalive),
        ("pacing", all.pacing),
    ];
    let due = due.into_iter().filter_map(|(name, ms)| Some(format!("{name} in {:.0} ms", ms?)));
    let due: Vec<String> = due.collect();
    let due = if due.is_empty() { "none".to_owned() } else { due.join(", ") };
    writeln!(t, "  timers    {due}")
}

/// The host's socket of a flow through a gateway.
fn beyond(t: &mut String, o: &Outer) -> std::fmt::Result {
    let ms = |us: u64| format!("{:.3}", us as f64 / 1e3);
    writeln!(t, "  host      {} - {}  {}", o.local, o.remote, o.state)?;
    writeln!(
        t,
        "            cwnd:{} segments ssthresh:{} rtt:{}/{} ms minrtt:{} ms rto:{} ms backoff:{}",
        o.cwnd,
        known(o.ssthresh),
        ms(o.rtt_us),
        ms(o.rttvar_us),
        ms(o.min_rtt_us),
        ms(o.rto_us),
        o.backoff,
    )?;
    writeln!(
        t,
        "            mss:{} rcvmss:{} unacked:{} lost:{} retrans:{} notsent:{} rcv_rtt:{} ms \
         rcv_space:{}",
        o.mss,
        o.rcv_mss,
        o.unacked,
        o.lost,
        o.retransmits,
        o.unsent,
        ms(o.rcv_rtt_us),
        o.rcv_space,
    )?;
    let pacing = o.pacing_bytes_per_s.map_or("-".to_owned(), |rate| bits(rate as f64));
    writeln!(
        t,
        "            pacing_rate {pacing} delivery_rate {} busy:{} ms rwnd_limited:{} ms \
         sndbuf_limited:{} ms bytes_acked:{} bytes_received:{}",
        bits(o.delivery_bytes_per_s as f64),
        o.busy_us / 1000,
        o.rwnd_limited_us / 1000,
        o.sndbuf_limited_us / 1000,
        o.bytes_acked,
        o.bytes_received,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_connection_is_a_block_with_what_is_known() {
        let row = json!({
            "local": "192.0.2.1:80", "remote": "192.0.2.2:40000", "state": "ESTABLISHED",
            "uid": 1000, "port": 0, "age_ms": 12_345, "congestion_control": "cubic",
            "cwnd_bytes": 14_480, "mss": 1448, "rtt_us": 1234, "rttvar_us": 17, "min_rtt_us": 900,
            "rto_us": 200_000, "pacing_bytes_per_s": null, "delivery_bytes_per_s": 1_250_000,
            "wscale_snd": 7, "wscale_rcv": 8, "sack": true, "timestamps": false,
            "timers_ms": { "retransmit": 198.4, "delayed_ack": null },
            "outer": { "local": "198.51.100.1:5000", "remote": "192.0.2.1:80", "cwnd": 12,
                "busy_us": 8_000, "state": "ESTABLISHED" },
        });
        let document = json!({ "stacks": [{ "name": "outside", "connections": [row] }] });
        let text = text(&document);
        for shown in [
            "192.0.2.1:80 - 192.0.2.2:40000  ESTABLISHED\n",
            "uid:1000 stack:outside port:0 age:12.3 s",
            "cubic cwnd:14480 (10 segments) ssthresh:-",
            "wscale:7,8 sack:on timestamps:off",
            "rtt:1.234/0.017 ms minrtt:0.900 ms rto:200.000 ms",
            "pacing_rate - delivery_rate 10.00 Mb/s",
            "retransmit in 198 ms\n",
            "  host      198.51.100.1:5000 - 192.0.2.1:80  ESTABLISHED\n",
            "cwnd:12 segments ssthresh:-",
            "busy:8 ms rwnd_limited:0 ms",
        ] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}
