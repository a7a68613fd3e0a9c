//! The limits of TELNET. No bytes of a peer can make an end keep more.
//!
//! Called by: all files of this crate.

/// Bytes of a sub-negotiation; a longer one is dropped and counted.
pub const SUBNEGOTIATION_BYTES: usize = 2_048;
/// Changes of an option that the other end may make; then the option is refused. A third party that
/// puts WONT and WILL into a connection would have its ends pass them on to each other for ever.
pub const CHANGES: u8 = 64;
/// Bytes of a line that the client edits, as the kernel's terminals hold; further ones ring the
/// bell.
pub const LINE_BYTES: usize = 4_095;
/// Bytes to be sent above which a program should read no more, from the connection, the keyboard
/// or the terminal.
pub const OUT_BYTES: usize = 64 << 10;
/// Bytes of answers to the other end that wait to be sent, above which a program reads nothing of
/// the connection. Input of the user and output of the program do not count: otherwise two ends
/// that both send more than the other reads would wait for each other for ever.
pub const ANSWER_BYTES: usize = 16 << 10;
/// Bytes that an end drops while it waits for a data mark, or for the answer to a timing mark.
pub const FLUSHED_BYTES: usize = 1 << 20;
/// Bytes of a terminal's type or of a variable's name or value that are kept.
pub const TEXT_BYTES: usize = 256;
/// Variables of the environment that are kept.
pub const VARIABLES: usize = 32;
