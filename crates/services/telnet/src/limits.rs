//! The limits of TELNET. Bytes from a peer cannot make an end keep more than this.
//!
//! Called by: all files of this crate.

/// Bytes of a sub-negotiation; a longer one is dropped and counted.
pub const SUBNEGOTIATION_BYTES: usize = 2_048;
/// How often the other end may change an option; after that the option is refused. If a third party
/// puts WONT and WILL into a connection, its two ends would otherwise pass them on to each other
/// for ever.
pub const CHANGES: u8 = 64;
/// The most bytes of a line that the client edits, as many as the kernel's terminals hold. Further
/// bytes ring the bell.
pub const LINE_BYTES: usize = 4_095;
/// While more bytes than this wait to be sent, a program should read no more from the connection,
/// the keyboard or the terminal.
pub const OUT_BYTES: usize = 64 << 10;
/// While more bytes of answers to the other end than this wait to be sent, a program reads nothing
/// from the connection. Input of the user and output of the program do not count. Otherwise two
/// ends that both send more than the other one reads would wait for each other for ever.
pub const ANSWER_BYTES: usize = 16 << 10;
/// How many bytes an end drops at most while it waits for a data mark, or for the answer to a
/// timing mark.
pub const FLUSHED_BYTES: usize = 1 << 20;
/// The most bytes that are kept of a terminal's type, or of a variable's name or value.
pub const TEXT_BYTES: usize = 256;
/// How many environment variables are kept.
pub const VARIABLES: usize = 32;
