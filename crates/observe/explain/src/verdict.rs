//! The verdict of many looks at a connection: a pure function.
//!
//! Called by: `explain`, `top`, the live page, `lab explain`. The verdict first looks for a cause
//! that stops all data, then for the cause in most looks, and then for the reason of that cause:
//! losses, a queue, marks and round trips tell the limits of a path from each other. `words` puts
//! the verdict into a sentence.

use crate::evidence::Evidence;
use crate::limit::{Held, Limit};
use crate::look::Look;

/// The smallest number of looks that gives a verdict.
pub const LOOKS_LEAST: usize = 8;
/// The part of the looks that must have a cause for it to be the verdict.
const MOST: f64 = 0.5;
/// A thread that uses this part of a core is taken to be at its limit.
const BUSY: f64 = 0.9;
/// A slow reader closes the window: in a tenth of the later looks, the window is at most this part
/// of its largest size. A program that keeps up leaves only the newest data in the buffer.
const CLOSED: f64 = 0.6;
/// Time-outs in a row after which a path counts as dead.
const SILENT: u64 = 2;
/// The part of the looks in which Nagle's algorithm waits, for the verdict if the peer answers each
/// write.
const NAGLE: f64 = 0.3;
/// A queue adds at least this part of the shortest round trip, and at least this many microseconds.
const QUEUE: (f64, u64) = (0.08, 400);
/// Timestamps count milliseconds: a shortest round trip that they measured is up to 1 ms too short
/// (RFC 7323 section 5.4), and is then a whole number of milliseconds.
const TICK_US: u64 = 1000;
/// A queue whose delay is this multiple of the path's is itself the limit.
const BLOAT: f64 = 1.5;
/// A policer drops at least this many segments in a row; a path with random losses drops fewer. The
/// second value is for up to four episodes, which are too few to show a regularity: a path that
/// loses so little rarely loses two segments of one window.
const POLICED: (f64, f64) = (3.0, 1.5);
/// A policer may also drop whenever cwnd has grown to the same size, and so after the same amount
/// of data each time. That amount varies by at most the first value times its mean. The second
/// value applies if there are at most as many looks for each loss as the third value, because so
/// few looks show the time of a loss less precisely. With random losses, the amount varies by about
/// its mean.
const EVEN: (f64, f64, u64) = (0.25, 0.5, 4);
/// A window that is full of at least this many segments measures the queue, not delayed ACKs.
const TRAIN: u64 = 8;
/// If the peer uses this part of our window in each round trip, our receive buffer is the limit.
const FILLED: f64 = 0.6;
/// If this part of the received segments is out of order, the path is the limit at the receiver.
const GAPS: f64 = 0.001;

/// The verdict of the looks at a connection, with its evidence.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The limit; `None` if no cause is in half of the looks, or there are too few looks.
    pub limit: Option<Limit>,
    /// Does the connection mainly send?
    pub sends: bool,
    /// The causes in the looks, each with its share of the looks, the largest first.
    pub shares: Vec<(Held, f64)>,
    /// The number of looks.
    pub looks: usize,
    /// The time from the first look to the last.
    pub seconds: f64,
    /// Bytes in the main direction.
    pub moved_bytes: u64,
    /// Segments sent again between the first look and the last.
    pub retransmits: u64,
    /// Time-outs between the first look and the last.
    pub timeouts: u64,
    /// How often a device pushed back between the first look and the last.
    pub pushed_back: u64,
    /// How long nothing has come from the peer, in microseconds.
    pub silent_us: u64,
    /// The share of a core that the stack's thread used.
    pub cpu: Option<f64>,
    /// The peer's smallest window in the later looks, and its largest in all looks.
    pub window: (u64, u64),
    /// A look with the median of each figure.
    pub usual: Look,
    /// The last look.
    pub last: Look,
}

impl Verdict {
    /// The verdict of looks in the order of time; `None` if there are none.
    pub fn of(looks: &[Look]) -> Option<Verdict> {
        let seen = Evidence::of(looks)?;
        let (sent, received) = (seen.grew(|l| l.acked), seen.grew(|l| l.received));
        let sends = match sent + received {
            0 => !seen.any(|l| l.unread > 0) || seen.last.in_flight > 0,
            _ => sent >= received,
        };
        let shares = seen.held(sends);
        let is_enough = looks.len() >= LOOKS_LEAST;
        let moved_bytes = if sends { sent } else { received };
        Some(Verdict {
            limit: if is_enough { limit(&seen, sends, &shares) } else { None },
            sends,
            shares,
            looks: looks.len(),
            seconds: seen.length_us() as f64 / 1e6,
            moved_bytes,
            retransmits: seen.grew(|l| l.retransmits),
            timeouts: seen.grew(|l| l.timeouts),
            pushed_back: seen.grew(|l| l.pushed_back),
            silent_us: silent_us(&seen),
            cpu: seen.cpu(),
            window: seen.window(),
            usual: seen.usual(),
            last: seen.last.clone(),
        })
    }

    /// Bytes per second in the main direction.
    pub fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.moved_bytes as f64 / self.seconds } else { 0.0 }
    }
}

/// How long nothing has come from the peer, in microseconds.
fn silent_us(seen: &Evidence<'_>) -> u64 {
    let last = seen.looks.iter().find(|look| look.segments_in == seen.last.segments_in);
    last.map_or(0, |last| seen.last.at_us.saturating_sub(last.at_us))
}

fn limit(seen: &Evidence<'_>, sends: bool, shares: &[(Held, f64)]) -> Option<Limit> {
    let last = seen.last;
    // A link that is down explains time-outs, and a peer that does not answer.
    if last.link_down {
        return Some(Limit::LinkDown);
    }
    if matches!(last.state.as_str(), "SYN-SENT" | "SYN-RECEIVED") {
        return Some(Limit::NotConnected);
    }
    if has_narrowed(seen) {
        return Some(Limit::PathMtu);
    }
    if last.in_flight > 0 && last.retries >= SILENT || last.probes > SILENT {
        return Some(Limit::DeadPath);
    }
    let moved = seen.grew(|l| l.acked) + seen.grew(|l| l.received);
    if moved == 0 && !seen.any(|l| l.in_flight + l.unsent + l.unread > 0) {
        return Some(Limit::Idle);
    }
    if moved > 0 && seen.cpu().is_some_and(|cpu| cpu >= BUSY) {
        return Some(Limit::Processor);
    }
    let answers = seen.grew(|l| l.acked) > 0 && seen.grew(|l| l.received) > 0;
    if answers && seen.share(|l| l.of_sending() == Held::Nagle) >= NAGLE {
        return Some(Limit::Nagle);
    }
    if sends { of_sending(seen, shares) } else { of_receiving(seen) }
}

/// Did segments become smaller after time-outs, and did data arrive in the smaller segments? On a
/// dead path segments become smaller as well, but no data arrives.
fn has_narrowed(seen: &Evidence<'_>) -> bool {
    let least = seen.looks.iter().map(|look| look.mss).min().unwrap_or(0);
    let narrow = seen.looks.iter().find(|look| look.mss == least);
    let arrived = narrow.is_some_and(|narrow| seen.last.acked > narrow.acked);
    least < seen.first.mss && seen.grew(|l| l.timeouts) > 0 && arrived
}

fn of_sending(seen: &Evidence<'_>, shares: &[(Held, f64)]) -> Option<Limit> {
    let of = |held| shares.iter().find(|&&(seen, _)| seen == held).map_or(0.0, |&(_, s)| s);
    let path = of(Held::CongestionWindow) + of(Held::Pacing) + of(Held::Device);
    let groups = [
        (Held::Application, of(Held::Application) + of(Held::Nagle)),
        (Held::SendBuffer, of(Held::SendBuffer)),
        (Held::ReceiveWindow, of(Held::ReceiveWindow)),
        (Held::CongestionWindow, path),
    ];
    let (held, share) = groups.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if share < MOST {
        return None;
    }
    let is_path = held == Held::CongestionWindow;
    // A larger buffer or window would only make the queue longer, and nothing faster.
    let is_train = seen.median(|l| l.in_flight) >= TRAIN * seen.last.segment();
    let is_bloated = held != Held::Application && is_train && queue(seen).is_longer_than_the_path();
    // A slow reader closes its window; a queue does not. The reader's host may delay ACKs
    // meanwhile, as Linux does when the window cannot move. That is not a queue either.
    let is_closed = || of_window(seen) == Limit::PeerReader;
    Some(match held {
        _ if (is_path || is_bloated) && seen.intervals(|l| l.pushed_back) >= MOST => Limit::Device,
        Held::ReceiveWindow if is_closed() => Limit::PeerReader,
        _ if is_bloated && !is_path => Limit::Queue,
        Held::Application => Limit::Application,
        Held::SendBuffer => Limit::SendBuffer,
        Held::ReceiveWindow => of_window(seen),
        _ => of_path(seen, of(Held::Device) >= MOST),
    })
}

/// The queueing delay: how much longer a round trip is than the shortest.
struct Queue {
    us: u64,
    shortest_us: u64,
}

fn queue(seen: &Evidence<'_>) -> Queue {
    let (rtt, shortest_us) = (seen.median(|l| l.rtt_us), seen.median(|l| l.min_rtt_us));
    let cut_off = if shortest_us.is_multiple_of(TICK_US) { TICK_US } else { 0 };
    Queue { us: rtt.saturating_sub(shortest_us + cut_off), shortest_us }
}

impl Queue {
    fn is_there(&self) -> bool {
        self.us as f64 > QUEUE.0 * self.shortest_us as f64 && self.us > QUEUE.1
    }

    fn is_longer_than_the_path(&self) -> bool {
        self.is_there() && self.us as f64 > BLOAT * self.shortest_us as f64
    }
}

fn of_window(seen: &Evidence<'_>) -> Limit {
    let (_, most) = seen.window();
    let low = seen.late().low(|l| l.snd_wnd);
    if most < 2 * seen.last.mss_most.max(seen.last.mss) && most > 0 {
        Limit::SillyWindow
    } else if low as f64 <= CLOSED * most as f64 {
        Limit::PeerReader
    } else {
        Limit::ReceiveWindow
    }
}

/// The limit of the path, for a sender that waits for congestion control. `waits` is true if in
/// most looks congestion control would have let data go.
fn of_path(seen: &Evidence<'_>, waits: bool) -> Limit {
    let episodes = seen.grew(Look::episodes);
    let losses = seen.grew(|l| l.retransmits);
    let queue = queue(seen);
    let undone = seen.grew(|l| l.undone);
    if undone > 0 && undone * 2 >= episodes {
        Limit::Reordering
    } else if seen.last.control.starts_with("bbr") {
        Limit::Pacing
    } else if queue.is_longer_than_the_path() {
        Limit::Queue
    } else if queue.is_there() || seen.grew(|l| l.ecn_reductions) > 0 {
        Limit::LinkRate
    } else if losses > 0 {
        let in_a_row = losses as f64 / episodes.max(1) as f64;
        let is_precise = seen.looks.len() as u64 > EVEN.2 * episodes;
        let even = if is_precise { EVEN.0 } else { EVEN.1 };
        let is_policed = match seen.unevenness() {
            None => in_a_row >= POLICED.1,
            Some(uneven) => in_a_row >= POLICED.0 || uneven <= even,
        };
        if is_policed { Limit::Policer } else { Limit::Loss }
    } else if waits {
        Limit::Device
    } else {
        Limit::CongestionWindow
    }
}

fn of_receiving(seen: &Evidence<'_>) -> Option<Limit> {
    let by_reader = seen.share(|look| look.of_receiving() == Held::OurReader);
    if by_reader >= MOST {
        return Some(Limit::OurReader);
    }
    let came = seen.grew(|l| l.received) as f64;
    let in_round_trip = came * seen.median(|l| l.rtt_us) as f64 / seen.length_us().max(1) as f64;
    let window = seen.looks.iter().map(|l| l.rcv_wnd).max().unwrap_or(0);
    let grows = seen.last.receive_buffer > seen.first.receive_buffer;
    let gaps = seen.grew(|l| l.out_of_order) as f64;
    if !grows && in_round_trip >= FILLED * window as f64 {
        Some(Limit::ReceiveBuffer)
    } else if gaps > GAPS * seen.grew(|l| l.segments_in) as f64 {
        Some(Limit::Path)
    } else {
        Some(Limit::Peer)
    }
}
