//! Instructions of the classic BPF machine: their encoding and their meaning.
//!
//! Called by: everything in this crate. Source: McCanne and Jacobson, "The BSD Packet Filter"
//! (1993), and the opcodes of pcap/bpf.h, including MOD and XOR.

/// An instruction in the format of the kernel (`sock_filter`) and libpcap (`bpf_insn`): 8 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Insn {
    /// The opcode: class, size, mode, operation and operand.
    pub code: u16,
    /// How many instructions to skip if the condition of a jump holds.
    pub jt: u8,
    /// How many instructions to skip if the condition does not hold.
    pub jf: u8,
    /// A constant, an offset into the packet in bytes, an index, or how far to jump.
    pub k: u32,
}

const _: () = assert!(size_of::<Insn>() == 8);

/// A load at a constant offset of this or more does not read the packet: it asks the machine for a
/// value (`SKF_AD_OFF`). The offset minus this constant says for which one.
pub(crate) const ANCILLARY: u32 = 0xffff_f000;

/// The only such load that is supported here: it asks for the packet's type (`SKF_AD_PKTTYPE`).
/// libpcap compiles `inbound` and `outbound` to it.
pub(crate) const PACKET_TYPE: u32 = ANCILLARY + 4;

/// The type of a received packet (`PACKET_HOST`) and of a sent one (`PACKET_OUTGOING`). The code of
/// libpcap compares with the type of a sent packet only.
pub(crate) const RECEIVED: u32 = 0;
pub(crate) const SENT: u32 = 4;

/// The size of a load. Values of two and four bytes are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
}

impl Size {
    /// The size in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Size::Byte => 1,
            Size::Half => 2,
            Size::Word => 4,
        }
    }
}

/// The second operand of arithmetic and comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The instruction's constant.
    K,
    /// The index register.
    X,
}

/// Arithmetic on the accumulator A, modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AluOp {
    /// A + operand.
    Add,
    /// A - operand.
    Sub,
    /// A * operand.
    Mul,
    /// A / operand; if the operand is zero, the program returns 0.
    Div,
    /// A % operand; if the operand is zero, the program returns 0.
    Mod,
    /// Bitwise or.
    Or,
    /// Bitwise and.
    And,
    /// Bitwise exclusive or.
    Xor,
    /// Left shift; a shift by 32 or more gives zero.
    Lsh,
    /// Right shift; a shift by 32 or more gives zero.
    Rsh,
}

/// The condition of a jump: it compares the accumulator with the operand, both unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Equal.
    Eq,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// A and the operand have a one bit in common.
    Set,
}

/// What an instruction does. A is the accumulator, X the index register, M the scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A = packet at k.
    LdAbs(Size),
    /// A = packet at X + k; the sum does not wrap.
    LdInd(Size),
    /// A = length on the wire.
    LdLen,
    /// A = k.
    LdImm,
    /// A = M\[k\].
    LdMem,
    /// X = length on the wire.
    LdxLen,
    /// X = k.
    LdxImm,
    /// X = M\[k\].
    LdxMem,
    /// X = 4 * (low half of the byte at k): the length of an IPv4 header.
    LdxMsh,
    /// M\[k\] = A.
    St,
    /// M\[k\] = X.
    Stx,
    /// A = A op operand.
    Alu(AluOp, Operand),
    /// A = -A.
    Neg,
    /// Skip k instructions.
    Ja,
    /// Skip jt or jf instructions.
    Jump(Condition, Operand),
    /// Return k.
    RetK,
    /// Return A.
    RetA,
    /// X = A.
    Tax,
    /// A = X.
    Txa,
}

impl Insn {
    /// An instruction from its four fields, in order.
    pub const fn new(code: u16, jt: u8, jf: u8, k: u32) -> Insn {
        Insn { code, jt, jf, k }
    }

    /// An instruction that does `op`.
    pub const fn of(op: Op, jt: u8, jf: u8, k: u32) -> Insn {
        Insn { code: op.code(), jt, jf, k }
    }

    /// The instructions that may run next, after this one, which is at index `at` of a validated
    /// program and does `op`.
    pub(crate) fn followers(self, op: Op, at: usize) -> [Option<usize>; 2] {
        match op {
            Op::RetK | Op::RetA => [None, None],
            // A negative k jumps back.
            Op::Ja => [(at + 1).checked_add_signed(self.k as i32 as isize), None],
            Op::Jump(..) => {
                [Some(at + 1 + usize::from(self.jt)), Some(at + 1 + usize::from(self.jf))]
            }
            _ => [Some(at + 1), None],
        }
    }

    /// What the instruction does; `None` if the opcode is unknown.
    pub const fn op(self) -> Option<Op> {
        Some(match self.code {
            0x00 => Op::LdImm,
            0x20 => Op::LdAbs(Size::Word),
            0x28 => Op::LdAbs(Size::Half),
            0x30 => Op::LdAbs(Size::Byte),
            0x40 => Op::LdInd(Size::Word),
            0x48 => Op::LdInd(Size::Half),
            0x50 => Op::LdInd(Size::Byte),
            0x60 => Op::LdMem,
            0x80 => Op::LdLen,
            0x01 => Op::LdxImm,
            0x61 => Op::LdxMem,
            0x81 => Op::LdxLen,
            0xb1 => Op::LdxMsh,
            0x02 => Op::St,
            0x03 => Op::Stx,
            0x84 => Op::Neg,
            0x05 => Op::Ja,
            0x06 => Op::RetK,
            0x16 => Op::RetA,
            0x07 => Op::Tax,
            0x87 => Op::Txa,
            code if code & 0xff07 == 0x04 => match AluOp::of(code) {
                Some(op) => Op::Alu(op, operand(code)),
                None => return None,
            },
            code if code & 0xff07 == 0x05 => match Condition::of(code) {
                Some(condition) => Op::Jump(condition, operand(code)),
                None => return None,
            },
            _ => return None,
        })
    }
}

const fn operand(code: u16) -> Operand {
    if code & 0x08 == 0 { Operand::K } else { Operand::X }
}

impl AluOp {
    const fn of(code: u16) -> Option<AluOp> {
        Some(match code & 0xf0 {
            0x00 => AluOp::Add,
            0x10 => AluOp::Sub,
            0x20 => AluOp::Mul,
            0x30 => AluOp::Div,
            0x40 => AluOp::Or,
            0x50 => AluOp::And,
            0x60 => AluOp::Lsh,
            0x70 => AluOp::Rsh,
            0x90 => AluOp::Mod,
            0xa0 => AluOp::Xor,
            _ => return None,
        })
    }

    const fn bits(self) -> u16 {
        match self {
            AluOp::Add => 0x00,
            AluOp::Sub => 0x10,
            AluOp::Mul => 0x20,
            AluOp::Div => 0x30,
            AluOp::Or => 0x40,
            AluOp::And => 0x50,
            AluOp::Lsh => 0x60,
            AluOp::Rsh => 0x70,
            AluOp::Mod => 0x90,
            AluOp::Xor => 0xa0,
        }
    }
}

impl Condition {
    const fn of(code: u16) -> Option<Condition> {
        Some(match code & 0xf0 {
            0x10 => Condition::Eq,
            0x20 => Condition::Gt,
            0x30 => Condition::Ge,
            0x40 => Condition::Set,
            _ => return None,
        })
    }

    const fn bits(self) -> u16 {
        match self {
            Condition::Eq => 0x10,
            Condition::Gt => 0x20,
            Condition::Ge => 0x30,
            Condition::Set => 0x40,
        }
    }

    /// Does the condition hold for the accumulator `a` and the operand `b`?
    pub(crate) const fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Condition::Eq => a == b,
            Condition::Gt => a > b,
            Condition::Ge => a >= b,
            Condition::Set => a & b != 0,
        }
    }
}

impl Op {
    /// The opcode of this operation.
    pub const fn code(self) -> u16 {
        const fn size(size: Size) -> u16 {
            match size {
                Size::Word => 0x00,
                Size::Half => 0x08,
                Size::Byte => 0x10,
            }
        }
        const fn by(operand: Operand) -> u16 {
            match operand {
                Operand::K => 0x00,
                Operand::X => 0x08,
            }
        }
        match self {
            Op::LdImm => 0x00,
            Op::LdAbs(s) => 0x20 | size(s),
            Op::LdInd(s) => 0x40 | size(s),
            Op::LdMem => 0x60,
            Op::LdLen => 0x80,
            Op::LdxImm => 0x01,
            Op::LdxMem => 0x61,
            Op::LdxLen => 0x81,
            Op::LdxMsh => 0xb1,
            Op::St => 0x02,
            Op::Stx => 0x03,
            Op::Alu(op, operand) => 0x04 | op.bits() | by(operand),
            Op::Neg => 0x84,
            Op::Ja => 0x05,
            Op::Jump(condition, operand) => 0x05 | condition.bits() | by(operand),
            Op::RetK => 0x06,
            Op::RetA => 0x16,
            Op::Tax => 0x07,
            Op::Txa => 0x87,
        }
    }
}
