//! The fence behind a forwarder of names, with messages made by the crate `domain`.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Duration, Instant, KeyedHash};
use domain::base::iana::{Rcode, Rtype, SvcParamKey};
use domain::base::message_builder::AnswerBuilder;
use domain::base::{Message, MessageBuilder, Name, Ttl};
use domain::rdata::svcb::{SvcParams, UnknownSvcParam, value::Ipv4Hint};
use domain::rdata::{A, AllRecordData, Cname, Https};
use gateway::{Ends, Policy, Verdict};
use host::dns::{Forwarder, ForwarderAction, ForwarderConfig, Hosts, Send, Transport};
use wirespeed_policy as policy;

use policy::text::{Source, parse};
use policy::{Destination, Fence, HostAddresses, Protocol};

type Answer = AnswerBuilder<Vec<u8>>;

fn name(text: &str) -> Name<Vec<u8>> {
    text.parse().expect(text)
}

fn ttl(seconds: u32) -> Ttl {
    Ttl::from_secs(seconds)
}

struct World {
    fence: Fence,
    forwarder: Forwarder<u16>,
    now: Instant,
}

impl World {
    fn new(text: &str) -> World {
        let source = Source { file: Some(("policy.toml", text)), ..Source::default() };
        let rules = parse(&source, &|_| Err("no files".to_owned())).expect("a policy");
        let own = vec!["198.18.0.9".parse().expect("an address")];
        let host = HostAddresses { own, stand_ins: Vec::new() };
        let servers = vec!["192.0.2.53:53".parse().expect("an address")];
        let mut hosts = Hosts::default();
        hosts.add("box.test", [192, 168, 7, 7].into()).expect("a name");
        World {
            fence: Fence::new(rules, host).expect("few rules"),
            forwarder: Forwarder::new(ForwarderConfig::new(servers), hosts, KeyedHash::new(1, 2)),
            now: Instant::ZERO + Duration::from_secs(1),
        }
    }

    /// Ask, and let the server answer; what the guest hears, and whether the server was asked.
    fn ask(
        &mut self,
        asked: &str,
        rtype: Rtype,
        answer: impl FnOnce(&mut Answer),
    ) -> (Message<Vec<u8>>, bool) {
        self.fence.set_now(self.now, Duration::from_secs(1_800_000_000));
        let mut question = MessageBuilder::new_vec().question();
        question.push((name(asked), rtype)).expect("room");
        let mut question = question.additional();
        let opt = question.opt(|opt| {
            opt.set_udp_payload_size(1_232);
            Ok(())
        });
        opt.expect("room");
        let question = question.finish();
        self.forwarder.question(self.now, 7, Transport::Udp, &question, &mut self.fence);
        let (mut answer, mut was_asked) = (Some(answer), false);
        loop {
            match self.forwarder.poll(self.now).expect("an answer") {
                ForwarderAction::Send(id, Send::Udp(to, message)) => {
                    was_asked = true;
                    let message = Message::from_octets(message).expect("a message");
                    let builder = MessageBuilder::new_vec();
                    let mut made = builder.start_answer(&message, Rcode::NOERROR).expect("room");
                    answer.take().expect("it asks once")(&mut made);
                    let made = made.finish();
                    self.forwarder.on_datagram(self.now, id, to, &made, &mut self.fence);
                }
                ForwarderAction::Answer(_, _, message) => {
                    return (Message::from_octets(message).expect("a message"), was_asked);
                }
                ForwarderAction::Close(_) => {}
                ForwarderAction::Send(_, other) => panic!("{other:?}"),
            }
        }
    }

    fn ask_a(&mut self, asked: &str, address: [u8; 4], seconds: u32) -> (Rcode, bool) {
        let (message, was_asked) = self.ask(asked, Rtype::A, |answer| {
            let data = A::new(Ipv4Addr::from(address));
            answer.push((name(asked), ttl(seconds), data)).expect("room");
        });
        (message.header().rcode(), was_asked)
    }

    fn allows(&self, address: &str, port: u16) -> bool {
        let to = Destination::new(Protocol::Tcp, address.parse().expect(address), port);
        self.fence.decide(&to).action == policy::Action::Allow
    }
}

const FILE: &str = r#"
[[rule]]
deny = ["bad.example.test"]
[[rule]]
allow = ["example.test", "*.example.test"]
ports = ["443"]
[[rule]]
allow = ["box.test"]
[[rule]]
allow = ["10.1.0.0/16"]
ports = ["5432"]
"#;

#[test]
fn names_that_no_rule_could_allow_are_not_asked_upstream() {
    let mut world = World::new(FILE);
    for (asked, may) in [
        ("example.test", true),
        ("EXAMPLE.test", true),
        ("a.b.example.test", true),
        ("bad.example.test", false),
        ("worse.bad.example.test", true),
        ("test", false),
        ("notexample.test", false),
        ("secret-data.attacker.test", false),
    ] {
        let (code, was_asked) = world.ask_a(asked, [192, 0, 3, 1], 60);
        let expected = if may { Rcode::NOERROR } else { Rcode::REFUSED };
        assert_eq!((code, was_asked), (expected, may), "{asked}");
    }
    let refused = world.ask("x.attacker.test", Rtype::TXT, |_| {}).0;
    let opt = refused.opt().expect("the guest knows EDNS");
    let error = opt.opt().iter::<domain::base::opt::ExtendedError<_>>().next();
    assert_eq!(error.expect("one").expect("it is well formed").code().to_int(), 15);
    let lines: Vec<String> = core::iter::from_fn(|| world.fence.next_line()).collect();
    assert_eq!(lines.len(), 5);
    assert!(
        lines[0]
            .contains(r#""names":["bad.example.test"],"verdict":"deny","rule":"policy.toml:2""#)
    );
    assert!(lines[1].contains(r#""rule":"default""#), "{}", lines[1]);
    // With `names = "all"` the server is asked, and the flow is refused still.
    let mut open = World::new(&format!("[dns]\nnames = \"all\"\n{FILE}"));
    assert_eq!(open.ask_a("other.test", [192, 0, 3, 9], 60), (Rcode::NOERROR, true));
    assert!(!open.allows("192.0.3.9", 443));
}

#[test]
fn an_answer_pins_its_addresses_for_its_whole_chain_of_names() {
    let mut world = World::new(FILE);
    assert!(!world.allows("192.0.3.1", 443), "without a pin no name allows anything");
    world.ask("www.example.test", Rtype::A, |answer| {
        let cname = Cname::new(name("cdn.other.test"));
        answer.push((name("www.example.test"), ttl(300), cname)).expect("room");
        let data = A::new(Ipv4Addr::new(192, 0, 3, 1));
        answer.push((name("cdn.other.test"), ttl(1), data)).expect("room");
        // A name that nobody has asked about.
        let data = A::new(Ipv4Addr::new(192, 0, 3, 2));
        answer.push((name("a.example.test"), ttl(300), data)).expect("room");
    });
    assert!(world.allows("192.0.3.1", 443));
    assert!(!world.allows("192.0.3.1", 80));
    assert!(!world.allows("192.0.3.2", 443));
    let address: IpAddr = "192.0.3.1".parse().expect("an address");
    let names: Vec<String> =
        world.fence.pins().names(address, world.now).map(ToString::to_string).collect();
    assert_eq!(names, ["www.example.test", "cdn.other.test"]);
    // A second of lifetime is a minute here.
    world.fence.set_now(world.now + Duration::from_secs(59), Duration::ZERO);
    assert!(world.allows("192.0.3.1", 443));
    world.fence.set_now(world.now + Duration::from_secs(60), Duration::ZERO);
    assert!(!world.allows("192.0.3.1", 443));
    // The names behind an alias are denied, too.
    world.ask("ok.example.test", Rtype::A, |answer| {
        let cname = Cname::new(name("bad.example.test"));
        answer.push((name("ok.example.test"), ttl(300), cname)).expect("room");
        let data = A::new(Ipv4Addr::new(192, 0, 3, 7));
        answer.push((name("bad.example.test"), ttl(300), data)).expect("room");
    });
    assert!(!world.allows("192.0.3.7", 443));
}

#[test]
fn answers_with_addresses_of_other_networks_are_refused() {
    let mut world = World::new(FILE);
    for (address, may) in [
        ([10, 0, 0, 1], false),
        ([127, 0, 0, 1], false),
        ([0, 0, 0, 0], false),
        ([169, 254, 169, 254], false),
        ([168, 63, 129, 16], false),
        ([198, 18, 0, 9], false),
        ([100, 64, 0, 1], false),
        ([224, 0, 0, 1], false),
        ([10, 1, 2, 3], true),
        ([192, 0, 3, 3], true),
    ] {
        let expected = if may { Rcode::NOERROR } else { Rcode::REFUSED };
        let got = world.ask_a("example.test", address, 60);
        assert_eq!(got, (expected, true), "{address:?}");
        let address = IpAddr::from(address).to_string();
        assert_eq!(world.allows(&address, 443), may, "{address}");
    }
    for text in ["::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "fe80::1", "fd00::1", "::1"]
    {
        let (message, _) = world.ask("example.test", Rtype::AAAA, |answer| {
            let data = domain::rdata::Aaaa::new(text.parse().expect(text));
            answer.push((name("example.test"), ttl(60), data)).expect("room");
        });
        assert_eq!(message.header().rcode(), Rcode::REFUSED, "{text}");
    }
    assert_eq!(world.fence.counts().answers_refused, 14);
    // The hosts table is the operator's, and loopback is never reached by a name.
    assert_eq!(world.ask("box.test", Rtype::A, |_| {}).0.header().rcode(), Rcode::NOERROR);
    assert!(world.allows("192.168.7.7", 80));
    let mut open = World::new(&format!("[dns]\nrebinding = \"allow\"\n{FILE}"));
    for (address, may) in [([10, 0, 0, 1], true), ([127, 0, 0, 1], false), ([0, 0, 0, 0], false)] {
        assert_eq!(open.ask_a("example.test", address, 60).0, Rcode::NOERROR);
        assert_eq!(open.allows(&IpAddr::from(address).to_string(), 443), may, "{address:?}");
    }
}

#[test]
fn pointers_are_asked_for_addresses_that_a_rule_knows() {
    let mut world = World::new(FILE);
    let ptr = |world: &mut World, asked: &str| world.ask(asked, Rtype::PTR, |_| {}).1;
    assert!(!ptr(&mut world, "1.3.0.192.in-addr.arpa"));
    world.ask_a("example.test", [192, 0, 3, 1], 60);
    assert!(ptr(&mut world, "1.3.0.192.in-addr.arpa"));
    assert!(ptr(&mut world, "3.2.1.10.in-addr.arpa"));
    assert!(!ptr(&mut world, "3.2.2.10.in-addr.arpa"));
    assert!(!ptr(&mut world, "stolen.data.in-addr.arpa"));
}

/// An HTTPS record with hints and keys for encrypted hellos.
fn https(answer: &mut Answer, owner: &str) {
    let params: SvcParams<Vec<u8>> = SvcParams::from_values(|builder| {
        let key = UnknownSvcParam::new(SvcParamKey::from_int(5), &b"keys"[..]).expect("short");
        let hint = [Ipv4Addr::new(192, 0, 3, 5)];
        builder.ipv4hint(hint).expect("room");
        builder.push(&key).expect("in order");
        Ok(())
    })
    .expect("room");
    let https = Https::new(1, name("."), params).expect("short");
    answer.push((name(owner), ttl(300), https)).expect("room");
}

/// What the guest hears of the record: the keys of its parameters.
fn keys(message: &Message<Vec<u8>>) -> Vec<u16> {
    let record = message.answer().expect("a section").next().expect("one").expect("well formed");
    let record = record.into_record::<AllRecordData<_, _>>().expect("well formed").expect("known");
    let AllRecordData::Https(https) = record.data() else { panic!("an HTTPS record") };
    https.params().iter_raw().map(|one| one.key().to_int()).collect()
}

#[test]
fn hints_pin_and_keys_for_encrypted_hellos_are_hidden() {
    for (sni, hidden) in [("match", true), ("ignore", false)] {
        let mut world = World::new(&format!("[[rule]]\nallow = \"example.test\"\nsni = \"{sni}\""));
        let (message, _) =
            world.ask("example.test", Rtype::HTTPS, |answer| https(answer, "example.test"));
        let expected: &[u16] = if hidden { &[4, 65_280] } else { &[4, 5] };
        assert_eq!(keys(&message), expected, "{sni}");
        let record = message.answer().expect("a section").next().expect("one").expect("right");
        let record = record.into_record::<AllRecordData<_, _>>().expect("right").expect("known");
        let AllRecordData::Https(https) = record.data() else { panic!("an HTTPS record") };
        assert!(https.params().first::<Ipv4Hint<_>>().is_some());
        assert!(world.allows("192.0.3.5", 443), "a hint pins");
    }
}

#[test]
fn a_target_is_asked_for_the_name_that_leads_to_it() {
    let leads = |answer: &mut Answer, owner: &str, priority, target: &str| {
        let params: SvcParams<Vec<u8>> = SvcParams::from_values(|_| Ok(())).expect("room");
        let https = Https::new(priority, name(target), params).expect("short");
        answer.push((name(owner), ttl(300), https)).expect("room");
    };
    let mut world = World::new(FILE);
    assert_eq!(world.ask_a("a.cdn.test", [192, 0, 3, 8], 60), (Rcode::REFUSED, false));
    world.ask("www.example.test", Rtype::HTTPS, |answer| {
        leads(answer, "www.example.test", 0, "a.cdn.test");
    });
    world.ask("a.cdn.test", Rtype::HTTPS, |answer| leads(answer, "a.cdn.test", 1, "b.cdn.test"));
    assert_eq!(world.ask_a("b.cdn.test", [192, 0, 3, 8], 60), (Rcode::NOERROR, true));
    assert!(world.allows("192.0.3.8", 443) && !world.allows("192.0.3.8", 80));
    let address: IpAddr = "192.0.3.8".parse().expect("an address");
    let names: Vec<String> =
        world.fence.pins().names(address, world.now).map(ToString::to_string).collect();
    assert_eq!(names, ["a.cdn.test", "www.example.test", "b.cdn.test"]);
    assert_eq!(world.ask_a("c.cdn.test", [192, 0, 3, 9], 60), (Rcode::REFUSED, false));
    // A rule that denies the target itself decides.
    world.ask("www.example.test", Rtype::HTTPS, |answer| {
        leads(answer, "www.example.test", 1, "bad.example.test");
    });
    assert_eq!(world.ask_a("bad.example.test", [192, 0, 3, 10], 60).0, Rcode::REFUSED);
    world.now += Duration::from_secs(86_401);
    assert_eq!(world.ask_a("b.cdn.test", [192, 0, 3, 8], 60).0, Rcode::REFUSED, "it has ended");
}

#[test]
fn a_flow_keeps_its_pin() {
    let mut world = World::new(FILE);
    world.ask_a("example.test", [192, 0, 3, 1], 60);
    let ends = |port| Ends {
        guest: SocketAddr::from(([10, 0, 2, 100], port)),
        remote: SocketAddr::from(([192, 0, 3, 1], 443)),
    };
    assert_eq!(world.fence.tcp(&ends(1)), Verdict::Allow);
    world.fence.set_now(world.now + Duration::from_secs(7_200), Duration::ZERO);
    assert_eq!(world.fence.tcp(&ends(2)), Verdict::Allow);
    for (port, allowed) in [(1, true), (2, false)] {
        let since = world.now;
        let end = gateway::End::Finished;
        let (protocol, ends) = (Protocol::Tcp, ends(port));
        let report = gateway::Report { protocol, ends, end, since, bytes_up: 0, bytes_down: 0 };
        world.fence.ended(&report);
        assert_eq!(world.allows("192.0.3.1", 443), allowed);
    }
}
