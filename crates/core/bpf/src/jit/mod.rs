//! Compiles programs to x86-64 machine code.
//!
//! Called by: `Filter`, with the instructions of a validated program. `bounds.rs` finds where the
//! packet's length must be checked, `emit.rs` translates each instruction, `asm.rs` encodes machine
//! instructions, `page.rs` owns the memory, which is never writable and executable at once.

#![allow(unsafe_code, reason = "memory that is executed, and running it")]

mod asm;
mod bounds;
mod emit;
mod page;

use page::Page;

use crate::program::Program;

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Code {
    page: Page,
}

/// Takes the packet, its length, and its length on the wire. Returns the program's result, or
/// [`PAST_THE_END`] for a load outside the packet.
type Entry = extern "sysv64" fn(*const u8, usize, u32) -> u64;

/// Not a program's result, which has 32 bits.
const PAST_THE_END: u64 = 1 << 32;

/// Compile a program; `None` if its jumps go back, because nothing would bound it.
///
/// # Errors
/// The system granted no memory, or none that can be executed.
pub(crate) fn compile(program: &Program) -> Option<Result<Code, rustix::io::Errno>> {
    if program.goes_back() {
        return None;
    }
    let code = emit::code(program.answered(), program.unwritten());
    Some(Page::new(&code).map(|page| Code { page }))
}

impl Code {
    /// Run on the bytes of `head`; `None` if it read past them.
    #[inline]
    pub(crate) fn run(&self, head: &[u8], wire_len: u32) -> Option<u32> {
        // SAFETY: the page begins with a function of this signature, which `emit::code` made from a
        // validated program. It reads only the `len` bytes at the pointer, as every load is behind
        // a comparison with `len`. It writes only the 64 bytes below the stack pointer, which this
        // calling convention lets a leaf function use. It changes only registers that the callee
        // may change. It ends, as every jump is forward. The page lives as long as `self`.
        let result = unsafe {
            let entry = core::mem::transmute::<*const u8, Entry>(self.page.start());
            entry(head.as_ptr(), head.len(), wire_len)
        };
        (result != PAST_THE_END).then_some(result as u32)
    }
}

#[cfg(test)]
mod tests;
