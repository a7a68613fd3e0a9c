//! Compiles programs to x86-64 machine code.
//!
//! Called by: `Filter`, with the instructions of a validated program. This file finds where the
//! packet's length must be checked; `emit.rs` translates each instruction, `asm.rs` encodes machine
//! instructions, [`Page`] owns the memory, which is never writable and executable at once.

#![allow(unsafe_code, reason = "memory that is executed, and running it")]

mod asm;
mod emit;

use core::ffi::c_void;
use core::ptr;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::insn::{Insn, Op};
use crate::program::Program;

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Code {
    page: Page,
}

/// The function that the code begins with. It takes the packet, its captured length and its length
/// on the wire, and returns the program's result, or [`PAST_THE_END`] for a load outside the
/// packet.
type Entry = extern "sysv64" fn(*const u8, usize, u32) -> u64;

/// The value that stands for a load past the end. It cannot be a program's result, which has 32
/// bits.
const PAST_THE_END: u64 = 1 << 32;

/// Compile a program. `None` if it has jumps that go back, because machine code does not count them
/// and might never end.
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
    /// Run the code on the bytes of `head`; `None` if the program read past them.
    #[inline]
    pub(crate) fn run(&self, head: &[u8], wire_len: u32) -> Option<u32> {
        // SAFETY: the page begins with a function of this signature, which `emit::code` made from a
        // validated program. It reads only the `len` bytes at the pointer, as every load comes
        // after a comparison with `len`. It writes only the 64 bytes below the stack pointer, which
        // this calling convention lets a leaf function use. It changes only registers that the
        // callee may change. It ends, as every jump is forward. The page lives as long as `self`.
        let result = unsafe {
            let entry = core::mem::transmute::<*const u8, Entry>(self.page.start());
            entry(head.as_ptr(), head.len(), wire_len)
        };
        (result != PAST_THE_END).then_some(result as u32)
    }
}

#[cfg(test)]
mod tests;

// The code below decides where the packet's length must be checked. Few checks are needed, because
// one check covers all loads that every path to a match performs.
//
// A packet that is too short for a load gives 0, whatever ran before, because a program has no
// effect but its result. So the first check may require as many bytes as every path from there
// needs; paths that return 0 anyway do not count. Loads of those bytes need no check of their own.

/// For each instruction: how many bytes a packet must have, or else the program returns 0 on every
/// path from there. [`u64::MAX`] if it returns 0 for any packet.
fn needed(insns: &[Insn], ops: &[Op]) -> Vec<u64> {
    let mut needed = vec![0; insns.len()];
    for at in (0..insns.len()).rev() {
        let later = insns[at].followers(ops[at], at).into_iter().flatten();
        let least = later.map(|next| needed[next]).min();
        needed[at] = match ops[at] {
            Op::RetK if insns[at].k == 0 => u64::MAX,
            op => least.unwrap_or(0).max(reach(insns[at], op)),
        };
    }
    needed
}

/// The offset where a load at a constant offset ends; 0 for other instructions.
fn reach(insn: Insn, op: Op) -> u64 {
    let size = match op {
        Op::LdAbs(size) => size.bytes(),
        Op::LdxMsh => 1,
        _ => return 0,
    };
    u64::from(insn.k) + u64::from(size)
}

/// The packet length to check for, before a load that ends at `reach`, if at least `known` bytes
/// are known to exist; `None` if no check is needed.
fn look(needed: u64, reach: u64, known: u64) -> Option<u64> {
    if reach <= known {
        return None;
    }
    Some(if needed == u64::MAX { reach } else { needed })
}

/// A memory mapping that begins with the code and is no longer writable.
#[derive(Debug)]
struct Page {
    start: *mut c_void,
    len: usize,
}

// SAFETY: nothing writes to the mapping after `new`, and it is not bound to a thread.
unsafe impl Send for Page {}
// SAFETY: as above; shared, it is only read and executed.
unsafe impl Sync for Page {}

impl Page {
    /// Make a mapping that holds `code`.
    fn new(code: &[u8]) -> Result<Page, Errno> {
        let len = code.len().max(1);
        let (flags, writable) = (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the system chooses a free place; no other mapping is touched.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, writable, flags)? };
        let page = Page { start, len };
        // SAFETY: the mapping is new, writable, at least as long as the code, and ours alone.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), page.start.cast::<u8>(), code.len()) };
        // SAFETY: the mapping is ours, and no reference points into it.
        unsafe { mprotect(page.start, page.len, MprotectFlags::READ | MprotectFlags::EXEC)? };
        Ok(page)
    }

    /// The address of the code.
    #[inline]
    fn start(&self) -> *const u8 {
        self.start.cast::<u8>().cast_const()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and code that runs it borrows `self`. This cannot fail for
        // an existing mapping; if it did, the memory would only leak.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}
