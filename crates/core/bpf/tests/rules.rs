//! Which programs are refused and why; results of programs; machine code compared with the
//! interpreter.

mod shared;

use bpf::{
    AluOp, BACK_JUMPS_MAX, Condition, Direction, Filter, INSNS_MAX, Insn, Listing, Op, Operand,
    Packet, Program, Reason, Refusal, Size,
};
use shared::{Rng, frame, program};

const RET: Insn = Insn::of(Op::RetK, 0, 0, 7);
const LDB: Insn = Insn::of(Op::LdAbs(Size::Byte), 0, 0, 0);

fn jeq(jt: u8, jf: u8) -> Insn {
    Insn::of(Op::Jump(Condition::Eq, Operand::K), jt, jf, 0)
}

fn refused(insns: &[Insn]) -> (usize, Reason) {
    let Refusal { at, reason } = Program::new(insns).expect_err("an invalid program was accepted");
    (at, reason)
}

fn run(insns: &[Insn], packet: &[u8]) -> u32 {
    let program = Program::new(insns).unwrap();
    let by_hand = program.run(&Packet::whole(packet));
    assert_eq!(Filter::new(program).run(&Packet::whole(packet)), by_hand);
    by_hand
}

#[test]
fn every_rule_refuses_the_program_that_breaks_it() {
    let of = |op, k| Insn::of(op, 0, 0, k);
    let div = |op| of(Op::Alu(op, Operand::K), 0);
    let cases: &[(&[Insn], (usize, Reason))] = &[
        (&[], (0, Reason::Empty)),
        (&[RET; INSNS_MAX + 1], (INSNS_MAX, Reason::TooLong(INSNS_MAX + 1))),
        (&[RET, Insn::new(0x0e, 0, 0, 0), RET], (1, Reason::UnknownOpcode(0x0e))),
        (&[Insn::new(0x120, 0, 0, 0), RET], (0, Reason::UnknownOpcode(0x120))),
        (&[Insn::new(0x8c, 0, 0, 0), RET], (0, Reason::UnknownOpcode(0x8c))),
        (&[of(Op::Ja, 1), RET], (0, Reason::JumpOutside(1))),
        (&[RET, of(Op::Ja, u32::MAX), RET], (1, Reason::JumpOutside(u32::MAX))),
        (&[of(Op::Ja, 0)], (0, Reason::JumpOutside(0))),
        (&[jeq(1, 0), RET], (0, Reason::JumpOutside(1))),
        (&[jeq(0, 255), RET], (0, Reason::JumpOutside(255))),
        (&[of(Op::St, 16), RET], (0, Reason::ScratchIndex(16))),
        (&[of(Op::Stx, u32::MAX), RET], (0, Reason::ScratchIndex(u32::MAX))),
        (&[of(Op::LdMem, 16), RET], (0, Reason::ScratchIndex(16))),
        (&[of(Op::LdxMem, 99), RET], (0, Reason::ScratchIndex(99))),
        (
            &[of(LDB.op().expect("LDB is valid"), 0xffff_f000), RET],
            (0, Reason::Ancillary(0xffff_f000)),
        ),
        (&[LDB, of(Op::LdAbs(Size::Word), u32::MAX), RET], (1, Reason::Ancillary(u32::MAX))),
        (&[div(AluOp::Div), RET], (0, Reason::DivisionByZero)),
        (&[div(AluOp::Mod), RET], (0, Reason::DivisionByZero)),
        (&[RET, LDB], (1, Reason::NoReturn)),
        (&[LDB], (0, Reason::NoReturn)),
    ];
    for (insns, expected) in cases {
        assert_eq!(refused(insns), *expected, "{}", Listing(insns));
    }
}

#[test]
fn a_word_that_no_path_wrote_is_zero() {
    let of = |op, k| Insn::of(op, 0, 0, k);
    let ret = of(Op::RetA, 0);
    let program = |insns: &[Insn]| Program::new(insns).expect("the program is valid");
    for (insns, first, expected) in [
        (&[of(Op::LdImm, 9), of(Op::LdMem, 3), ret][..], Some(1), 0),
        (&[of(Op::LdImm, 9), of(Op::St, 3), of(Op::LdMem, 3), ret], None, 9),
        (
            &[of(Op::LdxMem, 15), of(Op::Txa, 0), of(Op::Alu(AluOp::Add, Operand::K), 5), ret],
            Some(0),
            5,
        ),
        // M[0] is written on one path and not on the other.
        (&[LDB, jeq(0, 1), of(Op::St, 0), of(Op::LdMem, 0), ret], Some(3), 0),
    ] {
        // Fill the stack, where machine code keeps M, with other values first.
        let dirty: Vec<Insn> = (0..16).map(|k| of(Op::Stx, k)).collect();
        run(&[&[of(Op::LdxImm, 77)], &dirty[..], &[RET]].concat(), &[8]);
        assert_eq!(run(insns, &[8]), expected, "{}", Listing(insns));
        assert_eq!(program(insns).first_unwritten(), first, "{}", Listing(insns));
    }
}

#[test]
fn a_load_of_the_packets_type_is_answered_by_its_direction() {
    const TYPE: u32 = 0xffff_f004;
    for size in [Size::Byte, Size::Half, Size::Word] {
        // The program that libpcap makes of `outbound`.
        let outbound = [
            Insn::of(Op::LdAbs(size), 0, 0, TYPE),
            Insn::of(Op::Jump(Condition::Eq, Operand::K), 0, 1, 4),
            RET,
            Insn::of(Op::RetK, 0, 0, 0),
        ];
        let program = Program::new(&outbound).expect("the program is valid");
        assert_eq!(program.insns(), outbound);
        let filter = Filter::new(program.clone());
        assert!(filter.asks_direction() && filter.always().is_none());
        for (direction, keep) in [(Direction::In, 0), (Direction::Out, 7)] {
            assert_eq!(program.of(direction).run(&Packet::whole(&[])), keep);
            assert_eq!(filter.of(direction).run(&Packet::whole(&[])), keep);
        }
    }
    let other = Filter::new(Program::new(&[LDB, RET]).expect("the program is valid"));
    assert!(!other.asks_direction());
    assert_eq!(other.of(Direction::Out).run(&Packet::whole(&[1])), 7);
}

#[test]
fn a_program_goes_back_where_it_may_and_comes_to_an_end() {
    let of = |op, k| Insn::of(op, 0, 0, k);
    // X = 0; while the byte at X is not 0, X += 1; return X.
    let back = (-5_i32) as u32;
    let search = [
        of(Op::LdxImm, 0),
        of(Op::LdInd(Size::Byte), 0),
        Insn::of(Op::Jump(Condition::Eq, Operand::K), 4, 0, 0),
        of(Op::Txa, 0),
        of(Op::Alu(AluOp::Add, Operand::K), 1),
        of(Op::Tax, 0),
        of(Op::Ja, back - 1),
        of(Op::Txa, 0),
        of(Op::RetA, 0),
    ];
    assert_eq!(refused(&search), (6, Reason::JumpOutside(back - 1)));
    let program = Program::with_loops(&search).expect("the program may go back");
    assert!(program.goes_back());
    let filter = Filter::new(program);
    assert!(!filter.is_compiled());
    assert_eq!(filter.run(&Packet::whole(&[1, 1, 1, 0])), 3);
    // First a load past the packet's end, then a loop that never ends.
    assert_eq!(filter.run(&Packet::whole(&[1, 1])), 0);
    let forever =
        Program::with_loops(&[of(Op::Ja, u32::MAX), RET]).expect("the program may go back");
    assert_eq!(forever.run(&Packet::whole(&[1])), 0);
    let as_often = vec![1; BACK_JUMPS_MAX as usize];
    assert_eq!(filter.run(&Packet::whole(&[&as_often[..], &[0]].concat())), BACK_JUMPS_MAX);
    assert_eq!(filter.run(&Packet::whole(&[&as_often[..], &[1, 0]].concat())), 0);
    let outside = Program::with_loops(&[LDB, of(Op::Ja, (-3_i32) as u32), RET]);
    assert_eq!(outside.map(|_| ()).map_err(|e| e.at), Err(1));
}

#[test]
fn a_refusal_says_which_instruction_and_why() {
    let refusal = Program::new(&[RET, LDB]).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the filter is refused: instruction 1: it is the last and no RET"
    );
}

#[cfg(feature = "libpcap")]
#[test]
fn a_missing_libpcap_is_named_with_its_package() {
    let missing = bpf::LibpcapError::Missing("no such file".into()).to_string();
    assert!(missing.contains("no such file") && missing.contains("libpcap0.8"), "{missing}");
}

#[test]
fn what_is_just_within_the_rules_may_run() {
    assert_eq!(run(&[RET], &[]), 7);
    assert!(Program::new(&[RET; INSNS_MAX]).is_ok());
    let both = [
        LDB,
        jeq(0, 1),
        Insn::of(Op::St, 0, 0, 15),
        Insn::of(Op::Stx, 0, 0, 15),
        Insn::of(Op::LdMem, 0, 0, 15),
        Insn::of(Op::RetA, 0, 0, 0),
    ];
    assert_eq!(run(&both, &[9]), 0);
    let far: Vec<Insn> = [jeq(255, 255)].into_iter().chain([RET; 256]).collect();
    assert_eq!(run(&far, &[]), 7);
    // The second instruction is unreachable: what it reads does not matter.
    assert_eq!(run(&[Insn::of(Op::Ja, 0, 0, 1), Insn::of(Op::LdMem, 0, 0, 1), RET], &[]), 7);
}

/// Every instruction of the longest program runs, including a jump over nothing, a load and a
/// store.
#[test]
fn the_longest_program_is_run_to_its_end() {
    let of = |op, k| Insn::of(op, 0, 0, k);
    let mut insns = vec![of(Op::LdImm, 0), of(Op::St, 7), of(Op::LdxImm, 3)];
    // Ten instructions that together add a byte of the packet, and 5, to M[7].
    let round = [
        of(Op::LdAbs(Size::Byte), 1),
        of(Op::Stx, 2),
        of(Op::LdxMem, 7),
        of(Op::Alu(AluOp::Add, Operand::X), 0),
        of(Op::Ja, 0),
        of(Op::Alu(AluOp::Add, Operand::K), 5),
        Insn::of(Op::Jump(Condition::Ge, Operand::K), 0, 0, 1_000),
        of(Op::St, 7),
        of(Op::LdxMem, 2),
        of(Op::LdMem, 7),
    ];
    let rounds = (INSNS_MAX - insns.len() - 1) / round.len();
    for _ in 0..rounds {
        insns.extend(round);
    }
    let ones = INSNS_MAX - 1 - insns.len();
    insns.extend(vec![of(Op::Alu(AluOp::Add, Operand::K), 1); ones]);
    insns.push(of(Op::RetA, 0));
    assert_eq!(insns.len(), INSNS_MAX);
    let filter = Filter::new(Program::new(&insns).expect("the program has the maximum length"));
    let can_compile = cfg!(all(feature = "jit", unix, target_arch = "x86_64"));
    assert_eq!(filter.is_compiled(), can_compile);
    for byte in [0_u8, 1, 77, 255] {
        let expected = rounds as u32 * (u32::from(byte) + 5) + ones as u32;
        let frame = [9, byte];
        let packet = Packet::whole(&frame);
        assert_eq!(filter.program().run(&packet), expected, "interpreted");
        assert_eq!(filter.run(&packet), expected, "the filter and the interpreter disagree");
        assert_eq!(filter.run(&Packet::in_two(&frame[..1], &frame[1..], 2)), expected);
        assert_eq!(
            filter.run(&Packet::whole(&frame[..1])),
            0,
            "a packet that is too short matched"
        );
    }
}

#[test]
fn an_opcode_means_one_thing_and_is_written_one_way() {
    let known = (0..=u16::MAX).filter(|&code| {
        let op = Insn::new(code, 0, 0, 1).op();
        assert!(op.is_none_or(|op| op.code() == code), "{code:#x}");
        op.is_some()
    });
    // 49 = 13 loads, 2 stores, 21 arithmetic operations, 9 jumps, 2 returns and 2 moves.
    assert_eq!(known.count(), 49);
}

#[test]
fn a_load_past_the_end_and_a_division_by_zero_return_0() {
    let ld = |size, k| [Insn::of(Op::LdAbs(size), 0, 0, k), RET];
    let packet = [1; 8];
    for (size, last) in [(Size::Byte, 7), (Size::Half, 6), (Size::Word, 4)] {
        assert_eq!(run(&ld(size, last), &packet), 7);
        for k in [last + 1, 8, 0x7fff_ffff, 0xffff_effc, 0xffff_efff] {
            assert_eq!(run(&ld(size, k), &packet), 0, "{size:?} at {k:#x}");
        }
    }
    let ind = |x, k| [Insn::of(Op::LdxImm, 0, 0, x), Insn::of(Op::LdInd(Size::Half), 0, 0, k), RET];
    assert_eq!(run(&ind(3, 3), &packet), 7);
    assert_eq!(run(&ind(3, 4), &packet), 0);
    // The sum X + k does not wrap.
    assert_eq!(run(&ind(u32::MAX, 1), &packet), 0);
    assert_eq!(run(&ind(1, u32::MAX), &packet), 0);
    for op in [AluOp::Div, AluOp::Mod] {
        assert_eq!(run(&[Insn::of(Op::Alu(op, Operand::X), 0, 0, 0), RET], &packet), 0);
    }
}

#[test]
fn arithmetic_wraps_and_long_shifts_leave_nothing() {
    let calculate = |a, op, k| {
        let insns = [
            Insn::of(Op::LdImm, 0, 0, a),
            Insn::of(Op::Alu(op, Operand::K), 0, 0, k),
            Insn::of(Op::RetA, 0, 0, 0),
        ];
        let by_x = [
            insns[0],
            Insn::of(Op::LdxImm, 0, 0, k),
            Insn::of(Op::Alu(op, Operand::X), 0, 0, 0),
            insns[2],
        ];
        let result = run(&insns, &[]);
        assert_eq!(run(&by_x, &[]), result);
        result
    };
    assert_eq!(calculate(u32::MAX, AluOp::Add, 2), 1);
    assert_eq!(calculate(1, AluOp::Sub, 2), u32::MAX);
    assert_eq!(calculate(1 << 31, AluOp::Mul, 3), 1 << 31);
    assert_eq!(calculate(u32::MAX, AluOp::Div, 2), 0x7fff_ffff);
    assert_eq!(calculate(u32::MAX, AluOp::Mod, 10), 5);
    assert_eq!(calculate(5, AluOp::Xor, 1), 4);
    for (k, left, right) in [(0, 0x8000_0001, 0x8000_0001), (31, 1 << 31, 1), (32, 0, 0)] {
        assert_eq!(calculate(0x8000_0001, AluOp::Lsh, k), left);
        assert_eq!(calculate(0x8000_0001, AluOp::Rsh, k), right);
    }
    assert_eq!(calculate(1, AluOp::Lsh, u32::MAX), 0);
}

#[test]
fn the_length_on_the_wire_is_not_that_of_what_was_captured() {
    let insns = [Insn::of(Op::LdLen, 0, 0, 0), Insn::of(Op::RetA, 0, 0, 0)];
    let filter = Filter::new(Program::new(&insns).unwrap());
    assert_eq!(filter.run(&Packet::cut(&[0; 3], 1514)), 1514);
    assert_eq!(filter.program().run(&Packet::cut(&[0; 3], 1514)), 1514);
    assert_eq!(filter.run(&Packet::whole(&[0; 3])), 3);
}

#[test]
fn machine_code_does_what_the_interpreter_does_on_any_program() {
    if !cfg!(feature = "jit") {
        return;
    }
    let mut rng = Rng::new(1);
    let mut matched = 0;
    for number in 0..6_000 {
        let len_max = if number % 50 == 0 { 1_000 } else { 40 };
        let program = program(&mut rng, len_max);
        let filter = Filter::new(program.clone());
        assert_eq!(filter.is_compiled(), cfg!(all(unix, target_arch = "x86_64")));
        for _ in 0..10 {
            let frame = frame(&mut rng);
            let packet = Packet::cut(&frame.bytes, frame.wire_len);
            let expected = program.run(&packet);
            let said = filter.run(&packet);
            assert_eq!(said, expected, "{:x?}\n{}", frame.bytes, Listing(program.insns()));
            matched += u32::from(said != 0);
        }
    }
    // Some packets must match and some must not, or the comparison shows nothing.
    assert!((6_000..54_000).contains(&matched), "{matched} of 60,000 matched");
}

#[test]
fn a_packet_in_two_pieces_is_the_same_packet() {
    let mut rng = Rng::new(2);
    for _ in 0..2_000 {
        let filter = Filter::new(program(&mut rng, 30));
        let frame = frame(&mut rng);
        let whole = filter.run(&Packet::cut(&frame.bytes, frame.wire_len));
        for _ in 0..4 {
            let at = rng.below(frame.bytes.len() as u32 + 1) as usize;
            let (head, rest) = frame.bytes.split_at(at);
            let packet = Packet::in_two(head, rest, frame.wire_len);
            assert_eq!(packet.captured_bytes(), frame.bytes.len());
            assert_eq!(filter.run(&packet), whole);
            assert_eq!(filter.program().run(&packet), whole);
        }
    }
}

#[test]
fn a_program_is_shown_as_tcpdump_shows_it() {
    let insns = [
        Insn::new(0x28, 0, 0, 12),
        Insn::new(0x15, 0, 1, 0x0800),
        Insn::new(0x06, 0, 0, 262_144),
        Insn::new(0x06, 0, 0, 0),
    ];
    let listing = Listing(&insns);
    let expected = "(000) ldh      [12]\n\
                    (001) jeq      #0x800           jt 2\tjf 3\n\
                    (002) ret      #262144\n\
                    (003) ret      #0\n";
    assert_eq!(listing.to_string(), expected);
    assert!(listing.c_array().starts_with("{ 0x28, 0, 0, 0x0000000c },\n"));
    assert!(listing.c_array().contains("{ 0x15, 0, 1, 0x00000800 },\n"));
    assert_eq!(listing.decimal().lines().nth(2), Some("21 0 1 2048"));
}
