//! Bytes of the machine instructions that filters need, and jumps that are filled in later.
//!
//! Called by: `emit.rs`. Source: Intel's Software Developer's Manual, volume 2. A is eax, X is ecx,
//! the packet is at rdi and has rsi bytes, r8d is its length on the wire; rax and rcx never have
//! their upper halves set. edx, r9, r10 and r11 are for anything.

/// Condition codes, as they end the opcode of a jump.
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
    /// The opposite.
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

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// The code of an instruction of the filter.
    Insn(usize),
    /// Return 0.
    Zero,
    /// Return that the packet ended too soon.
    PastTheEnd,
}

/// Code as it grows.
#[derive(Debug, Default)]
pub(super) struct Asm {
    code: Vec<u8>,
    /// Where four bytes of distance are missing, and where to.
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    /// Bytes as they are.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// Bytes, and a constant behind them.
    pub(super) fn put32(&mut self, bytes: &[u8], constant: u32) {
        self.put(bytes);
        self.put(&constant.to_le_bytes());
    }

    /// Where the next instruction will be.
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

    /// Jump to [`Label::PastTheEnd`] if fewer than `len` bytes are there.
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

    /// The code with every distance filled in; `place` says where a label is.
    pub(super) fn finish(mut self, place: impl Fn(Label) -> usize) -> Vec<u8> {
        for (at, label) in self.jumps {
            // The distance counts from behind itself. Code is far shorter than 2 GB.
            let distance = place(label).wrapping_sub(at + 4) as u32;
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code
    }
}
