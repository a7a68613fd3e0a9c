//! The interpreter. Called by: `Program::run`, with steps of a program that was checked: it ends,
//! as every step leads forward. Must not know: instructions as they are written.
//!
//! It does to the last bit what libpcap's `bpf_filter` does; a test compares them.

use core::hint::cold_path;

use crate::insn::{AluOp, Operand, Size};
use crate::lower::{Code, Step};
use crate::packet::Packet;

/// Run `steps` over `packet`: bytes to keep, 0 for no match.
pub(crate) fn run(steps: &[Step], packet: &Packet<'_>) -> u32 {
    // None is a load outside the packet, or a division by zero.
    walk(steps, packet).unwrap_or(0)
}

fn walk(steps: &[Step], packet: &Packet<'_>) -> Option<u32> {
    let (mut a, mut x) = (0_u32, 0_u32);
    let mut m = [0_u32; 16];
    let mut at = 0;
    loop {
        let s = steps.get(at)?;
        let at_x = |offset: u32| u64::from(x) + u64::from(offset);
        // A jump that the processor predicts, rather than a choice of the next step by data, for
        // which that step would have to wait: hence the cold path, which may well be taken.
        macro_rules! go {
            ($condition:expr) => {{
                if $condition {
                    at = usize::from(s.jt);
                } else {
                    cold_path();
                    at = usize::from(s.jf);
                }
                continue;
            }};
        }
        match s.code {
            Code::WordEq => {
                a = word(packet, s.offset.into())?;
                go!(a == s.k)
            }
            Code::HalfEq => {
                a = half(packet, s.offset.into())?;
                go!(a == s.k)
            }
            Code::ByteEq => {
                a = byte(packet, s.offset.into())?;
                go!(a == s.k)
            }
            Code::WordSet => {
                a = word(packet, s.offset.into())?;
                go!(a & s.k != 0)
            }
            Code::HalfSet => {
                a = half(packet, s.offset.into())?;
                go!(a & s.k != 0)
            }
            Code::ByteSet => {
                a = byte(packet, s.offset.into())?;
                go!(a & s.k != 0)
            }
            Code::WordIndEq => {
                a = word(packet, at_x(s.offset))?;
                go!(a == s.k)
            }
            Code::HalfIndEq => {
                a = half(packet, at_x(s.offset))?;
                go!(a == s.k)
            }
            Code::ByteIndEq => {
                a = byte(packet, at_x(s.offset))?;
                go!(a == s.k)
            }
            Code::LdAbs(size) => a = load(packet, size, s.k.into())?,
            Code::LdInd(size) => a = load(packet, size, at_x(s.k))?,
            Code::LdLen => a = packet.wire_len,
            Code::LdImm => a = s.k,
            Code::LdMem => a = m[s.k as usize & 15],
            Code::LdxLen => x = packet.wire_len,
            Code::LdxImm => x = s.k,
            Code::LdxMem => x = m[s.k as usize & 15],
            Code::LdxMsh => x = (byte(packet, s.k.into())? & 0xf) << 2,
            Code::St => m[s.k as usize & 15] = a,
            Code::Stx => m[s.k as usize & 15] = x,
            Code::Alu(op, operand) => a = calculate(op, a, second(operand, s.k, x))?,
            Code::Neg => a = a.wrapping_neg(),
            Code::Ja => {}
            Code::Jump(condition, operand) => go!(condition.holds(a, second(operand, s.k, x))),
            Code::RetK => return Some(s.k),
            Code::RetA => return Some(a),
            Code::Tax => x = a,
            Code::Txa => a = x,
        }
        at = usize::from(s.jt);
    }
}

fn second(operand: Operand, k: u32, x: u32) -> u32 {
    match operand {
        Operand::K => k,
        Operand::X => x,
    }
}

/// A op b, modulo 2^32; None for a division by zero.
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

fn load(packet: &Packet<'_>, size: Size, offset: u64) -> Option<u32> {
    match size {
        Size::Byte => byte(packet, offset),
        Size::Half => half(packet, offset),
        Size::Word => word(packet, offset),
    }
}

#[inline(always)]
fn byte(packet: &Packet<'_>, offset: u64) -> Option<u32> {
    packet.bytes::<1>(offset).map(|b| b[0].into())
}

#[inline(always)]
fn half(packet: &Packet<'_>, offset: u64) -> Option<u32> {
    packet.bytes(offset).map(|b| u16::from_be_bytes(b).into())
}

#[inline(always)]
fn word(packet: &Packet<'_>, offset: u64) -> Option<u32> {
    packet.bytes(offset).map(u32::from_be_bytes)
}
