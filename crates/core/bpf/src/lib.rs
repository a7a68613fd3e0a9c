//! Packet filters, the classic BPF machine, and taps that keep matching packets.
//!
//! [`Insn`] is an instruction in the format of the kernel and libpcap. [`Program`] is a validated
//! list of them, safe to run on any packet. [`Filter`] runs a program as machine code with the
//! feature `jit`, else by the interpreter. With the feature `libpcap`, [`Libpcap`] compiles filter
//! text to instructions. A [`Tap`] is a filter with buffers for the packets that matched.
//!
//! Called by: the stack's ports (`stack/taps.rs`), captures.
//!
//! ```
//! use bpf::{Filter, Insn, Packet, Program};
//!
//! // ether proto 0x0800: half word at 12, compare, keep 96 bytes or nothing.
//! let insns = [
//!     Insn::new(0x28, 0, 0, 12),
//!     Insn::new(0x15, 0, 1, 0x0800),
//!     Insn::new(0x06, 0, 0, 96),
//!     Insn::new(0x06, 0, 0, 0),
//! ];
//! let filter = Filter::new(Program::new(&insns)?);
//! let mut frame = [0; 60];
//! frame[12] = 8;
//! assert_eq!(filter.run(&Packet::whole(&frame)), 96);
//! # Ok::<(), bpf::Refusal>(())
//! ```

// The code that unit and integration tests share uses the crate by its name.
#[cfg(test)]
extern crate self as bpf;

mod buffer;
mod filter;
mod insn;
#[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
mod jit;
#[cfg(feature = "libpcap")]
mod libpcap;
mod lower;
mod packet;
mod print;
mod program;
mod tap;
mod validate;
mod vm;

pub use buffer::{Buffer, RECORD_HEADER_BYTES, Record, records};
pub use filter::Filter;
pub use insn::{AluOp, Condition, Insn, Op, Operand, Size};
#[cfg(feature = "libpcap")]
pub use libpcap::{Libpcap, LibpcapError, Source, linktype};
pub use packet::{Direction, Packet, Shown};
pub use print::Listing;
pub use program::Program;
pub use tap::{BUFFER_BYTES_MAX, Counters, SNAPLEN_MAX, Settings, Tap, TapError};
pub use validate::{INSNS_MAX, Reason, Refusal, SCRATCH_WORDS};
pub use vm::BACK_JUMPS_MAX;
