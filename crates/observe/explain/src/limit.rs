//! What may limit a connection: in one look, and over all looks.
//!
//! Called by: `look`, `verdict` and `words`. JSON documents have the names.

/// The cause that holds data back in one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// The program writes nothing.
    Application,
    /// A short segment waits for the acknowledgement of earlier data (Nagle's algorithm).
    Nagle,
    /// The program would write more, but the send buffer is full of unacknowledged data.
    SendBuffer,
    /// The peer's receive window is full.
    ReceiveWindow,
    /// Congestion control allows no more data in flight, or a loss is being repaired.
    CongestionWindow,
    /// Pacing delays the next segment.
    Pacing,
    /// None of the causes above holds the data back: it waits for the device, the link or the
    /// processor.
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

    /// The name in JSON documents.
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
    /// The handshake is not complete: the peer has not answered.
    NotConnected,
    /// Our port's link is down.
    LinkDown,
    /// Nothing comes from the peer, and time-outs follow each other.
    DeadPath,
    /// Large segments vanished without an ICMP error; smaller ones pass.
    PathMtu,
    /// No data is sent or received, and none waits.
    Idle,
    /// The stack's thread uses a whole core.
    Processor,
    /// The program writes less than could be sent.
    Application,
    /// Each short write waits for the acknowledgement of the previous one, which the peer delays.
    Nagle,
    /// Our send buffer is too small.
    SendBuffer,
    /// The peer's program reads more slowly than data arrives.
    PeerReader,
    /// The peer's window is constant, and smaller than the amount of data that the path holds.
    ReceiveWindow,
    /// The peer's window is less than two segments.
    SillyWindow,
    /// Losses without a queue: the path loses packets at any sending rate.
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
    /// Congestion control paces at the rate that it measured.
    Pacing,
    /// Our device is full.
    Device,
    /// The program at this end reads more slowly than data arrives.
    OurReader,
    /// Our receive buffer: the peer fills our window once a round trip.
    ReceiveBuffer,
    /// Received data has gaps: the path loses or reorders on the way to us.
    Path,
    /// The peer sends less than our window would take.
    Peer,
}

impl Limit {
    /// All limits.
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

    /// The name in JSON documents.
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
