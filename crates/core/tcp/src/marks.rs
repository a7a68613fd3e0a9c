//! Bit sets of a connection: work to do, events to report, results of the negotiation.
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
            /// Is any of these bits set?
            #[inline(always)]
            pub const fn has(self, bits: $repr) -> bool { self.0 & bits != 0 }
            /// Set these bits.
            #[inline(always)]
            pub fn set(&mut self, bits: $repr) { self.0 |= bits; }
            /// Clear these bits.
            #[inline(always)]
            pub fn clear(&mut self, bits: $repr) { self.0 &= !bits; }
            /// Return all bits, and clear them.
            #[inline(always)]
            pub fn take(&mut self) -> Self { core::mem::take(self) }
        }
    };
}

bits! {
    /// Work that `output` has to do for a connection.
    Todo: u8 {
        /// Something may be sendable: data, a window update, a retransmission.
        OUTPUT = 1;
        /// An ACK must go out now.
        ACK_NOW = 2;
        /// A SYN or SYN-ACK must go out (again).
        SYN = 4;
        /// A RST must go out, and then nothing more.
        RST = 8;
        /// A window probe must go out although the window is zero.
        PROBE = 16;
        /// A keepalive probe must go out.
        KEEPALIVE = 32;
        /// A tail loss probe must go out.
        TAIL = 64;
        /// Urgent data is queued or in flight: segments carry URG.
        URGENT = 128;
    }
}

bits! {
    /// State of explicit congestion notification (RFC 3168).
    EcnBits: u8 {
        /// ECN was negotiated.
        AGREED = 1;
        /// New data leaves as ECN-capable.
        SENDS = 2;
        /// A CE mark was received, and no CWR since: ACKs carry ECE. Same value as the ECE flag.
        ECHO = 0x40;
        /// cwnd was reduced: the next new data carries CWR. Same value as the CWR flag.
        CWR_DUE = 0x80;
    }
}

bits! {
    /// Events for the user of a connection.
    Events: u8 {
        /// The handshake is complete.
        CONNECTED = 1;
        /// There is data or end of stream to read.
        READABLE = 2;
        /// There is room to write.
        WRITABLE = 4;
        /// The peer has closed its half.
        PEER_CLOSED = 8;
        /// The connection has ended; `Tcb::error` contains the reason.
        CLOSED = 16;
        /// The peer has announced (more) urgent data.
        URGENT = 32;
        /// The first of consecutive time-outs: data is unacknowledged and is retransmitted.
        UNANSWERED = 64;
    }
}

bits! {
    /// The results of the negotiation, and what the user has done or asked for.
    Marks: u16 {
        /// Timestamps are on.
        TIMESTAMPS = 1;
        /// The peer accepts SACK options.
        SACK = 2;
        /// Opened by `connect`.
        ACTIVE = 4;
        /// The user will send no more: a FIN follows the queued data.
        SHUT_WRITE = 8;
        /// The user reads no more.
        SHUT_READ = 16;
        /// The user has closed the socket.
        ORPHAN = 32;
        /// Our FIN has been sent.
        FIN_SENT = 64;
        /// The peer's FIN has been taken.
        FIN_RECEIVED = 128;
        /// cwnd limited sending since the last ACK.
        CWND_LIMITED = 256;
        /// A write was cut short: report when there is room again.
        WRITE_BLOCKED = 512;
        /// Nagle's algorithm is off.
        NO_DELAY = 1024;
        /// Half-open: the stack's listener counts it.
        EMBRYONIC = 2048;
        /// Urgent data was announced and is not all read.
        URGENT = 4096;
        /// The search for a larger path MTU is active, or will be later.
        PATH_SEARCH = 8192;
        /// The path MTU search has a result that the stack has not taken yet.
        PATH_NEWS = 16384;
        /// The user will write more: a segment that is not full is held back.
        CORK = 32768;
    }
}
