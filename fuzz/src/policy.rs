//! A gateway's policy: any text, any options, any log; and the first bytes of a flow. A mistake has
//! a place in the text. Rules without a mistake decide as the plain list does. What is learnt from
//! a log is a policy.
//!
//! Called by: the targets `policy` and `hello`.

use std::net::{IpAddr, Ipv6Addr};

use base::Duration;
use host::dns::{Answered, Asked, DomainName, Learned as Address, Policy};
use policy::hello::{BYTES_MAX, Seen, read};
use policy::learn::Learned;
use policy::text::{Argument, Source, parse};
use policy::{Destination, Fence, HostAddresses, Protocol, plain};

/// Words that make a text more often right than letters do.
const WORDS: [&str; 48] = [
    "[[rule]]\n",
    "[[rule]]\n",
    "[[rule]]\n",
    "[[rule]]\n",
    "allow = [",
    "allow = [",
    "deny = [",
    "ask = [",
    "]\n",
    "]\n",
    "]\n",
    "ports = [",
    "ports = [",
    "sni = \"match\"\n",
    "sni = \"ignore\"\n",
    "via = \"x\"\n",
    "\"any\", ",
    "\"public\", ",
    "\"private\", ",
    "\"host\", ",
    "\"metadata\", ",
    "\"loopback\", ",
    "\"a.test\", ",
    "\"*.a.test\", ",
    "\"b.a.test\", ",
    "\"10.0.0.0/8\", ",
    "\"10.0.0.5\", ",
    "\"::/0\", ",
    "\"64:ff9b::/96\", ",
    "\"fd00::/8\", ",
    "\"@bad\", ",
    "\"@bogons\", ",
    "\"443\", ",
    "\"1-3/udp\", ",
    "\"udp\", ",
    "\"tcp\", ",
    "\"echo\", ",
    "default = \"allow\"\n",
    "default = \"ask\"\n",
    "refuse = \"drop\"\n",
    "[dns]\n",
    "names = \"all\"\n",
    "rebinding = \"deny\"\n",
    "[sets]\nbad = [\"10.9.0.0/16\"]\n",
    "[[publish]]\nport = \"80:8080\"\n",
    "[limits]\ngateway_flows = 7\n",
    "bytes_out = \"1K\"\n",
    "#\n",
];

/// A byte that says whether the file is in words; the file, an argument of `--allow`, one of
/// `--deny`, and a log, each up to a byte of 255. All bytes choose flows, too.
///
/// # Panics
/// If one of the laws above does not hold.
pub fn any_text(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else { return };
    let mut parts = data.split(|byte| *byte == 255);
    let mut next = || parts.next().unwrap_or_default();
    let file = match kind & 1 {
        0 => next().iter().map(|byte| WORDS[usize::from(*byte) % WORDS.len()]).collect(),
        _ => String::from_utf8_lossy(next()).into_owned(),
    };
    let [allow, deny, log] = [next(), next(), next()].map(String::from_utf8_lossy);
    learn(&log);
    let arguments = [Argument::Allow(&allow), Argument::Deny(&deny)];
    let arguments = if kind & 2 == 0 { &arguments[..0] } else { &arguments[..] };
    let source = Source { file: Some(("policy.toml", &file)), arguments, default: None };
    match parse(&source, &|_| Ok("10.7.0.0/16 # one\n".to_owned())) {
        Ok(rules) => decide(rules, data),
        Err(mistakes) => {
            assert!(!mistakes.is_empty() && mistakes.len() <= 100);
            for mistake in mistakes {
                assert!(mistake.line > 0 && mistake.column > 0 && !mistake.what.is_empty());
                assert!(!mistake.to_string().contains('\n'), "{mistake}");
            }
        }
    }
}

fn learn(log: &str) {
    let mut learned = Learned::default();
    log.lines().for_each(|line| learned.line(line));
    let text = learned.policy();
    let source = Source { file: Some(("learnt", &text)), ..Source::default() };
    let learnt = parse(&source, &|_| Err("no files".to_owned()));
    assert!(learnt.is_ok(), "{learnt:?}\n{text}");
}

fn decide(rules: policy::Rules, data: &[u8]) {
    let own = vec![IpAddr::from([192, 0, 2, 9])];
    let host = HostAddresses { own, stand_ins: vec![IpAddr::from([10, 0, 2, 2])] };
    let mut fence = Fence::new(rules.clone(), host.clone()).expect("it was compiled before");
    let all = ["a.test", "b.a.test", "c.test"].map(|name| DomainName::parse(name).expect("a name"));
    for bytes in data.chunks_exact(8).take(16) {
        let &[kind, near, a, b, c, d, name, port] = bytes else { return };
        let v4 = match near & 3 {
            0 => [10, a & 1, b & 3, c & 7],
            1 => [127, 0, 0, 1],
            2 => [192, 0, 2, 8 | a & 1],
            _ => [a, b, c, d],
        };
        let bits = u128::from(u32::from_be_bytes(v4));
        let address: IpAddr = match kind & 7 {
            0 => Ipv6Addr::from_bits(0x0064_ff9b << 96 | bits).into(),
            1 => Ipv6Addr::from_bits(0x2002 << 112 | bits << 80).into(),
            2 => Ipv6Addr::from_bits(bits).into(),
            3 => Ipv6Addr::from_bits(0xffff << 32 | bits).into(),
            4 => Ipv6Addr::from_bits(0xfd00 << 112 | bits).into(),
            _ => v4.into(),
        };
        let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Echo][usize::from(kind >> 3) % 3];
        let port = if protocol == Protocol::Echo { 0 } else { u16::from(port & 3) };
        let to = Destination::new(protocol, address, port);
        let asked = Asked { name: &all[usize::from(name) % 3], rtype: 1, is_local: true };
        let learned = [Address { address, ttl: Duration::from_secs(60), is_hint: false }];
        fence.answer(&Answered { asked, aliases: &[], addresses: &learned, targets: &[] });
        let now = base::Instant::ZERO;
        let names: Vec<DomainName> = fence.pins().names(to.address, now).cloned().collect();
        assert!(!names.is_empty() && names.len() <= policy::pins::NAMES_MAX);
        let decision = fence.decide(&to);
        assert_eq!(decision.rule, plain::first(&rules, &host, &to, &names), "{to:?} {names:?}");
        let _ = fence.decide_named(&to, &all[0]);
        let _ = fence.question(&asked);
    }
}

/// Any first bytes of a flow: once they say what they are, more bytes change nothing.
///
/// # Panics
/// If they do.
pub fn any_hello(data: &[u8]) {
    let all = read(data);
    assert!(all != Seen::Incomplete || data.len() < BYTES_MAX);
    for end in (0..data.len()).take(1_024) {
        let seen = read(&data[..end]);
        assert!(seen == Seen::Incomplete || seen == all, "{end}: {seen:?} {all:?}");
    }
}

/// A file with a rule of each kind, options, and two lines of a log.
pub fn real_text() -> Vec<u8> {
    let parts = [
        "default = \"deny\"\n[sets]\nx = [\"10.0.0.0/8\", \"file:y\"]\n[[rule]]\nallow = \
         [\"a.test\", \"*.a.test\"]\nports = [\"1\", \"2/udp\"]\n[[rule]]\ndeny = \
         [\"private\"]\n[[rule]]\nask = \"any\"\n",
        "[2001:db8::1]:443,80/udp",
        "private",
        "{\"time\":\"t\",\"protocol\":\"tcp\",\"destination\":\"192.0.2.1:443\",\"names\":\
         [\"a.test\"],\"verdict\":\"allow\",\"rule\":\"default\"}\n{\"time\":\"t\",\"protocol\":\
         \"dns\",\"names\":[\"b\"],\"verdict\":\"deny\",\"rule\":\"p:1\"}",
    ];
    let mut bytes = vec![3];
    for part in parts {
        bytes.extend(part.as_bytes());
        bytes.push(255);
    }
    bytes
}

/// A TLS hello in records of a few bytes.
pub fn real_hello() -> Vec<u8> {
    let mut message = vec![1, 0, 0, 64, 3, 3];
    message.extend([7; 32]);
    message.extend([0, 0, 2, 0x13, 1, 1, 0, 0, 21]);
    message.extend([0x2a, 0x2a, 0, 1, 0]);
    message.extend([0, 0, 0, 12, 0, 10, 0, 0, 7]);
    message.extend(b"ab.test");
    let record = |part: &[u8]| [&[22, 3, 1, 0, part.len() as u8], part].concat();
    message.chunks(20).flat_map(record).collect()
}
