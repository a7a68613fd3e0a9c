//! A small assembler: encodes the machine instructions that filters need, and resolves jumps.
//!
//! Called by: `emit.rs`. Source: Intel's Software Developer's Manual, volume 2. A is eax, X is ecx,
//! the packet is at rdi and has rsi bytes, r8d is its length on the wire; the upper halves of rax
//! and rcx are always zero. edx, r9, r10 and r11 are scratch registers.

/// Condition codes: the low bits of a conditional jump's opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cc {
    Below = 2,
    NotBelow = 3,
    Equal = 4,
    NotEqual = 5,
    NotAbove = 6,
    Above = 7,
}

impl Cc {
    /// The opposite condition.
    pub(super) fn not(self) -> Cc {
        match self {
            Cc::Below => Cc::NotBelow,
            Cc::NotBelow => Cc::Below,
            Cc::Equal => Cc::NotEqual,
            Cc::NotEqual => Cc::Equal,
            Cc::NotAbove => Cc::Above,
            Cc::Above => Cc::NotAbove,
        }
    }
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// The code of an instruction of the filter.
    Insn(usize),
    /// Return 0.
    Zero,
    /// Return [`super::PAST_THE_END`].
    PastTheEnd,
}

/// Machine code under construction.
#[derive(Debug, Default)]
pub(super) struct Asm {
    code: Vec<u8>,
    /// Jumps whose distance is not filled in yet: the offset of its four bytes, and the target.
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    /// Append bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// Append bytes, then a 32-bit constant in little-endian order.
    pub(super) fn put32(&mut self, bytes: &[u8], constant: u32) {
        self.put(bytes);
        self.put(&constant.to_le_bytes());
    }

    /// The offset of the next instruction.
    pub(super) fn here(&self) -> usize {
        self.code.len()
    }

    /// Jump to `label`.
    pub(super) fn jmp(&mut self, label: Label) {
        self.put(&[0xe9]);
        self.distance(label);
    }

    /// Jump to `label` if `cc` holds.
    pub(super) fn jcc(&mut self, cc: Cc, label: Label) {
        self.put(&[0x0f, 0x80 | cc as u8]);
        self.distance(label);
    }

    fn distance(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(&[0; 4]);
    }

    /// Jump to [`Label::PastTheEnd`] if the packet has fewer than `len` bytes.
    pub(super) fn need(&mut self, len: u64) {
        match i32::try_from(len) {
            // cmp rsi, len
            Ok(len) => self.put32(&[0x48, 0x81, 0xfe], len as u32),
            Err(_) => {
                // mov r10, len; cmp rsi, r10
                self.put(&[0x49, 0xba]);
                self.put(&len.to_le_bytes());
                self.put(&[0x4c, 0x39, 0xd6]);
            }
        }
        self.jcc(Cc::Below, Label::PastTheEnd);
    }

    /// Fill in every distance and return the code; `place` gives the offset of a label.
    pub(super) fn finish(mut self, place: impl Fn(Label) -> usize) -> Vec<u8> {
        for (at, label) in self.jumps {
            // The distance counts from the end of its four bytes. Code is far shorter than 2 GB.
            let distance = place(label).wrapping_sub(at + 4) as u32;
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code
    }
}
