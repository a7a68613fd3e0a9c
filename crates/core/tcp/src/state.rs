//! The states of a connection, and the reasons why one ends.
//!
//! Called by: every file of this crate with logic in it. RFC 9293 section 3.3.2.

use core::fmt;

/// The states of RFC 9293 section 3.3.2. LISTEN is the stack's listener; a connection in TIME-WAIT
/// is a small record (`TimeWait`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// No connection; the stack removes it.
    Closed,
    /// SYN sent, none received.
    SynSent,
    /// SYN received and sent; our SYN is not yet acknowledged.
    SynReceived,
    /// Data flows.
    Established,
    /// The peer has closed, we have not.
    CloseWait,
    /// We have closed; FIN not yet acknowledged.
    FinWait1,
    /// Our FIN is acknowledged; the peer has not closed.
    FinWait2,
    /// Both closed at once; our FIN not yet acknowledged.
    Closing,
    /// The peer closed, then we; our FIN not yet acknowledged.
    LastAck,
    /// Both closed; the stack keeps a record and removes the rest.
    TimeWait,
}

impl State {
    /// The name that RFC 9293 uses.
    pub const fn name(self) -> &'static str {
        match self {
            State::Closed => "CLOSED",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::CloseWait => "CLOSE-WAIT",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
        }
    }

    /// Have both SYNs been acknowledged?
    pub const fn is_synchronised(self) -> bool {
        !matches!(self, State::Closed | State::SynSent | State::SynReceived)
    }

    /// May the peer still send data?
    pub const fn peer_may_send(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// May data still be sent, such as data queued before a close?
    pub const fn may_send(self) -> bool {
        matches!(
            self,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::Closing
                | State::LastAck
        )
    }
}

/// Why a connection ended other than by both sides closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The peer answered our SYN with RST.
    Refused,
    /// The peer reset an open connection.
    Reset,
    /// The peer did not answer in time.
    TimedOut,
    /// This side reset the connection.
    Aborted,
    /// The port that carried it was removed.
    NetworkDown,
    /// A router reports no route to the peer's network.
    NetUnreachable,
    /// A router, or neighbour resolution on our own link, reports that the peer's host does not
    /// answer.
    HostUnreachable,
    /// The peer's host does not speak TCP.
    ProtocolUnreachable,
    /// A router on the path prohibits the communication.
    Prohibited,
}

/// The error in the words of strerror(3), if strerror has it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Refused => "Connection refused",
            Error::Reset => "Connection reset by peer",
            Error::TimedOut => "Connection timed out",
            Error::Aborted => "Software caused connection abort",
            Error::NetworkDown => "Network is down",
            Error::NetUnreachable => "Network is unreachable",
            Error::HostUnreachable => "No route to host",
            Error::ProtocolUnreachable => "Protocol not available",
            Error::Prohibited => "Prohibited by a router on the path",
        })
    }
}

impl core::error::Error for Error {}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No room or no data now; an event will report when there is.
    WouldBlock,
    /// This side was closed for writing, or was never open.
    Closed,
    /// The connection ended.
    Failed(Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::WouldBlock => f.write_str("Resource temporarily unavailable"),
            CallError::Closed => f.write_str("Transport endpoint is not connected"),
            CallError::Failed(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for CallError {}
