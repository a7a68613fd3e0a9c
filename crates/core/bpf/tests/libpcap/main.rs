//! For many filter texts and packets of every kind, the interpreter, the machine code and libpcap
//! give the same result. Also: libpcap's messages for texts that do not compile.
//!
//! No harness: without libpcap each case is skipped, naming its package (`testbed`).

#[cfg(target_os = "linux")]
mod real;
#[path = "../shared/mod.rs"]
mod shared;

use std::process::ExitCode;

use bpf::{
    Direction, Filter, INSNS_MAX, Libpcap, LibpcapError, Listing, Op, Packet, Program, Reason,
    Source, linktype,
};
use shared::{Rng, frame, program};
use testbed::{Case, Need};

const LIBPCAP: Need = Need::Other(|| Libpcap::load().err().map(|e| e.to_string()));

const CASES: &[Case] = &[
    ("texts_over_packets_give_one_answer_three_times", &[LIBPCAP], texts_over_packets),
    #[cfg(target_os = "linux")]
    ("texts_over_real_traffic_give_one_answer_three_times", &[LIBPCAP, real::ROOT], real_traffic),
    ("texts_for_bare_ip_give_one_answer_three_times", &[LIBPCAP], bare_ip),
    ("any_valid_program_gives_one_answer_three_times", &[LIBPCAP], any_program),
    ("programs_are_shown_as_libpcap_shows_them", &[LIBPCAP], images),
    ("a_text_that_does_not_compile_gets_libpcaps_words", &[LIBPCAP], refusals),
    ("programs_of_libpcap_that_go_back_give_its_answers", &[LIBPCAP], loops),
    ("texts_about_directions_are_answered", &[LIBPCAP], directions),
    ("broadcasts_are_those_of_the_netmask", &[LIBPCAP], netmask),
    ("addresses_in_the_other_byte_order_are_found", &[LIBPCAP], swapped),
];

fn main() -> ExitCode {
    testbed::in_place(&[CASES])
}

const PACKETS: usize = 10_000;
const SNAPLEN: u32 = 262_144;

fn libpcap() -> Libpcap {
    Libpcap::load().expect("libpcap loads")
}

fn texts() -> Vec<&'static str> {
    let lines = include_str!("filters.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn compiled(libpcap: &Libpcap, text: &str, linktype: i32) -> Filter {
    let insns = libpcap.compile(text, linktype, SNAPLEN).expect("the listed text compiles");
    let filter = Filter::new(Program::new(&insns).unwrap_or_else(|e| panic!("{text}: {e}")));
    assert!(filter.is_compiled() || !cfg!(all(unix, target_arch = "x86_64")));
    filter
}

/// The result of the filter, which must be the same from the interpreter, the machine code and
/// libpcap.
fn agreed(libpcap: &Libpcap, text: &str, filter: &Filter, bytes: &[u8], wire_len: u32) -> u32 {
    let packet = Packet::cut(bytes, wire_len);
    let theirs = libpcap.offline_filter(filter.program(), bytes, wire_len);
    let answers = [filter.program().run(&packet), filter.run(&packet)];
    let listing = Listing(filter.program().insns());
    assert_eq!(answers, [theirs; 2], "'{text}' on {bytes:02x?} of {wire_len}:\n{listing}");
    theirs
}

fn texts_over_packets() {
    let (libpcap, texts) = (libpcap(), texts());
    assert!(texts.len() >= 200, "{} texts", texts.len());
    let mut rng = Rng::new(3);
    let packets: Vec<_> = (0..PACKETS).map(|_| frame(&mut rng)).collect();
    let mut both = 0;
    for text in texts {
        let filter = compiled(&libpcap, text, linktype::ETHERNET);
        let matches =
            |p: &&shared::Frame| agreed(&libpcap, text, &filter, &p.bytes, p.wire_len) > 0;
        let matched = packets.iter().filter(matches).count();
        both += usize::from((1..PACKETS).contains(&matched));
    }
    // A filter that matches all packets or none tests little: most filters must match some packets
    // only.
    assert!(both >= 190, "{both} texts matched some packets and not others");
}

#[cfg(target_os = "linux")]
fn real_traffic() {
    const OF_IT: [&str; 9] =
        ["arp", "ip", "ip6", "tcp", "udp", "icmp", "icmp6", "tcp port 80", "udp port 53"];
    let (libpcap, frames) = (libpcap(), real::frames());
    assert!(frames.len() >= 400, "{} frames", frames.len());
    assert!(frames.iter().any(|frame| frame.bytes.len() > 1_514), "a super-segment");
    let mut found = 0;
    for text in texts() {
        let filter = compiled(&libpcap, text, linktype::ETHERNET);
        let matches =
            |f: &&shared::Frame| agreed(&libpcap, text, &filter, &f.bytes, f.wire_len) > 0;
        let matched = frames.iter().filter(matches).count();
        if OF_IT.contains(&text) {
            assert!(matched > 0, "'{text}' matched nothing of {}", frames.len());
            found += 1;
        }
    }
    assert_eq!(found, OF_IT.len(), "texts of the list");
}

fn bare_ip() {
    let libpcap = libpcap();
    let mut rng = Rng::new(4);
    for text in ["ip", "ip6", "tcp port 80 and host 10.0.0.1", "udp or icmp6", "tcp[13] & 2 != 0"] {
        let filter = compiled(&libpcap, text, linktype::RAW_IP);
        let mut matched = 0;
        for _ in 0..PACKETS {
            let frame = frame(&mut rng);
            let Some(bytes) = frame.bytes.get(14..) else { continue };
            matched += u32::from(agreed(&libpcap, text, &filter, bytes, frame.wire_len - 14) > 0);
        }
        assert!(matched > 0, "'{text}' matched nothing");
    }
}

fn any_program() {
    let libpcap = libpcap();
    let mut rng = Rng::new(5);
    for number in 0..5_000 {
        let len_max = if number % 500 == 0 { INSNS_MAX as u32 } else { 50 };
        let filter = Filter::new(program(&mut rng, len_max));
        for _ in 0..10 {
            let frame = frame(&mut rng);
            agreed(&libpcap, "any", &filter, &frame.bytes, frame.wire_len);
        }
    }
}

fn images() {
    let libpcap = libpcap();
    let mut rng = Rng::new(6);
    let texts = texts().into_iter().map(|text| compiled(&libpcap, text, linktype::ETHERNET));
    let programs = texts.map(|filter| filter.program().clone());
    let any: Vec<_> = (0..200).map(|_| program(&mut rng, 40)).collect();
    for program in programs.chain(any) {
        let listing = Listing(program.insns()).to_string();
        assert_eq!(listing.lines().count(), program.insns().len());
        for (number, (insn, ours)) in program.insns().iter().zip(listing.lines()).enumerate() {
            let theirs = libpcap.image(*insn, number);
            // libpcap prints names for the offsets from 0xfffff000 on, to which Linux gives a
            // meaning; the packet's type has its meaning here too. And libpcap cannot print
            // `LdxLen`, although it runs it.
            let is_type = insn.k == 0xffff_f004 && matches!(insn.op(), Some(Op::LdAbs(_)));
            if (insn.k < 0xffff_f000 || is_type) && insn.op() != Some(Op::LdxLen) {
                assert_eq!(ours, theirs);
            }
        }
    }
}

fn refusals() {
    let libpcap = libpcap();
    for (text, words, expected) in [
        ("tcp port", "syntax error", Some(8)),
        ("tcp prot 80", "syntax error", Some(4)),
        ("tcp port 80 )", "syntax error", Some(12)),
        ("tcp port 80)", "syntax error", Some(11)),
        ("(tcp", "syntax error", Some(4)),
        ("and tcp", "syntax error", Some(0)),
        ("host 10.0.0.1 and  tcp prot 80", "syntax error", Some(23)),
        ("tcp[13 & 2 != 0", "syntax error", Some(11)),
        ("ip or ip6 é", "syntax error", Some(10)),
        ("tcp and port nosuchport", "unknown port", Some(13)),
        // The message quotes 'p': its position is that of the word, not of the end of another word.
        ("tcp and port p", "unknown port", Some(13)),
        ("tcp[0]/0 = 1", "division by zero", None),
        ("net 1.2.3.4/40", "mask length", None),
        ("ip broadcast", "netmask", Some(0)),
        ("1 = 2", "rejects all packets", None),
    ] {
        let refused = libpcap.compile(text, linktype::ETHERNET, SNAPLEN).expect_err(text);
        assert!(refused.to_string().contains(&format!("'{text}'")), "{refused}");
        let LibpcapError::Refused { message, position, .. } = refused else {
            panic!("'{text}': {refused}");
        };
        assert!(message.contains(words), "'{text}': {message}");
        assert_eq!(position, expected, "'{text}': {message}");
    }
    let nul = libpcap.compile("tcp\0", linktype::ETHERNET, SNAPLEN);
    assert!(matches!(nul, Err(LibpcapError::Unusable(_))));
}

fn loops() {
    let libpcap = libpcap();
    let mut rng = Rng::new(8);
    for (text, matching) in [("ip protochain 6", 0), ("ip6 protochain 17", 1)] {
        let insns = libpcap.compile(text, linktype::ETHERNET, SNAPLEN).expect("the text compiles");
        let refusal = Program::new(&insns).expect_err("a program with a jump back was accepted");
        assert!(matches!(refusal.reason, Reason::JumpOutside(_)), "{refusal}");
        assert!(refusal.to_string().contains("it jumps -"), "{refusal}");
        let filter = Filter::new(Program::with_loops(&insns).expect("the program may go back"));
        let mut packets: Vec<_> =
            (0..PACKETS).map(|_| frame(&mut rng)).map(|f| (f.bytes, f.wire_len)).collect();
        packets.extend(chains().map(|bytes| (bytes.clone(), bytes.len() as u32)));
        for (bytes, wire_len) in &packets {
            agreed(&libpcap, text, &filter, bytes, *wire_len);
        }
        let chain = &chains()[matching];
        assert!(filter.run(&Packet::whole(chain)) > 0, "'{text}' on {chain:02x?}");
    }
}

/// Packets with chains of headers: TCP after an authentication header in IPv4 (libpcap finds only
/// one such header), and UDP after three headers of options in IPv6.
fn chains() -> [Vec<u8>; 2] {
    let link = |ethertype: [u8; 2]| [&[2; 12][..], &ethertype].concat();
    let authentication = |next: u8| [&[next, 2][..], &[0; 14]].concat();
    let ip = [&[0x45, 0, 0, 56, 0, 0, 0, 0, 64, 51, 0, 0][..], &[10; 8]].concat();
    let four = [link([8, 0]), ip, authentication(6), vec![0; 20]].concat();
    let options =
        |next: u8, words: u8| [&[next, words][..], &vec![0; 6 + 8 * usize::from(words)]].concat();
    let ip6 = [&[0x60, 0, 0, 0, 0, 48, 0, 64][..], &[10; 32]].concat();
    let chain = [options(60, 0), options(43, 1), options(17, 2), vec![0; 8]].concat();
    [four, [link([0x86, 0xdd]), ip6, chain].concat()]
}

fn directions() {
    let libpcap = libpcap();
    let frame = chains()[0].clone();
    for (text, received, sent) in [
        ("inbound", true, false),
        ("outbound", false, true),
        ("ip and outbound", false, true),
        ("not inbound and ip6", false, false),
    ] {
        let insns = libpcap.compile(text, linktype::ETHERNET, SNAPLEN).expect(text);
        let filter = Filter::new(Program::new(&insns).unwrap_or_else(|e| panic!("{text}: {e}")));
        assert!(filter.asks_direction(), "{text}");
        let passes = |direction| filter.of(direction).run(&Packet::whole(&frame)) > 0;
        assert_eq!([passes(Direction::In), passes(Direction::Out)], [received, sent], "{text}");
    }
}

fn netmask() {
    let libpcap = libpcap();
    let at = |netmask| Source { netmask, ..Source::new(linktype::ETHERNET, SNAPLEN) };
    let insns = libpcap
        .compile_for("ip broadcast", &at(Some(0xffff_ff00)))
        .expect("the text compiles with a netmask");
    let filter = Filter::new(Program::new(&insns).expect("the program is valid"));
    for (host, passes) in [(255, true), (0, true), (1, false), (254, false)] {
        let mut frame = chains()[0].clone();
        frame[30..34].copy_from_slice(&[10, 1, 1, host]);
        assert_eq!(filter.run(&Packet::whole(&frame)) > 0, passes, "10.1.1.{host}");
    }
    assert!(libpcap.compile_for("ip broadcast", &at(None)).is_err());
    assert_eq!(libpcap.netmask("no-such-interface"), None);
}

fn swapped() {
    const NULL: i32 = 0;
    let libpcap = libpcap();
    for is_swapped in [false, true] {
        let source = Source { is_swapped, ..Source::new(NULL, SNAPLEN) };
        let insns = libpcap.compile_for("ip host 10.10.10.10", &source).expect("the text compiles");
        let filter = Filter::new(Program::new(&insns).expect("the program is valid"));
        let [packet, _] = chains();
        for family in [2_u32.to_be_bytes(), 2_u32.to_le_bytes()] {
            let bytes = [&family[..], &packet[14..]].concat();
            let is_here = family == 2_u32.to_ne_bytes();
            assert_eq!(filter.run(&Packet::whole(&bytes)) > 0, is_here != is_swapped);
        }
    }
    let wrong = Source { is_swapped: true, ..Source::new(NULL, SNAPLEN) };
    let refused =
        libpcap.compile_for("tcp prot 80", &wrong).expect_err("a wrong text was compiled");
    assert!(refused.to_string().contains("at byte 4"), "{refused}");
}
