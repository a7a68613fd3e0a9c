//! The numbers of TELNET: commands (RFC 854, RFC 1184), options, and the contents of
//! sub-negotiations.
//!
//! Called by: all files of this crate, and programs.

/// Interpret as command.
pub const IAC: u8 = 255;
/// Asks the other end not to perform an option.
pub const DONT: u8 = 254;
/// Asks the other end to perform an option.
pub const DO: u8 = 253;
/// Refuses to perform an option.
pub const WONT: u8 = 252;
/// Offers to perform an option.
pub const WILL: u8 = 251;
/// Begins a sub-negotiation.
pub const SB: u8 = 250;
/// Go ahead.
pub const GA: u8 = 249;
/// Erase line.
pub const EL: u8 = 248;
/// Erase character.
pub const EC: u8 = 247;
/// Are you there?
pub const AYT: u8 = 246;
/// Abort output.
pub const AO: u8 = 245;
/// Interrupt process.
pub const IP: u8 = 244;
/// Break.
pub const BRK: u8 = 243;
/// Data mark.
pub const DM: u8 = 242;
/// No operation.
pub const NOP: u8 = 241;
/// Ends a sub-negotiation.
pub const SE: u8 = 240;
/// End of record.
pub const EOR: u8 = 239;
/// Abort process (RFC 1184).
pub const ABORT: u8 = 238;
/// Suspend process (RFC 1184).
pub const SUSP: u8 = 237;
/// End of file (RFC 1184).
pub const EOF: u8 = 236;

/// Option: eight-bit data (RFC 856).
pub const BINARY: u8 = 0;
/// Option: the performer echoes what it receives (RFC 857).
pub const ECHO: u8 = 1;
/// Option: no GA is sent (RFC 858).
pub const SGA: u8 = 3;
/// Option: the state of all options (RFC 859).
pub const STATUS: u8 = 5;
/// Option: a mark in the data (RFC 860).
pub const TIMING_MARK: u8 = 6;
/// Option: terminal type (RFC 1091).
pub const TTYPE: u8 = 24;
/// Option: window size (RFC 1073).
pub const NAWS: u8 = 31;
/// Option: terminal speed (RFC 1079).
pub const TSPEED: u8 = 32;
/// Option: remote flow control (RFC 1372).
pub const LFLOW: u8 = 33;
/// Option: LINEMODE (RFC 1184).
pub const LINEMODE: u8 = 34;
/// Option: environment (RFC 1572).
pub const NEW_ENVIRON: u8 = 39;

/// Sub-negotiation: the value follows.
pub const IS: u8 = 0;
/// Sub-negotiation: asks for the value.
pub const SEND: u8 = 1;

/// LINEMODE: the mask of modes follows.
pub const LM_MODE: u8 = 1;
/// LINEMODE: after DO, DONT, WILL or WONT. The mask says which characters send the line.
pub const LM_FORWARDMASK: u8 = 2;
/// LINEMODE: special characters.
pub const LM_SLC: u8 = 3;
