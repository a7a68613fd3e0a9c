//! Sets of facts about a connection that take a bit each: what is to be done, what is to be told,
//! what was agreed.
//!
//! Called by: every file of this crate with logic in it; the stack, for events.

macro_rules! bits {
    ($(#[$doc:meta])* $name:ident: $repr:ty {
        $($(#[$bit_doc:meta])* $bit:ident = $value:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub $repr);
        impl $name {
            $($(#[$bit_doc])* pub const $bit: $repr = $value;)*
            /// Is any of these set?
            #[inline(always)]
            pub const fn has(self, bits: $repr) -> bool { self.0 & bits != 0 }
            /// Set these.
            #[inline(always)]
            pub fn set(&mut self, bits: $repr) { self.0 |= bits; }
            /// Clear these.
            #[inline(always)]
            pub fn clear(&mut self, bits: $repr) { self.0 &= !bits; }
            /// Take all, leaving none.
            #[inline(always)]
            pub fn take(&mut self) -> Self { core::mem::take(self) }
        }
    };
}

bits! {
    /// What `output` has to do for a connection.
    Todo: u8 {
        /// Something may be sendable: data, a window, a retransmission.
        OUTPUT = 1;
        /// An ACK must go out now.
        ACK_NOW = 2;
        /// A SYN or SYN-ACK must go out (again).
        SYN = 4;
        /// A RST must go out, and then nothing more.
        RST = 8;
        /// A window probe must go out although the window is shut.
        PROBE = 16;
        /// A keepalive probe must go out.
        KEEPALIVE = 32;
        /// A tail loss probe must go out.
        TAIL = 64;
        /// Urgent data is on its way: what is sent says so.
        URGENT = 128;
    }
}

bits! {
    /// Where explicit congestion notification stands (RFC 3168).
    EcnBits: u8 {
        /// Both ends know it.
        AGREED = 1;
        /// New data leaves as ECN-capable.
        SENDS = 2;
        /// A mark came, and no CWR since: ACKs say so. The value of the flag ECE.
        ECHO = 0x40;
        /// The window was reduced: the next new data says so. The value of the flag CWR.
        CWR_DUE = 0x80;
    }
}

bits! {
    /// What the user of a connection may want to know.
    Events: u8 {
        /// The handshake is done.
        CONNECTED = 1;
        /// There is more to read, or the end of it.
        READABLE = 2;
        /// There is room to write.
        WRITABLE = 4;
        /// The peer has closed its half.
        PEER_CLOSED = 8;
        /// The connection is over; `Tcb::error` says how.
        CLOSED = 16;
        /// The peer has announced urgent data, or more of it.
        URGENT = 32;
        /// A first time-out in a row: what was sent is not acknowledged, and goes again.
        UNANSWERED = 64;
    }
}

bits! {
    /// What was agreed, and where the user stands.
    Marks: u16 {
        /// Timestamps are on.
        TIMESTAMPS = 1;
        /// The peer takes SACK options.
        SACK = 2;
        /// Opened by `connect`.
        ACTIVE = 4;
        /// The user will send no more: a FIN follows the queued data.
        SHUT_WRITE = 8;
        /// The user reads no more.
        SHUT_READ = 16;
        /// The user has let go of the socket.
        ORPHAN = 32;
        /// Our FIN has been sent.
        FIN_SENT = 64;
        /// The peer's FIN has been taken.
        FIN_RECEIVED = 128;
        /// The congestion window held data back since the last ACK.
        CWND_LIMITED = 256;
        /// A write was cut short: say when there is room again.
        WRITE_BLOCKED = 512;
        /// Nagle's algorithm is off.
        NO_DELAY = 1024;
        /// Waiting to be accepted: the stack's listener counts it.
        EMBRYONIC = 2048;
        /// Urgent data has been announced, and not all of it been read.
        URGENT = 4096;
        /// Larger segments may be tried, now or later.
        PATH_SEARCH = 8192;
        /// What the path carries was found out, and the stack has not been told.
        PATH_NEWS = 16384;
        /// The user is about to write more: a segment that is not full waits for it.
        CORK = 32768;
    }
}
