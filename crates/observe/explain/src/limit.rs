//! The names of what may limit a connection: at one look, and over all looks.
//!
//! Called by: look, verdict, words; documents have the names.

/// The cause that holds data back at one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// The program gives nothing to send.
    Application,
    /// A short segment waits for the acknowledgement of what was sent (Nagle's algorithm).
    Nagle,
    /// The program would give more, but the send buffer is full of unacknowledged data.
    SendBuffer,
    /// The peer takes no more.
    ReceiveWindow,
    /// Congestion control allows no more to be under way, or a loss is being repaired.
    CongestionWindow,
    /// The next segment's time has not come.
    Pacing,
    /// All of these would let the data go: it waits for the device, the link or the processor.
    Device,
    /// Receiving: our program does not read, so that our window is closed.
    OurReader,
    /// Receiving: our window has room, and the peer sends no more.
    Peer,
}

impl Held {
    pub(crate) const ALL: [Held; 9] = [
        Held::Application,
        Held::Nagle,
        Held::SendBuffer,
        Held::ReceiveWindow,
        Held::CongestionWindow,
        Held::Pacing,
        Held::Device,
        Held::OurReader,
        Held::Peer,
    ];

    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Held::Application => "application",
            Held::Nagle => "nagle",
            Held::SendBuffer => "send-buffer",
            Held::ReceiveWindow => "receive-window",
            Held::CongestionWindow => "congestion-window",
            Held::Pacing => "pacing",
            Held::Device => "device",
            Held::OurReader => "reader",
            Held::Peer => "peer",
        }
    }
}

/// The limit of a connection, by all looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The handshake is not done: the peer has not answered.
    NotConnected,
    /// Our port's link is down.
    LinkDown,
    /// Nothing comes back, and time-outs follow each other.
    DeadPath,
    /// Large segments vanished without an ICMP error; smaller ones pass.
    PathMtu,
    /// Nothing moves, and nothing waits.
    Idle,
    /// The stack's thread has all of a core.
    Processor,
    /// The program gives less to send than could be sent.
    Application,
    /// Short writes wait for the acknowledgement of the one before, which the peer delays.
    Nagle,
    /// Our send buffer.
    SendBuffer,
    /// The peer's program reads more slowly than the data comes.
    PeerReader,
    /// The peer's window is constant, and smaller than what the path holds.
    ReceiveWindow,
    /// The peer's window is less than two segments.
    SillyWindow,
    /// Losses without a queue: the path loses packets whatever we send.
    Loss,
    /// Losses in bursts at a constant rate without a queue: a policer.
    Policer,
    /// Packets overtake each other, and late packets were taken for lost.
    Reordering,
    /// The slowest link of the path is full, and its queue is longer than the path.
    Queue,
    /// The slowest link of the path is full.
    LinkRate,
    /// The congestion window is still growing.
    CongestionWindow,
    /// Congestion control sends at the rate that it measured.
    Pacing,
    /// Our device is full.
    Device,
    /// The program at this end reads more slowly than the data comes.
    OurReader,
    /// Our receive buffer: the peer fills our window once a round trip.
    ReceiveBuffer,
    /// Received data has gaps: the path loses or reorders on the way to us.
    Path,
    /// The peer sends less than our window would take.
    Peer,
}

impl Limit {
    /// All of them.
    pub const ALL: [Limit; 24] = [
        Limit::NotConnected,
        Limit::LinkDown,
        Limit::DeadPath,
        Limit::PathMtu,
        Limit::Idle,
        Limit::Processor,
        Limit::Application,
        Limit::Nagle,
        Limit::SendBuffer,
        Limit::PeerReader,
        Limit::ReceiveWindow,
        Limit::SillyWindow,
        Limit::Loss,
        Limit::Policer,
        Limit::Reordering,
        Limit::Queue,
        Limit::LinkRate,
        Limit::CongestionWindow,
        Limit::Pacing,
        Limit::Device,
        Limit::OurReader,
        Limit::ReceiveBuffer,
        Limit::Path,
        Limit::Peer,
    ];

    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Limit::NotConnected => "not-connected",
            Limit::LinkDown => "link-down",
            Limit::DeadPath => "dead-path",
            Limit::PathMtu => "path-mtu",
            Limit::Idle => "idle",
            Limit::Processor => "processor",
            Limit::Application => "application",
            Limit::Nagle => "nagle",
            Limit::SendBuffer => "send-buffer",
            Limit::PeerReader => "peer-reader",
            Limit::ReceiveWindow => "receive-window",
            Limit::SillyWindow => "silly-window",
            Limit::Loss => "loss",
            Limit::Policer => "policer",
            Limit::Reordering => "reordering",
            Limit::Queue => "queue",
            Limit::LinkRate => "link-rate",
            Limit::CongestionWindow => "congestion-window",
            Limit::Pacing => "pacing",
            Limit::Device => "device",
            Limit::OurReader => "reader",
            Limit::ReceiveBuffer => "receive-buffer",
            Limit::Path => "path",
            Limit::Peer => "peer",
        }
    }
}
