//! Machine code reads no byte outside the packet: the pages before and after it are inaccessible,
//! so that a read one byte too far ends the test program.

use core::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::compile;
use crate::{Insn, Op, Packet, Program, Size};
use shared::{Rng, frame, program};

#[path = "../../tests/shared/mod.rs"]
mod shared;

const PAGE: usize = 4096;

/// Two writable pages between two inaccessible ones.
struct Fenced(*mut u8);

impl Fenced {
    fn new() -> Fenced {
        let (flags, prot) = (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the system chooses a free place; then the two outer pages of it, which nothing
        // refers to, become inaccessible.
        unsafe {
            let start = mmap_anonymous(ptr::null_mut(), 4 * PAGE, prot, flags).unwrap();
            for page in [0, 3] {
                mprotect(start.byte_add(page * PAGE), PAGE, MprotectFlags::empty()).unwrap();
            }
            Fenced(start.cast())
        }
    }

    /// The two writable pages, as bytes.
    fn middle(&mut self) -> &mut [u8] {
        // SAFETY: the two pages are mapped, initialised (zeroed by the system), and borrowed from
        // `self`.
        unsafe { core::slice::from_raw_parts_mut(self.0.add(PAGE), 2 * PAGE) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no borrow of it is left.
        unsafe { munmap(self.0.cast(), 4 * PAGE).unwrap() };
    }
}

#[test]
fn no_byte_outside_the_packet_is_read() {
    let mut fenced = Fenced::new();
    let mut rng = Rng::new(7);
    for _ in 0..4_000 {
        let program = program(&mut rng, 40);
        let code = compile(&program).expect("the program has no jump back").unwrap();
        for _ in 0..5 {
            let frame = frame(&mut rng);
            let len = frame.bytes.len();
            let expected = program.run(&Packet::cut(&frame.bytes, frame.wire_len));
            for begin in [0, 2 * PAGE - len] {
                let packet = &mut fenced.middle()[begin..begin + len];
                packet.copy_from_slice(&frame.bytes);
                assert_eq!(code.run(packet, frame.wire_len).unwrap_or(0), expected);
            }
        }
    }
}

#[test]
fn a_read_past_the_head_is_told_from_the_answer_0() {
    let load = Insn::of(Op::LdAbs(Size::Word), 0, 0, 4);
    let insns = [load, Insn::of(Op::RetK, 0, 0, u32::MAX)];
    let compiled = |insns: &[Insn]| {
        let program = Program::new(insns).expect("the program is valid");
        compile(&program).expect("the program has no jump back").unwrap()
    };
    let code = compiled(&insns);
    assert_eq!(code.run(&[0; 8], 8), Some(u32::MAX));
    assert_eq!(code.run(&[0; 7], 8), None);
    assert_eq!(code.run(&[], 8), None);
    assert_eq!(compiled(&[Insn::of(Op::RetK, 0, 0, 0)]).run(&[], 0), Some(0));
}

/// Miri cannot run machine code, but it checks the code that makes it.
#[test]
fn code_is_made_of_any_program() {
    let mut rng = Rng::new(3);
    for _ in 0..if cfg!(miri) { 20 } else { 2_000 } {
        let program = program(&mut rng, 40);
        let code = || super::emit::code(program.answered(), program.unwritten());
        assert!(!code().is_empty());
        assert_eq!(code(), code(), "the code of the second compilation differs");
    }
}
