//! Prints programs in the formats of `tcpdump -d`, `-dd` and `-ddd`.
//!
//! Called by: programs that print a filter. Invalid programs print too: an unknown opcode is
//! `unimp`.

use core::fmt;

use crate::insn::{AluOp, Condition, Insn, Op, Operand, PACKET_TYPE, Size};

/// Instructions to print; `{}` prints one per line, as `tcpdump -d` does.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a>(pub &'a [Insn]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, insn) in self.0.iter().enumerate() {
            let (name, operand) = words(number, *insn);
            match insn.op() {
                Some(Op::Jump(..)) => {
                    let (jt, jf) = (target(number, insn.jt), target(number, insn.jf));
                    writeln!(f, "({number:03}) {name:8} {operand:16} jt {jt}\tjf {jf}")?;
                }
                _ => writeln!(f, "({number:03}) {name:8} {operand}")?,
            }
        }
        Ok(())
    }
}

impl Listing<'_> {
    /// The instructions as members of a C array (`tcpdump -dd`).
    pub fn c_array(&self) -> String {
        let line = |i: &Insn| format!("{{ {:#x}, {}, {}, {:#010x} }},\n", i.code, i.jt, i.jf, i.k);
        self.0.iter().map(line).collect()
    }

    /// The number of instructions, then each instruction in decimal numbers (`tcpdump -ddd`).
    pub fn decimal(&self) -> String {
        let line = |i: &Insn| format!("{} {} {} {}\n", i.code, i.jt, i.jf, i.k);
        format!("{}\n", self.0.len()) + &self.0.iter().map(line).collect::<String>()
    }
}

fn target(number: usize, skip: u8) -> usize {
    number + 1 + usize::from(skip)
}

fn words(number: usize, insn: Insn) -> (&'static str, String) {
    let k = insn.k;
    // Offsets and amounts are printed as a C int.
    let signed = k as i32;
    let load = |size: Size| match size {
        Size::Word => "ld",
        Size::Half => "ldh",
        Size::Byte => "ldb",
    };
    match insn.op() {
        None => ("unimp", format!("{:#x}", insn.code)),
        Some(op) => match op {
            Op::LdAbs(size) if k == PACKET_TYPE => (load(size), "[type]".to_owned()),
            Op::LdAbs(size) => (load(size), format!("[{signed}]")),
            Op::LdInd(size) => (load(size), format!("[x + {signed}]")),
            Op::LdLen => ("ld", "#pktlen".to_owned()),
            Op::LdImm => ("ld", format!("#{k:#x}")),
            Op::LdMem => ("ld", format!("M[{signed}]")),
            Op::LdxLen => ("ldx", "#pktlen".to_owned()),
            Op::LdxImm => ("ldx", format!("#{k:#x}")),
            Op::LdxMem => ("ldx", format!("M[{signed}]")),
            Op::LdxMsh => ("ldxb", format!("4*([{signed}]&0xf)")),
            Op::St => ("st", format!("M[{signed}]")),
            Op::Stx => ("stx", format!("M[{signed}]")),
            Op::Alu(op, operand) => arithmetic(op, operand, k),
            Op::Neg => ("neg", String::new()),
            Op::Ja => ("ja", format!("{}", (number as u32).wrapping_add(1).wrapping_add(k) as i32)),
            Op::Jump(condition, operand) => (
                jump(condition),
                if operand == Operand::X { "x".into() } else { format!("#{k:#x}") },
            ),
            Op::RetK => ("ret", format!("#{signed}")),
            Op::RetA => ("ret", String::new()),
            Op::Tax => ("tax", String::new()),
            Op::Txa => ("txa", String::new()),
        },
    }
}

fn jump(condition: Condition) -> &'static str {
    match condition {
        Condition::Eq => "jeq",
        Condition::Gt => "jgt",
        Condition::Ge => "jge",
        Condition::Set => "jset",
    }
}

fn arithmetic(op: AluOp, operand: Operand, k: u32) -> (&'static str, String) {
    let (name, is_mask) = match op {
        AluOp::Add => ("add", false),
        AluOp::Sub => ("sub", false),
        AluOp::Mul => ("mul", false),
        AluOp::Div => ("div", false),
        AluOp::Mod => ("mod", false),
        AluOp::Or => ("or", true),
        AluOp::And => ("and", true),
        AluOp::Xor => ("xor", true),
        AluOp::Lsh => ("lsh", false),
        AluOp::Rsh => ("rsh", false),
    };
    let words = match operand {
        Operand::X => "x".to_owned(),
        Operand::K if is_mask => format!("#{k:#x}"),
        Operand::K => format!("#{}", k as i32),
    };
    (name, words)
}
