//! Connections in full, for people: the fields of `ss -ti`, in named groups.
//!
//! Called by: `show.rs`.

use std::fmt::Write as _;

use explain::bits;
use serde_json::Value;

use super::report::plain;

/// A block for each connection of each stack.
pub(super) fn text(document: &Value) -> String {
    let mut t = String::new();
    for stack in document["stacks"].as_array().into_iter().flatten() {
        for row in stack["connections"].as_array().into_iter().flatten() {
            if !t.is_empty() {
                t.push('\n');
            }
            connection(&mut t, &plain(&stack["name"]), row);
        }
    }
    t
}

/// The block of a connection.
pub(crate) fn connection(t: &mut String, stack: &str, row: &Value) {
    // Writing to a String cannot fail.
    let _ = block(t, stack, row);
}

fn block(t: &mut String, stack: &str, row: &Value) -> std::fmt::Result {
    let at = |key: &str| plain(&row[key]);
    let number = |key: &str| row[key].as_f64();
    let ms = |key: &str| number(key).map_or("-".to_owned(), |us| format!("{:.3}", us / 1e3));
    let rate = |key: &str| number(key).map_or("-".to_owned(), bits);
    let on = |key: &str| if row[key] == true { "on" } else { "off" };
    writeln!(t, "{} - {}  {}", at("local"), at("remote"), at("state"))?;
    writeln!(
        t,
        "  owner     uid:{} stack:{stack} port:{} age:{}",
        at("uid"),
        if row["dev"].is_null() { at("port") } else { at("dev") },
        number("age_ms").map_or("-".to_owned(), |ms| format!("{:.1} s", ms / 1e3)),
    )?;
    writeln!(
        t,
        "  agreed    wscale:{},{} sack:{} timestamps:{} ecn:{}",
        at("wscale_snd"),
        at("wscale_rcv"),
        on("sack"),
        on("timestamps"),
        on("ecn")
    )?;
    let mss = number("mss").unwrap_or(0.0);
    let segments = number("cwnd_bytes").filter(|_| mss > 0.0).map(|cwnd| cwnd / mss);
    writeln!(
        t,
        "  control   {} cwnd:{} ({} segments) ssthresh:{} recovering:{}",
        at("congestion_control"),
        at("cwnd_bytes"),
        segments.map_or("-".to_owned(), |n| format!("{n:.0}")),
        at("ssthresh_bytes"),
        at("recovering"),
    )?;
    writeln!(
        t,
        "  time      rtt:{}/{} ms minrtt:{} ms rto:{} ms backoff:{}",
        ms("rtt_us"),
        ms("rttvar_us"),
        ms("min_rtt_us"),
        ms("rto_us"),
        at("backoff"),
    )?;
    writeln!(
        t,
        "  rates     pacing_rate {} delivery_rate {} receiving {}",
        rate("pacing_bytes_per_s"),
        rate("delivery_bytes_per_s"),
        rate("receiving_bytes_per_s"),
    )?;
    amounts(t, row)?;
    let due = |name: &str| {
        let ms = row["timers_ms"][name].as_f64();
        ms.map(|ms| format!("{name} in {ms:.0} ms"))
    };
    let timers = ["retransmit", "delayed_ack", "keepalive", "pacing"].into_iter().filter_map(due);
    let timers: Vec<String> = timers.collect();
    let timers = if timers.is_empty() { "none".to_owned() } else { timers.join(", ") };
    writeln!(t, "  timers    {timers}")
}

/// Windows, bytes and segments.
fn amounts(t: &mut String, row: &Value) -> std::fmt::Result {
    let at = |key: &str| plain(&row[key]);
    writeln!(
        t,
        "  windows   snd_wnd:{} rcv_wnd:{} send_buffer:{} receive_buffer:{}",
        at("snd_wnd"),
        at("rcv_wnd"),
        at("send_buffer_bytes"),
        at("receive_buffer_bytes"),
    )?;
    writeln!(
        t,
        "  bytes     bytes_acked:{} bytes_received:{} unacked:{} notsent:{} unread:{}",
        at("bytes_acked"),
        at("bytes_received"),
        at("in_flight"),
        at("unsent"),
        at("unread"),
    )?;
    writeln!(
        t,
        "  segments  mss:{} rcvmss:{} advmss:{} segs_out:{} segs_in:{}",
        at("mss"),
        at("rcv_mss"),
        at("advmss"),
        at("segments_out"),
        at("segments_in"),
    )?;
    writeln!(
        t,
        "  trouble   retrans:{} timeouts:{} recoveries:{} tail_probes:{} undone:{} dupacks:{} \
         reordered:{} ce_marks:{}",
        at("retransmits"),
        at("timeouts"),
        at("fast_recoveries"),
        at("tail_probes"),
        at("undone"),
        at("duplicate_acks"),
        at("out_of_order"),
        at("ce_marks"),
    )?;
    writeln!(
        t,
        "  now       sacked:{} lost:{} resent:{} bytes",
        at("sacked_bytes"),
        at("lost_bytes"),
        at("resent_bytes"),
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
        ] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}
