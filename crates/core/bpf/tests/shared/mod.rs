//! Shared by the tests: seeded random numbers, valid programs, packets of every kind.

use bpf::{AluOp, Condition, Insn, Op, Operand, Program, Reason, SCRATCH_WORDS, Size};

/// A seeded random generator (xorshift64*).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A random number from 0 to n - 1.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(n)) >> 32) as u32
    }

    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// A random constant: mostly small, sometimes a boundary value.
    pub(crate) fn constant(&mut self) -> u32 {
        const EDGES: [u32; 14] = [
            0,
            1,
            31,
            32,
            33,
            0xff,
            0xffff,
            0x7fff_fff6,
            0x7fff_fff7,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_f000,
            0xffff_fffe,
            0xffff_ffff,
        ];
        match self.below(8) {
            0 => self.pick(&EDGES),
            1 => self.next(),
            2 | 3 => self.below(16),
            _ => self.below(80),
        }
    }
}

const SIZES: [Size; 3] = [Size::Byte, Size::Half, Size::Word];
const OPERANDS: [Operand; 2] = [Operand::K, Operand::X];
const CONDITIONS: [Condition; 4] = [Condition::Eq, Condition::Gt, Condition::Ge, Condition::Set];
const ALU: [AluOp; 10] = [
    AluOp::Add,
    AluOp::Sub,
    AluOp::Mul,
    AluOp::Div,
    AluOp::Mod,
    AluOp::Or,
    AluOp::And,
    AluOp::Xor,
    AluOp::Lsh,
    AluOp::Rsh,
];

/// A random valid program of up to `len_max` instructions.
pub(crate) fn program(rng: &mut Rng, len_max: u32) -> Program {
    let len = 1 + rng.below(len_max);
    let mut insns: Vec<Insn> = (0..len).map(|at| insn(rng, len - 1 - at)).collect();
    loop {
        let at = match Program::new(&insns) {
            // libpcap does not define the value of an unwritten word of M.
            Ok(program) => match program.first_unwritten() {
                Some(at) => at,
                None => return program,
            },
            Err(refusal) if matches!(refusal.reason, Reason::Ancillary(_)) => refusal.at,
            Err(refusal) => panic!("{refusal} in {insns:?}"),
        };
        insns[at] = Insn::of(Op::LdImm, 0, 0, rng.constant());
    }
}

/// A random instruction that may stand before `left` others.
fn insn(rng: &mut Rng, left: u32) -> Insn {
    let k = rng.constant();
    if left == 0 || rng.one_in(40) {
        let op = rng.pick(&[Op::RetK, Op::RetA, Op::RetA]);
        return Insn::of(op, 0, 0, if rng.one_in(3) { 0 } else { k });
    }
    let skip = |rng: &mut Rng| {
        let near = 2 + rng.below(12);
        rng.below(left.min(near))
    };
    match rng.below(24) {
        0..5 => Insn::of(Op::LdAbs(rng.pick(&SIZES)), 0, 0, k),
        5..8 => Insn::of(Op::LdInd(rng.pick(&SIZES)), 0, 0, k),
        8 => Insn::of(Op::LdxMsh, 0, 0, k),
        9 => Insn::of(rng.pick(&[Op::LdLen, Op::LdxLen]), 0, 0, 0),
        10 => Insn::of(rng.pick(&[Op::LdImm, Op::LdxImm]), 0, 0, k),
        11 => Insn::of(rng.pick(&[Op::LdMem, Op::LdxMem]), 0, 0, rng.below(SCRATCH_WORDS)),
        12..14 => Insn::of(rng.pick(&[Op::St, Op::Stx]), 0, 0, rng.below(SCRATCH_WORDS)),
        14 => Insn::of(rng.pick(&[Op::Tax, Op::Txa, Op::Neg, Op::Tax]), 0, 0, 0),
        15 => Insn::of(Op::Ja, 0, 0, skip(rng)),
        16..19 => {
            let op = Op::Jump(rng.pick(&CONDITIONS), rng.pick(&OPERANDS));
            Insn::of(op, skip(rng) as u8, skip(rng) as u8, k)
        }
        _ => arithmetic(rng, k),
    }
}

fn arithmetic(rng: &mut Rng, k: u32) -> Insn {
    let (op, operand) = (rng.pick(&ALU), rng.pick(&OPERANDS));
    let k = match (op, operand) {
        (AluOp::Div | AluOp::Mod, Operand::K) => k.max(1),
        // libpcap's constant shift by 32 or more is undefined behaviour in C.
        (AluOp::Lsh | AluOp::Rsh, Operand::K) => k % 32,
        _ => k,
    };
    Insn::of(Op::Alu(op, operand), 0, 0, k)
}

/// A packet and the length it had on the wire.
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) wire_len: u32,
}

const MACS: [[u8; 6]; 5] = [
    [0xff; 6],
    [0x01, 0, 0x5e, 0, 0, 1],
    [0x33, 0x33, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 2],
];
const PORTS: [u16; 12] = [20, 22, 53, 67, 80, 443, 500, 1023, 5001, 8080, 40_000, 65_535];
const PROTOCOLS: [u8; 14] = [6, 6, 6, 6, 17, 17, 17, 1, 58, 2, 47, 50, 89, 132];

/// An Ethernet frame: mostly well formed, with fields that filters test; sometimes truncated,
/// sometimes random bytes.
pub(crate) fn frame(rng: &mut Rng) -> Frame {
    if rng.one_in(12) {
        let len = rng.below(120) as usize;
        let bytes = rng.bytes(len);
        return Frame { wire_len: bytes.len() as u32, bytes };
    }
    let mut bytes = Vec::new();
    bytes.extend(rng.pick(&MACS));
    bytes.extend(rng.pick(&MACS));
    for _ in 0..rng.pick(&[0, 0, 0, 0, 1, 1, 2]) {
        bytes.extend(rng.pick(&[0x8100_u16, 0x88a8, 0x9100]).to_be_bytes());
        bytes.extend(rng.pick(&[1_u16, 7, 100, 0x6064, 0xffff]).to_be_bytes());
    }
    match rng.below(16) {
        0..8 => ipv4(rng, &mut bytes),
        8..12 => ipv6(rng, &mut bytes),
        12..14 => arp(rng, &mut bytes),
        14 => {
            // An 802.3 length and LLC, or an EtherType other than IP and ARP.
            bytes.extend(
                rng.pick(&[0x26_u16, 0x8847, 0x8863, 0x8864, 0x88cc, 0x809b]).to_be_bytes(),
            );
            bytes.extend(rng.pick(&[[0x42, 0x42, 3], [0xaa, 0xaa, 3], [0xfe, 0xfe, 3]]));
            bytes.extend(rng.bytes(60));
        }
        _ => {
            bytes.extend([0x88, 0x47, 0, 1, rng.pick(&[0x01, 0x00]), 64]);
            bytes.extend(rng.bytes(40));
        }
    }
    let wire_len = bytes.len() as u32;
    if rng.one_in(4) {
        bytes.truncate(rng.below(wire_len + 1) as usize);
    }
    Frame { bytes, wire_len }
}

fn ipv4(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const ADDRESSES: [[u8; 4]; 7] = [
        [10, 0, 0, 1],
        [10, 0, 0, 1],
        [10, 0, 0, 2],
        [192, 168, 1, 7],
        [224, 0, 0, 1],
        [255, 255, 255, 255],
        [172, 16, 3, 4],
    ];
    let words = rng.pick(&[5, 5, 5, 6, 15, 3]);
    let protocol = rng.pick(&PROTOCOLS);
    let transport = transport(rng, protocol);
    let total = (words as usize * 4 + transport.len()) as u16;
    bytes.extend([8, 0, 0x40 | words, rng.pick(&[0, 0, 0xb8, 3])]);
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 9]);
    bytes.extend(rng.pick(&[0_u16, 0x4000, 0x4000, 0x2000, 0x2010, 0x0010]).to_be_bytes());
    bytes.extend([rng.pick(&[1, 64, 255]), protocol, 0, 0]);
    bytes.extend(rng.pick(&ADDRESSES));
    bytes.extend(rng.pick(&ADDRESSES));
    bytes.extend(rng.bytes(4 * usize::from(words.max(5) - 5)));
    bytes.extend(transport);
}

fn ipv6(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const ADDRESSES: [[u16; 8]; 5] = [
        [0xfe80, 0, 0, 0, 0, 0, 0, 1],
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1],
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2],
        [0xff02, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, 1],
    ];
    let protocol = rng.pick(&PROTOCOLS);
    let transport = transport(rng, protocol);
    let extension = rng.pick(&[None, None, None, Some(0), Some(43), Some(44), Some(60)]);
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    bytes.extend((transport.len() as u16 + 8 * u16::from(extension.is_some())).to_be_bytes());
    bytes.extend([extension.unwrap_or(protocol), 64]);
    for _ in 0..2 {
        bytes.extend(rng.pick(&ADDRESSES).into_iter().flat_map(u16::to_be_bytes));
    }
    if extension.is_some() {
        bytes.extend([protocol, 0, 0, rng.pick(&[0, 1, 8]), 0, 0, 0, 1]);
    }
    bytes.extend(transport);
}

fn transport(rng: &mut Rng, protocol: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    match protocol {
        6 | 17 | 132 => {
            bytes.extend(rng.pick(&PORTS).to_be_bytes());
            bytes.extend(rng.pick(&PORTS).to_be_bytes());
        }
        1 => bytes.extend([rng.pick(&[0, 3, 8, 11]), rng.pick(&[0, 1, 4]), 0, 0]),
        58 => bytes.extend([rng.pick(&[1, 128, 129, 135, 136]), 0, 0, 0]),
        _ => {}
    }
    if protocol == 6 {
        let words = rng.pick(&[5, 5, 8, 15]);
        bytes.extend(rng.bytes(8));
        bytes.extend([words << 4, rng.pick(&[0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x29])]);
        bytes.extend(rng.bytes(6 + 4 * usize::from(words - 5)));
        bytes.extend(rng.pick(&[&b""[..], b"GET / HTTP/1.1", b"\x16\x03\x01\x02"]));
    }
    let len = rng.pick(&[0, 1, 6, 20, 100]);
    bytes.extend(rng.bytes(len));
    bytes
}

fn arp(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let ether_type = rng.pick(&[0x0806_u16, 0x0806, 0x8035]);
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend([0, 1, 8, 0, 6, 4, 0, rng.pick(&[1, 2])]);
    for _ in 0..2 {
        bytes.extend(rng.pick(&MACS));
        bytes.extend([10, 0, 0, rng.pick(&[1, 2])]);
    }
}
