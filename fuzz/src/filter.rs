//! Packet filters: any instructions over any packet. A program that the validator accepts runs to
//! its end and reads no byte that is not there. Machine code and interpreter give the same result,
//! for a packet in one piece and in two.
//!
//! Called by: the target `filter`.

use bpf::{Filter, INSNS_MAX, Insn, Listing, Packet, Program};

/// Bytes of an instruction as it is written here: opcode, two skips, constant, little-endian.
const INSN_LEN: usize = 8;

/// A byte that says whether instructions are repaired, how many there are, where the packet is cut
/// in two, how much longer it was on the wire; the instructions; the packet.
pub fn any_program(data: &[u8]) {
    let Some((&[repair, count, cut, longer], data)) = data.split_first_chunk::<4>() else { return };
    let len = usize::from(count).min(data.len() / INSN_LEN);
    let (insns, packet) = data.split_at(len * INSN_LEN);
    let mut insns: Vec<Insn> = insns.chunks_exact(INSN_LEN).map(read).collect();
    if repair & 1 == 1 {
        for (at, insn) in insns.iter_mut().enumerate() {
            *insn = repaired(*insn, len - 1 - at);
        }
    }
    assert_eq!(Listing(&insns).to_string().lines().count(), len);
    let program = match Program::new(&insns) {
        Ok(program) => program,
        Err(refusal) => {
            assert!(refusal.at < len || (len == 0 && refusal.at == 0), "{refusal} of {len}");
            return;
        }
    };
    assert!(len <= INSNS_MAX);
    let wire_len = packet.len() as u32 + u32::from(longer);
    let (head, rest) = packet.split_at(usize::from(cut).min(packet.len()));
    // The packet is on the heap in memory of its exact length, so that AddressSanitizer sees a read
    // past its end.
    let (whole, head, rest) = (packet.to_vec(), head.to_vec(), rest.to_vec());
    let whole = Packet::cut(&whole, wire_len);
    let in_two = Packet::in_two(&head, &rest, wire_len);
    let expected = program.run(&whole);
    assert_eq!(program.run(&in_two), expected, "{}", Listing(&insns));
    let filter = Filter::new(program);
    assert_eq!(filter.run(&whole), expected, "{}", Listing(&insns));
    assert_eq!(filter.run(&in_two), expected, "{}", Listing(&insns));
}

fn read(bytes: &[u8]) -> Insn {
    let code = u16::from_le_bytes([bytes[0], bytes[1]]);
    Insn::new(
        code,
        bytes[2],
        bytes[3],
        u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    )
}

/// Fix most of the faults, so that most programs run: an opcode that exists, jumps inside.
fn repaired(insn: Insn, left: usize) -> Insn {
    let known = |code: &u16| Insn::new(*code, 0, 0, 0).op().is_some();
    let codes: Vec<u16> = (0..0x100).filter(known).collect();
    let mut insn = insn;
    if insn.op().is_none() {
        insn.code = codes[usize::from(insn.code) % codes.len()];
    }
    match (insn.code & 7, left) {
        (_, 0) => insn.code = if insn.k & 1 == 0 { 0x06 } else { 0x16 },
        (5, _) if insn.code == 0x05 => insn.k %= left as u32,
        (5, _) => {
            insn.jt = (usize::from(insn.jt) % left) as u8;
            insn.jf = (usize::from(insn.jf) % left) as u8;
        }
        (2 | 3, _) => insn.k %= 16,
        _ if matches!(insn.code, 0x60 | 0x61) => insn.k %= 16,
        _ => {}
    }
    insn
}

/// `tcp and port 80 and host 10.0.0.1` as libpcap compiles it, and a frame that matches.
pub fn real_program() -> Vec<u8> {
    const PROGRAM: [(u16, u8, u8, u32); 17] = [
        (0x28, 0, 0, 12),
        (0x15, 0, 14, 0x0800),
        (0x30, 0, 0, 23),
        (0x15, 0, 12, 6),
        (0x28, 0, 0, 20),
        (0x45, 10, 0, 0x1fff),
        (0xb1, 0, 0, 14),
        (0x48, 0, 0, 14),
        (0x15, 2, 0, 80),
        (0x48, 0, 0, 16),
        (0x15, 0, 5, 80),
        (0x20, 0, 0, 26),
        (0x15, 2, 0, 0x0a00_0001),
        (0x20, 0, 0, 30),
        (0x15, 0, 1, 0x0a00_0001),
        (0x06, 0, 0, 262_144),
        (0x06, 0, 0, 0),
    ];
    let mut bytes = vec![0, PROGRAM.len() as u8, 20, 0];
    for (code, jt, jf, k) in PROGRAM {
        bytes.extend(code.to_le_bytes());
        bytes.extend([jt, jf]);
        bytes.extend(k.to_le_bytes());
    }
    let mut frame = [0; 60];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[23] = 6;
    frame[26..34].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
    frame[34..38].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    bytes.extend(frame);
    bytes
}
