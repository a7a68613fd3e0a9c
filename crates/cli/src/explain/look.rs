//! One look at a connection: what holds its data back at this moment.
//!
//! Called by: `run.rs` makes looks of the program's answers, `verdict.rs` counts what they say.
//! The conditions are those by which `tcp::output` decides whether to send (RFC 9293 section
//! 3.8.6.2.1, RFC 5681 section 3.1), asked from outside.

use serde_json::Value;

/// What holds data back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    /// The program gives less to send than could be.
    Application,
    /// It would give more, but the send buffer is full of what the peer has not acknowledged.
    SendBuffer,
    /// The peer takes no more.
    ReceiveWindow,
    /// Congestion control allows no more to be under way.
    CongestionWindow,
    /// The next segment's time has not come.
    Pacing,
    /// All of these would let it go: it waits for the device, the link or the processor.
    Device,
    /// Of what comes: our program does not read, so that our window is closed.
    OurReader,
    /// Of what comes: the peer could send more by our window.
    Peer,
}

impl Limit {
    pub(super) const ALL: [Limit; 8] = [
        Limit::Application,
        Limit::SendBuffer,
        Limit::ReceiveWindow,
        Limit::CongestionWindow,
        Limit::Pacing,
        Limit::Device,
        Limit::OurReader,
        Limit::Peer,
    ];

    /// Its name in documents.
    pub(super) fn name(self) -> &'static str {
        match self {
            Limit::Application => "application",
            Limit::SendBuffer => "send-buffer",
            Limit::ReceiveWindow => "receive-window",
            Limit::CongestionWindow => "congestion-window",
            Limit::Pacing => "pacing",
            Limit::Device => "device",
            Limit::OurReader => "reader",
            Limit::Peer => "peer",
        }
    }
}

/// The figures of a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) state: String,
    pub(super) mss: u64,
    pub(super) rcv_mss: u64,
    pub(super) cwnd: u64,
    pub(super) snd_wnd: u64,
    pub(super) rcv_wnd: u64,
    pub(super) in_flight: u64,
    /// Bytes that congestion control counts as under way (RFC 6675 section 4).
    pub(super) pipe: u64,
    pub(super) unsent: u64,
    pub(super) unread: u64,
    pub(super) send_buffer: u64,
    pub(super) receive_buffer: u64,
    pub(super) acked: u64,
    pub(super) received: u64,
    pub(super) retransmits: u64,
    pub(super) timeouts: u64,
    pub(super) rtt_us: u64,
    pub(super) min_rtt_us: u64,
    pub(super) pacing_bytes_per_s: Option<u64>,
    pub(super) waits_for_pacing: bool,
    pub(super) recovers: bool,
    pub(super) control: String,
}

impl Look {
    /// Of a row of `connections`.
    pub(super) fn of(row: &Value) -> Look {
        let number = |key: &str| row[key].as_u64().unwrap_or(0);
        let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
        let gone = number("sacked_bytes") + number("lost_bytes");
        let in_flight = number("in_flight");
        Look {
            state: text("state"),
            mss: number("mss").max(1),
            rcv_mss: number("rcv_mss").max(1),
            cwnd: number("cwnd_bytes"),
            snd_wnd: number("snd_wnd"),
            rcv_wnd: number("rcv_wnd"),
            in_flight,
            pipe: in_flight.saturating_sub(gone) + number("resent_bytes").min(in_flight),
            unsent: number("unsent"),
            unread: number("unread"),
            send_buffer: number("send_buffer_bytes"),
            receive_buffer: number("receive_buffer_bytes"),
            acked: number("bytes_acked"),
            received: number("bytes_received"),
            retransmits: number("retransmits"),
            timeouts: number("timeouts"),
            rtt_us: number("rtt_us"),
            min_rtt_us: number("min_rtt_us"),
            pacing_bytes_per_s: row["pacing_bytes_per_s"].as_u64(),
            waits_for_pacing: row["timers_ms"]["pacing"].is_number(),
            recovers: !matches!(row["recovering"].as_str(), None | Some("no")),
            control: text("congestion_control"),
        }
    }

    /// What holds back what we send.
    pub(super) fn of_sending(&self) -> Limit {
        // A partial segment waits for more, or for what is under way (Nagle): both times the
        // program could have given more.
        if self.unsent < self.mss {
            let held = self.in_flight + self.unsent;
            let is_full = self.send_buffer > 0 && held + self.mss > self.send_buffer;
            return if is_full { Limit::SendBuffer } else { Limit::Application };
        }
        let window_left = self.snd_wnd.saturating_sub(self.in_flight);
        let cwnd_left = self.cwnd.saturating_sub(self.pipe);
        if window_left < self.mss && self.snd_wnd <= self.cwnd.max(self.mss) {
            Limit::ReceiveWindow
        } else if cwnd_left < self.mss {
            Limit::CongestionWindow
        } else if window_left < self.mss {
            Limit::ReceiveWindow
        } else if self.waits_for_pacing {
            Limit::Pacing
        } else {
            Limit::Device
        }
    }

    /// What holds back what we receive.
    pub(super) fn of_receiving(&self) -> Limit {
        let is_closed = self.rcv_wnd < 2 * self.rcv_mss;
        let is_full = self.unread > 0 && self.unread >= self.receive_buffer / 2;
        if is_closed || is_full { Limit::OurReader } else { Limit::Peer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing holds it.
    fn open() -> Look {
        Look {
            mss: 1000,
            rcv_mss: 1000,
            cwnd: 50_000,
            snd_wnd: 60_000,
            rcv_wnd: 40_000,
            in_flight: 20_000,
            pipe: 20_000,
            unsent: 30_000,
            send_buffer: 100_000,
            receive_buffer: 40_000,
            ..Look::default()
        }
    }

    #[test]
    fn each_limit_is_told_from_the_others() {
        let sending = |change: &dyn Fn(&mut Look)| {
            let mut look = open();
            change(&mut look);
            look.of_sending()
        };
        assert_eq!(sending(&|_| ()), Limit::Device);
        assert_eq!(sending(&|l| l.unsent = 0), Limit::Application);
        assert_eq!(sending(&|l| l.unsent = 999), Limit::Application);
        assert_eq!(sending(&|l| (l.unsent, l.send_buffer) = (0, 20_500)), Limit::SendBuffer);
        assert_eq!(sending(&|l| l.snd_wnd = 20_500), Limit::ReceiveWindow);
        assert_eq!(sending(&|l| l.snd_wnd = 0), Limit::ReceiveWindow);
        assert_eq!(sending(&|l| l.cwnd = 20_999), Limit::CongestionWindow);
        assert_eq!(sending(&|l| (l.cwnd, l.snd_wnd) = (20_000, 20_500)), Limit::CongestionWindow);
        assert_eq!(sending(&|l| (l.cwnd, l.snd_wnd) = (20_500, 20_000)), Limit::ReceiveWindow);
        assert_eq!(sending(&|l| l.waits_for_pacing = true), Limit::Pacing);
        // Lost bytes do not count against cwnd.
        assert_eq!(sending(&|l| (l.cwnd, l.pipe) = (20_999, 10_000)), Limit::Device);
    }

    #[test]
    fn what_comes_is_held_by_our_reader_or_the_peer() {
        let look = Look { unread: 1000, ..open() };
        assert_eq!(look.of_receiving(), Limit::Peer);
        assert_eq!(Look { rcv_wnd: 1999, ..open() }.of_receiving(), Limit::OurReader);
        assert_eq!(Look { unread: 30_000, ..open() }.of_receiving(), Limit::OurReader);
    }

    #[test]
    fn the_pipe_is_what_is_under_way() {
        let row = serde_json::json!({
            "in_flight": 10_000, "sacked_bytes": 3_000, "lost_bytes": 2_000, "resent_bytes": 1_000,
            "recovering": "recovery", "timers_ms": { "pacing": 0.4 }, "state": "ESTABLISHED",
        });
        let look = Look::of(&row);
        assert_eq!((look.pipe, look.recovers, look.waits_for_pacing), (6_000, true, true));
    }
}
