//! Emits machine code, instruction by instruction.
//!
//! Called by: `jit::compile`. `asm.rs` documents the use of registers; M is in the 64 bytes below
//! the stack pointer.

use super::PAST_THE_END;
use super::asm::{Asm, Cc, Label};
use crate::insn::{AluOp, Condition, Insn, Op, Operand, Size};

/// The machine code of a function that runs a validated program. `unwritten` has a bit for each
/// word of M that the function has to set to 0 at its beginning.
pub(super) fn code(insns: &[Insn], unwritten: u16) -> Vec<u8> {
    let ops: Vec<Op> = insns.iter().filter_map(|insn| insn.op()).collect();
    assert_eq!(ops.len(), insns.len(), "the program was checked");
    let needed = super::needed(insns, &ops);
    // For each instruction: how many packet bytes are known to exist, on every path to it. u64::MAX
    // marks unreachable instructions.
    let mut known = vec![u64::MAX; insns.len()];
    known[0] = 0;
    let mut places = vec![0; insns.len()];
    let mut asm = Asm::default();
    // A and X begin as 0: xor eax, eax; xor ecx, ecx; mov r8d, edx.
    asm.put(&[0x31, 0xc0, 0x31, 0xc9, 0x41, 0x89, 0xd0]);
    for k in (0..16).filter(|k| unwritten & 1 << k != 0) {
        one(&mut asm, 0, Insn::of(Op::St, 0, 0, k), Op::St);
    }
    for at in 0..insns.len() {
        places[at] = asm.here();
        if known[at] == u64::MAX {
            continue;
        }
        let (insn, op) = (insns[at], ops[at]);
        let mut here = known[at];
        if let Some(len) = super::look(needed[at], super::reach(insn, op), here) {
            asm.need(len);
            here = len;
        }
        one(&mut asm, at, insn, op);
        for next in insn.followers(op, at).into_iter().flatten() {
            known[next] = known[next].min(here);
        }
    }
    let zero = asm.here();
    // xor eax, eax; ret
    asm.put(&[0x31, 0xc0, 0xc3]);
    let past_the_end = asm.here();
    // mov rax, PAST_THE_END; ret
    asm.put(&[0x48, 0xb8]);
    asm.put(&PAST_THE_END.to_le_bytes());
    asm.put(&[0xc3]);
    asm.finish(|label| match label {
        Label::Insn(at) => places[at],
        Label::Zero => zero,
        Label::PastTheEnd => past_the_end,
    })
}

fn one(asm: &mut Asm, at: usize, insn: Insn, op: Op) {
    let k = insn.k;
    // M[k] is at rsp - 64 + 4 k.
    let word = (4 * (k & 15)).wrapping_sub(64) as u8;
    match op {
        Op::LdAbs(size) => absolute(asm, size, k),
        Op::LdInd(size) => indirect(asm, size, k),
        // mov eax, r8d; mov ecx, r8d
        Op::LdLen => asm.put(&[0x44, 0x89, 0xc0]),
        Op::LdxLen => asm.put(&[0x44, 0x89, 0xc1]),
        // mov eax, k; mov ecx, k
        Op::LdImm => asm.put32(&[0xb8], k),
        Op::LdxImm => asm.put32(&[0xb9], k),
        // mov eax, [rsp + word]; mov ecx, [rsp + word]; and back
        Op::LdMem => asm.put(&[0x8b, 0x44, 0x24, word]),
        Op::LdxMem => asm.put(&[0x8b, 0x4c, 0x24, word]),
        Op::St => asm.put(&[0x89, 0x44, 0x24, word]),
        Op::Stx => asm.put(&[0x89, 0x4c, 0x24, word]),
        Op::LdxMsh => header_length(asm, k),
        Op::Alu(op, Operand::K) => with_constant(asm, op, k),
        Op::Alu(op, Operand::X) => with_index(asm, op),
        // neg eax
        Op::Neg => asm.put(&[0xf7, 0xd8]),
        Op::Ja if k == 0 => {}
        Op::Ja => asm.jmp(Label::Insn(at + 1 + k as usize)),
        Op::Jump(condition, operand) => jump(asm, at, insn, condition, operand),
        Op::RetK => {
            asm.put32(&[0xb8], k);
            asm.put(&[0xc3]);
        }
        Op::RetA => asm.put(&[0xc3]),
        // mov ecx, eax; mov eax, ecx
        Op::Tax => asm.put(&[0x89, 0xc1]),
        Op::Txa => asm.put(&[0x89, 0xc8]),
    }
}

/// Append the opcode of mov or movzx to eax; the caller appends the address bytes.
fn load(asm: &mut Asm, size: Size) -> &mut Asm {
    asm.put(match size {
        Size::Word => &[0x8b],
        Size::Half => &[0x0f, 0xb7],
        Size::Byte => &[0x0f, 0xb6],
    });
    asm
}

/// Convert the loaded value from big-endian: bswap eax for four bytes, rol ax, 8 for two.
fn swap(asm: &mut Asm, size: Size) {
    asm.put(match size {
        Size::Word => &[0x0f, 0xc8],
        Size::Half => &[0x66, 0xc1, 0xc0, 0x08],
        Size::Byte => &[],
    });
}

/// Does `k`, plus the size of a load, fit an address displacement, which is a signed 32-bit value?
fn is_near(k: u32) -> bool {
    k < i32::MAX as u32 - 8
}

fn absolute(asm: &mut Asm, size: Size, k: u32) {
    if is_near(k) {
        // [rdi + k]
        load(asm, size).put32(&[0x87], k);
    } else {
        // mov r10d, k; [rdi + r10]
        asm.put32(&[0x41, 0xba], k);
        asm.put(&[0x42]);
        load(asm, size).put(&[0x04, 0x17]);
    }
    swap(asm, size);
}

/// A load at X + k; the sum has 64 bits and does not wrap.
fn indirect(asm: &mut Asm, size: Size, k: u32) {
    let bytes = size.bytes();
    if is_near(k) {
        // lea r10, [rcx + k + size]; cmp r10, rsi
        asm.put32(&[0x4c, 0x8d, 0x91], k + bytes);
        asm.put(&[0x49, 0x39, 0xf2]);
        asm.jcc(Cc::Above, Label::PastTheEnd);
        // [rdi + rcx + k]
        load(asm, size).put32(&[0x84, 0x0f], k);
    } else {
        // mov r10d, k; add r10, rcx; lea r11, [r10 + size]; cmp r11, rsi
        asm.put32(&[0x41, 0xba], k);
        asm.put(&[0x49, 0x01, 0xca, 0x4d, 0x8d, 0x5a, bytes as u8, 0x49, 0x39, 0xf3]);
        asm.jcc(Cc::Above, Label::PastTheEnd);
        // [rdi + r10]
        asm.put(&[0x42]);
        load(asm, size).put(&[0x04, 0x17]);
    }
    swap(asm, size);
}

fn header_length(asm: &mut Asm, k: u32) {
    if is_near(k) {
        // movzx ecx, byte [rdi + k]
        asm.put32(&[0x0f, 0xb6, 0x8f], k);
    } else {
        // mov r10d, k; movzx ecx, byte [rdi + r10]
        asm.put32(&[0x41, 0xba], k);
        asm.put(&[0x42, 0x0f, 0xb6, 0x0c, 0x17]);
    }
    // and ecx, 15; shl ecx, 2
    asm.put(&[0x83, 0xe1, 0x0f, 0xc1, 0xe1, 0x02]);
}

fn with_constant(asm: &mut Asm, op: AluOp, k: u32) {
    let shift = |asm: &mut Asm, which: u8| match k {
        // shl or shr eax, k; xor eax, eax
        0..32 => asm.put(&[0xc1, which, k as u8]),
        _ => asm.put(&[0x31, 0xc0]),
    };
    match op {
        AluOp::Add => asm.put32(&[0x05], k),
        AluOp::Sub => asm.put32(&[0x2d], k),
        AluOp::Or => asm.put32(&[0x0d], k),
        AluOp::And => asm.put32(&[0x25], k),
        AluOp::Xor => asm.put32(&[0x35], k),
        // imul eax, eax, k
        AluOp::Mul => asm.put32(&[0x69, 0xc0], k),
        AluOp::Lsh => shift(asm, 0xe0),
        AluOp::Rsh => shift(asm, 0xe8),
        AluOp::Div | AluOp::Mod => {
            // mov r9d, k; xor edx, edx; div r9d
            asm.put32(&[0x41, 0xb9], k);
            asm.put(&[0x31, 0xd2, 0x41, 0xf7, 0xf1]);
            remainder(asm, op);
        }
    }
}

fn with_index(asm: &mut Asm, op: AluOp) {
    match op {
        AluOp::Add => asm.put(&[0x01, 0xc8]),
        AluOp::Sub => asm.put(&[0x29, 0xc8]),
        AluOp::Or => asm.put(&[0x09, 0xc8]),
        AluOp::And => asm.put(&[0x21, 0xc8]),
        AluOp::Xor => asm.put(&[0x31, 0xc8]),
        // imul eax, ecx
        AluOp::Mul => asm.put(&[0x0f, 0xaf, 0xc1]),
        AluOp::Lsh | AluOp::Rsh => {
            // shl or shr eax, cl; xor edx, edx; cmp ecx, 31; cmova eax, edx
            asm.put(&[0xd3, if op == AluOp::Lsh { 0xe0 } else { 0xe8 }]);
            asm.put(&[0x31, 0xd2, 0x83, 0xf9, 0x1f, 0x0f, 0x47, 0xc2]);
        }
        AluOp::Div | AluOp::Mod => {
            // test ecx, ecx; je zero; xor edx, edx; div ecx
            asm.put(&[0x85, 0xc9]);
            asm.jcc(Cc::Equal, Label::Zero);
            asm.put(&[0x31, 0xd2, 0xf7, 0xf1]);
            remainder(asm, op);
        }
    }
}

/// After a division, which leaves the remainder in edx: mov eax, edx.
fn remainder(asm: &mut Asm, op: AluOp) {
    if op == AluOp::Mod {
        asm.put(&[0x89, 0xd0]);
    }
}

fn jump(asm: &mut Asm, at: usize, insn: Insn, condition: Condition, operand: Operand) {
    let to = |skip: u8| Label::Insn(at + 1 + usize::from(skip));
    if insn.jt == insn.jf {
        if insn.jt > 0 {
            asm.jmp(to(insn.jt));
        }
        return;
    }
    match (condition, operand) {
        // test eax, k; test eax, ecx; cmp eax, k; cmp eax, ecx
        (Condition::Set, Operand::K) => asm.put32(&[0xa9], insn.k),
        (Condition::Set, Operand::X) => asm.put(&[0x85, 0xc8]),
        (_, Operand::K) => asm.put32(&[0x3d], insn.k),
        (_, Operand::X) => asm.put(&[0x39, 0xc8]),
    }
    let cc = match condition {
        Condition::Eq => Cc::Equal,
        Condition::Gt => Cc::Above,
        Condition::Ge => Cc::NotBelow,
        Condition::Set => Cc::NotEqual,
    };
    match (insn.jt, insn.jf) {
        (jt, 0) => asm.jcc(cc, to(jt)),
        (0, jf) => asm.jcc(cc.not(), to(jf)),
        (jt, jf) => {
            asm.jcc(cc, to(jt));
            asm.jmp(to(jf));
        }
    }
}
