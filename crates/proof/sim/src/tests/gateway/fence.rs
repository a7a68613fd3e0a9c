//! The fence as the policy of an engine: what a guest sees and what the server gets.

use base::Instant;
use gateway::Config;
use host::dns::{Answered, Asked, DomainName, Learned, Policy as _};
use policy::text::{Source, parse};
use policy::{Fence, HostAddresses};
use stack::CallError;
use tcp::{Error, State};

use super::bench::{Bench, SERVER, at};

const POLICY: &str = r#"
[[rule]]
allow = "good.test"
ports = ["80", "443"]
[[rule]]
allow = "198.51.100.7"
ports = ["7/udp", "echo"]
[[rule]]
ask = "any"
ports = "81"
"#;

fn bench() -> Bench<Fence> {
    let source = Source { file: Some(("policy.toml", POLICY)), ..Source::default() };
    let rules = parse(&source, &|_| Err("no files".to_owned())).expect("a policy");
    let fence = Fence::new(rules, HostAddresses::default()).expect("few rules");
    Bench::with_policy(Config::default(), fence)
}

/// The resolver gives the server's address for this name.
fn pin(bench: &mut Bench<Fence>, name: &str) {
    let name = DomainName::parse(name).expect("a name");
    let asked = Asked { name: &name, rtype: 1, is_local: true };
    let address = SERVER.parse().expect("an address");
    let learned = [Learned { address, ttl: base::Duration::from_secs(60), is_hint: false }];
    bench.policy.set_now(bench.now, base::Duration::ZERO);
    bench.policy.answer(&Answered { asked, aliases: &[], addresses: &learned, targets: &[] });
}

fn lines(bench: &mut Bench<Fence>) -> Vec<String> {
    while let Some(report) = bench.engine.next_report() {
        bench.policy.ended(&report);
    }
    core::iter::from_fn(|| bench.policy.next_line()).collect()
}

/// A TLS hello with this name.
fn hello(name: &str) -> Vec<u8> {
    let with_length = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let list = [&[0][..], &with_length(name.as_bytes())].concat();
    let extension = [&[0, 0][..], &with_length(&with_length(&list))].concat();
    let fixed = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let body = [&fixed[..], &with_length(&extension)].concat();
    let message = [&[1, 0][..], &with_length(&body)].concat();
    [&[22, 3, 1][..], &with_length(&message)].concat()
}

#[test]
fn a_name_is_reached_only_after_the_resolver_has_named_it() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 80);
    let refused = bench.connect("198.51.100.7:80");
    assert_eq!(bench.guest.tcp_state(refused), Some((State::Closed, Some(Error::Refused))));
    assert!(bench.server.tcp_accept(listener).is_none());
    pin(&mut bench, "good.test");
    let client = bench.connect("198.51.100.7:80");
    let there = bench.server.tcp_accept(listener).expect("it is allowed now");
    assert_eq!(bench.guest.tcp_write(client, b"GET /"), Ok(5));
    bench.settle();
    assert_eq!(bench.server.tcp_read(there, &mut [0; 16]), Ok(5));
    bench.guest.tcp_abort(client);
    bench.settle();
    let lines = lines(&mut bench);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains(r#""verdict":"deny","rule":"default""#), "{}", lines[0]);
    assert!(lines[1].contains(r#""names":["good.test"],"verdict":"allow","rule":"policy.toml:2""#));
    assert!(lines[1].contains(r#""bytes_out":5,"#) && lines[1].contains("reset by the guest"));
}

#[test]
fn a_hello_with_another_name_never_reaches_the_server() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 443);
    pin(&mut bench, "good.test");
    for (name, passes) in [("good.test", true), ("evil.test", false)] {
        let client = bench.connect("198.51.100.7:443");
        bench.guest.tcp_set_no_delay(client, true);
        let there = bench.server.tcp_accept(listener).expect("it is connected");
        let hello = hello(name);
        let (first, rest) = hello.split_at(20);
        let mut into = [0; 1_024];
        for part in [first, rest] {
            let blocked = bench.server.tcp_read(there, &mut into);
            assert_eq!(blocked, Err(CallError::WouldBlock), "nothing leaves before its end");
            assert_eq!(bench.guest.tcp_write(client, part), Ok(part.len()));
            bench.settle();
        }
        let reset = Err(CallError::Failed(Error::Reset));
        let expected = if passes { Ok(hello.len()) } else { reset };
        assert_eq!(bench.server.tcp_read(there, &mut into), expected, "{name}");
        if !passes {
            assert_eq!(bench.guest.tcp_read(client, &mut into), reset);
        }
    }
    let lines = lines(&mut bench);
    assert!(lines[0].contains(r#""sni":"evil.test","verdict":"deny""#), "{lines:?}");
    assert!(lines[0].contains(r#""bytes_out":0"#), "{lines:?}");
}

#[test]
fn datagrams_are_judged_by_each_destination() {
    let mut bench = bench();
    let guest = Bench::udp(&mut bench.guest, 5_000);
    let [seven, eight] = [7, 8].map(|port| Bench::udp(&mut bench.server, port));
    for to in ["198.51.100.7:7", "198.51.100.7:8"] {
        bench.guest.udp_send(guest, at(to), b"ping", bench.now).expect("it is sent");
        bench.settle();
    }
    assert!(bench.server.udp_receive(seven).is_some());
    assert!(bench.server.udp_receive(eight).is_none());
    // The datagrams that passed are logged when their session has ended.
    let lines = lines(&mut bench);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(r#""destination":"198.51.100.7:8","verdict":"deny""#), "{lines:?}");
}

#[test]
fn somebody_answers_and_the_flow_begins() {
    let mut bench = bench();
    let listener = Bench::listen(&mut bench.server, 81);
    for allows in [true, false] {
        let client = bench.connect("198.51.100.7:81");
        assert!(bench.server.tcp_accept(listener).is_none());
        let id = bench.policy.questions().open()[0].id;
        for (ends, verdict) in bench.policy.answer_question(id, allows, false).expect("it is open")
        {
            assert!(bench.with(|engine, around| engine.decide(&ends, verdict, around)));
        }
        bench.settle();
        assert_eq!(bench.server.tcp_accept(listener).is_some(), allows);
        let state = bench.guest.tcp_state(client).map(|(state, _)| state);
        assert_eq!(state == Some(State::Established), allows);
        // The answer is remembered for 55 s.
        bench.policy.set_now(bench.now + base::Duration::from_secs(60), base::Duration::ZERO);
    }
    assert!(bench.now > Instant::ZERO);
}
