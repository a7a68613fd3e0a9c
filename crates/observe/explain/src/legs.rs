//! A flow through a gateway is two connections: which of the two legs limits it.
//!
//! Called by: `wirespeed explain`. The guest's leg is a connection of our stack, of which there is
//! a verdict. The host's leg is a socket of the kernel, of which there is what TCP_INFO says: how
//! long it had data to send, and for how much of that time the peer's window or its own buffer was
//! full.

use control::protocol::Outer;

use crate::limit::Limit;
use crate::units::ms;
use crate::verdict::Verdict;
use crate::words::Words;

/// The part of the time that a cause of the kernel has to have.
const MOST: f64 = 0.5;

/// One of the two connections of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// The guest's, on our stack.
    Guest,
    /// The host's, a socket.
    Host,
}

impl Leg {
    /// The name in JSON documents.
    pub fn name(self) -> &'static str {
        match self {
            Leg::Guest => "guest",
            Leg::Host => "host",
        }
    }
}

/// What was found out of both legs.
#[derive(Clone, Debug)]
pub struct Legs {
    /// The leg that limits the flow; `None` if none does, or it cannot be told.
    pub leg: Option<Leg>,
    /// The answer, and advice.
    pub words: Words,
    /// What the host's socket did between the first look and the last.
    pub grew: Grew,
    /// The last look at the host's socket.
    pub last: Outer,
}

/// What a socket did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grew {
    /// Bytes that the peer acknowledged.
    pub acked: u64,
    /// Bytes received in order.
    pub received: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Microseconds with data in flight, with a full window of the peer, with a full send buffer.
    pub busy_us: u64,
    /// See `busy_us`.
    pub window_us: u64,
    /// See `busy_us`.
    pub buffer_us: u64,
}

impl Grew {
    fn of(first: &Outer, last: &Outer) -> Grew {
        let grew = |of: fn(&Outer) -> u64| of(last).saturating_sub(of(first));
        Grew {
            acked: grew(|o| o.bytes_acked),
            received: grew(|o| o.bytes_received),
            retransmits: grew(|o| o.retransmits),
            busy_us: grew(|o| o.busy_us),
            window_us: grew(|o| o.rwnd_limited_us),
            buffer_us: grew(|o| o.sndbuf_limited_us),
        }
    }
}

impl Legs {
    /// Which leg limits, by the verdict about the guest's leg and the looks at the host's, in the
    /// order of time; `None` if there are no looks.
    pub fn of(verdict: &Verdict, looks: &[Outer]) -> Option<Legs> {
        let (first, last) = (looks.first()?, looks.last()?);
        let grew = Grew::of(first, last);
        let leg = leg(verdict);
        let words = match (leg, verdict.limit) {
            (Some(Leg::Host), _) if verdict.sends => of_receiving(verdict, last),
            (Some(Leg::Host), _) => of_sending(verdict, &grew, last),
            (Some(Leg::Guest), Some(_)) => {
                let Words { answer, advice } = Words::of(verdict);
                Words { answer: format!("the guest's leg: {answer}"), advice }
            }
            _ => Words::of(verdict),
        };
        Some(Legs { leg, words, grew, last: last.clone() })
    }
}

/// A gateway writes to the guest whatever the host has received, and reads from the guest whatever
/// the host takes.
fn leg(verdict: &Verdict) -> Option<Leg> {
    match verdict.limit? {
        Limit::Idle => None,
        Limit::Application | Limit::OurReader => Some(Leg::Host),
        _ => Some(Leg::Guest),
    }
}

fn words(answer: String, advice: &str) -> Words {
    Words { answer: format!("the host's leg: {answer}"), advice: Some(advice.to_owned()) }
}

/// The host receives less than the guest would take. A receiver cannot see why.
fn of_receiving(verdict: &Verdict, last: &Outer) -> Words {
    let rtt = if last.rcv_rtt_us > 0 { last.rcv_rtt_us } else { last.rtt_us };
    let answer = format!(
        "{} sends {}, less than the guest would take, over a path with an RTT of {} ms",
        last.remote,
        crate::bits(verdict.bytes_per_s()),
        ms(rtt)
    );
    words(answer, "look at the server, and at the host's path to it")
}

/// The guest sends more than the host's socket takes.
fn of_sending(verdict: &Verdict, grew: &Grew, last: &Outer) -> Words {
    let length_us = (verdict.seconds * 1e6).max(1.0);
    let share = |us: u64| (us as f64 / length_us).min(1.0);
    let percent = |us: u64| format!("{:.0} %", share(us) * 100.0);
    if share(grew.window_us) >= MOST {
        let answer = format!(
            "the window of {} is full for {} of the time: its program reads slowly, or its buffer \
             is small",
            last.remote,
            percent(grew.window_us)
        );
        return words(answer, "look at the program that reads there, and at its receive buffer");
    }
    // A full window is probed with a backoff, too.
    if last.backoff > 1 {
        let answer = format!("{} does not acknowledge what the host sends again", last.remote);
        return words(answer, "see with ping from the host whether it is there");
    }
    if share(grew.buffer_us) >= MOST {
        let answer =
            format!("the host's send buffer is full for {} of the time", percent(grew.buffer_us));
        return words(answer, "a larger net.ipv4.tcp_wmem of the host");
    }
    let flight = format!("{} segments of {} bytes in flight", last.cwnd, last.mss);
    if grew.retransmits > 0 {
        let answer = format!(
            "the path to {} loses: {} segments were sent again, and congestion control allows \
             {flight}",
            last.remote, grew.retransmits
        );
        return words(answer, "a path without losses, or net.ipv4.tcp_congestion_control=bbr");
    }
    let answer = format!(
        "the path to {}: congestion control allows {flight}, with an RTT of {} ms, {} ms at best",
        last.remote,
        ms(last.rtt_us),
        ms(last.min_rtt_us)
    );
    words(answer, "a path with more capacity")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Look;

    /// A flow whose guest's leg has these looks, half a second long, and whose socket did this.
    fn legs(guest: impl Fn(&mut Look, u64), host: impl Fn(&mut Outer)) -> Legs {
        let look = |n| {
            let state = "ESTABLISHED".to_owned();
            let mut look = Look { at_us: n * 50_000, mss: 1000, rcv_mss: 1000, state, ..open() };
            guest(&mut look, n);
            look
        };
        let looks: Vec<Look> = (0..11).map(look).collect();
        let first = Outer { remote: "192.0.2.1:80".to_owned(), ..Outer::default() };
        let mut last = first.clone();
        host(&mut last);
        let verdict = Verdict::of(&looks).expect("looks");
        Legs::of(&verdict, &[first, last]).expect("looks")
    }

    fn open() -> Look {
        Look { snd_wnd: 60_000, cwnd: 50_000, send_buffer: 100_000, ..Look::default() }
    }

    /// The guest sends, and the gateway does not read.
    fn full(look: &mut Look, n: u64) {
        (look.received, look.unread, look.rcv_wnd, look.receive_buffer) =
            (n * 1000, 50_000, 0, 60_000);
    }

    #[test]
    fn a_host_that_takes_nothing_limits_and_the_kernel_says_why() {
        let says = |host: fn(&mut Outer)| {
            let legs = legs(full, host);
            assert_eq!(legs.leg, Some(Leg::Host));
            legs.words.answer
        };
        let window = says(|o| (o.busy_us, o.rwnd_limited_us) = (500_000, 400_000));
        assert!(window.contains("window of 192.0.2.1:80 is full for 80 %"), "{window}");
        let buffer = says(|o| (o.busy_us, o.sndbuf_limited_us) = (500_000, 300_000));
        assert!(buffer.contains("send buffer is full for 60 %"), "{buffer}");
        let loss = says(|o| (o.busy_us, o.retransmits) = (500_000, 7));
        assert!(loss.contains("loses: 7 segments"), "{loss}");
        let dead = says(|o| (o.busy_us, o.retransmits, o.backoff) = (500_000, 7, 4));
        assert!(dead.contains("does not acknowledge"), "{dead}");
        let probed = says(|o| (o.rwnd_limited_us, o.backoff) = (500_000, 4));
        assert!(probed.contains("window of"), "{probed}");
        let path = says(|o| (o.cwnd, o.mss, o.rtt_us) = (10, 1448, 20_000));
        assert!(path.contains("10 segments of 1448 bytes") && path.contains("20.000 ms"), "{path}");
    }

    #[test]
    fn a_guest_that_is_slow_limits() {
        // It sends, and our window has room.
        let upload = legs(|l, n| (l.received, l.rcv_wnd) = (n * 1000, 60_000), |_| ());
        assert_eq!(upload.leg, Some(Leg::Guest));
        // Its window is full.
        let reader = |l: &mut Look, n| {
            (l.acked, l.snd_wnd, l.in_flight, l.pipe) = (n * 1000, 5000, 5000, 5000);
            (l.write_blocked, l.unsent) = (true, 30_000);
        };
        let download = legs(reader, |_| ());
        assert_eq!(download.leg, Some(Leg::Guest));
        assert!(download.words.answer.starts_with("the guest's leg: "));
    }

    #[test]
    fn a_server_that_sends_little_limits_and_an_idle_flow_has_no_limit() {
        let server = legs(|l, n| l.acked = n * 1000, |o| o.rcv_rtt_us = 30_000);
        assert_eq!(server.leg, Some(Leg::Host));
        assert!(server.words.answer.contains("192.0.2.1:80 sends 160.00 kb/s"), "{server:?}");
        assert!(server.words.answer.contains("30.000 ms"));
        let idle = legs(|_, _| (), |_| ());
        assert_eq!((idle.leg, idle.words.advice), (None, None));
    }
}
