//! Programs as x86-64 machine code.
//!
//! Called by: `Filter`, with instructions of a program that was checked. `bounds.rs` finds where
//! the packet's length must be looked at, `emit.rs` writes an instruction after the other,
//! `asm.rs` knows bytes of machine instructions, `page.rs` has the memory, which is never writable
//! and executable at once.

#![allow(unsafe_code, reason = "memory that is executed, and running it")]

mod asm;
mod bounds;
mod emit;
mod page;

use page::Page;

use crate::insn::Insn;

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Code {
    page: Page,
}

/// Packet, its length, its length on the wire. Returns what the program does; [`PAST_THE_END`] for
/// a load outside the packet.
type Entry = extern "sysv64" fn(*const u8, usize, u32) -> u64;

/// No program returns this, as a program returns 32 bits.
const PAST_THE_END: u64 = 1 << 32;

/// Compile the instructions of a checked program.
///
/// # Errors
/// The system gave no memory, or none that can be executed.
pub(crate) fn compile(insns: &[Insn]) -> Result<Code, rustix::io::Errno> {
    Ok(Code { page: Page::new(&emit::code(insns))? })
}

impl Code {
    /// Run over the bytes of `head`; None if it read past them.
    #[inline]
    pub(crate) fn run(&self, head: &[u8], wire_len: u32) -> Option<u32> {
        // SAFETY: the page holds what `emit::code` made of a checked program, from its first byte:
        // a function of this signature. It reads inside the `len` bytes at the pointer alone, as
        // every load is behind a comparison with `len`; it writes to the 64 bytes below the stack
        // pointer, which this calling convention lets a leaf function use; it changes registers
        // that belong to the callee; and it ends, as every jump is forward. The page lives as long
        // as `self`.
        let result = unsafe {
            let entry = core::mem::transmute::<*const u8, Entry>(self.page.start());
            entry(head.as_ptr(), head.len(), wire_len)
        };
        (result != PAST_THE_END).then_some(result as u32)
    }
}

#[cfg(test)]
mod tests;
