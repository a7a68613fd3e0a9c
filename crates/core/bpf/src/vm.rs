//! The interpreter.
//!
//! Called by: `Program::run`, with the steps of a validated program, which ends because every jump
//! is forward, or because jumps that go back are counted. Its results are exactly those of
//! libpcap's `bpf_filter`; a test compares them.

use core::hint::cold_path;

use crate::insn::{AluOp, Op, Operand, Size};
use crate::lower::Step;
use crate::packet::Packet;

/// How often a program may jump back for one packet. Each round of `protochain` passes over a
/// header of at least 8 bytes, and a packet has at most 262,144 bytes.
pub const BACK_JUMPS_MAX: u32 = 262_144 / 8;

/// Run `steps` over `packet`; returns the number of bytes to keep, or 0 if the packet does not
/// match.
pub(crate) fn run(steps: &[Step], packet: &Packet<'_>) -> u32 {
    // `None` means a load outside the packet, a division by zero, or too many jumps back.
    walk(steps, packet).unwrap_or(0)
}

fn walk(steps: &[Step], packet: &Packet<'_>) -> Option<u32> {
    let (mut a, mut x) = (0_u32, 0_u32);
    // A is `a >> shift`: the shift is delayed, because after a pair A is rarely used.
    let mut shift = 0_u8;
    let mut m = [0_u32; 16];
    let mut back_jumps = 0;
    let mut at = 0;
    loop {
        match steps.get(at)? {
            // Most steps are pairs, which need no indirect jump per kind of load and comparison.
            Step::Pair(p) => {
                let offset = u64::from(x & p.x_mask) + u64::from(p.offset);
                a = match packet.in_head(offset) {
                    Some(bytes) => u32::from_be_bytes(bytes),
                    None => {
                        cold_path();
                        load(packet, p.size, offset)? << (p.shift & 31)
                    }
                };
                shift = p.shift;
                if (a & p.mask).wrapping_sub(p.first) <= p.span {
                    at += 2;
                } else {
                    // This path is not really cold. The hint makes the compiler emit a branch
                    // instead of a conditional move, for whose result the next step would have to
                    // wait.
                    cold_path();
                    at = usize::from(p.jump);
                }
            }
            Step::One(one) => {
                let k = one.k;
                let at_x = u64::from(x) + u64::from(k);
                at += 1;
                a >>= shift & 31;
                shift = 0;
                match one.op {
                    Op::LdAbs(size) => a = load(packet, size, k.into())?,
                    Op::LdInd(size) => a = load(packet, size, at_x)?,
                    Op::LdLen => a = packet.wire_len,
                    Op::LdImm => a = k,
                    Op::LdMem => a = m[k as usize & 15],
                    Op::LdxLen => x = packet.wire_len,
                    Op::LdxImm => x = k,
                    Op::LdxMem => x = m[k as usize & 15],
                    Op::LdxMsh => x = (load(packet, Size::Byte, k.into())? & 0xf) << 2,
                    Op::St => m[k as usize & 15] = a,
                    Op::Stx => m[k as usize & 15] = x,
                    Op::Alu(op, operand) => a = calculate(op, a, second(operand, k, x))?,
                    Op::Neg => a = a.wrapping_neg(),
                    Op::Ja => {
                        let to = usize::from(one.jump);
                        back_jumps += u32::from(to < at);
                        at = if back_jumps > BACK_JUMPS_MAX { return None } else { to };
                    }
                    Op::Jump(condition, operand) => {
                        let holds = condition.holds(a, second(operand, k, x));
                        at = usize::from(if holds { one.jump } else { one.otherwise });
                    }
                    Op::RetK => return Some(k),
                    Op::RetA => return Some(a),
                    Op::Tax => x = a,
                    Op::Txa => a = x,
                }
            }
        }
    }
}

fn second(operand: Operand, k: u32, x: u32) -> u32 {
    match operand {
        Operand::K => k,
        Operand::X => x,
    }
}

/// `a` op `b`, modulo 2^32; `None` for a division by zero.
pub(crate) fn calculate(op: AluOp, a: u32, b: u32) -> Option<u32> {
    Some(match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Div => a.checked_div(b)?,
        AluOp::Mod => a.checked_rem(b)?,
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::Xor => a ^ b,
        AluOp::Lsh => a.checked_shl(b).unwrap_or(0),
        AluOp::Rsh => a.checked_shr(b).unwrap_or(0),
    })
}

/// Load a big-endian value from the packet; `None` if it is past the packet's end.
#[inline(always)]
fn load(packet: &Packet<'_>, size: Size, offset: u64) -> Option<u32> {
    match size {
        Size::Byte => packet.bytes::<1>(offset).map(|b| b[0].into()),
        Size::Half => packet.bytes(offset).map(|b| u16::from_be_bytes(b).into()),
        Size::Word => packet.bytes(offset).map(u32::from_be_bytes),
    }
}
