//! The script of an end of a connection: a list of writes, a list of reads, and how the end
//! finishes.
//!
//! Called by: `scripts`, `scenario`, tests. `app.rs` carries it out.

use base::Duration;

/// A step of an end's writing half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Write this many bytes, as fast as the stack takes them.
    Bytes(u64),
    /// Wait until the handshake is done, like a program with a blocking `connect`.
    AwaitOpen,
    /// Wait until this many bytes have been read in all.
    AwaitRead(u64),
    /// Do nothing for this long.
    Sleep(Duration),
    /// Close this half: the end sends a FIN.
    Finish,
}

/// A step of an end's reading half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Read this many bytes.
    Bytes(u64),
    /// Read nothing for this long.
    Stop(Duration),
    /// Read until the peer has closed its half.
    ToEnd,
}

/// What an end does once both lists are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Close the socket; queued bytes are still sent.
    Close,
    /// Reset the connection.
    Abort,
}

/// The script of one end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The writes, in their order.
    pub writes: Vec<Write>,
    /// The reads, in their order.
    pub reads: Vec<Read>,
    /// What the end does when both lists are done.
    pub finish: Finish,
}

impl Script {
    /// Does the end close its half, read the peer's stream to the end, and only then close the
    /// socket? If both ends do this, every byte has to arrive.
    pub fn is_graceful(&self) -> bool {
        self.writes.last() == Some(&Write::Finish)
            && self.reads.last() == Some(&Read::ToEnd)
            && self.finish == Finish::Close
    }
}
