//! What a policy learns from answers.

use super::fixture::{Watch, World, question, wire};
use super::{Duration, Learned, ip};

fn learned(address: &str, seconds: u64, is_hint: bool) -> Learned {
    Learned { address: ip(address), ttl: Duration::from_secs(seconds), is_hint }
}

#[test]
fn aliases_are_followed_and_other_names_are_not() {
    let mut world = World::new(1);
    world.ask(1, &question(7, "www.example", 1).bytes);
    let query = world.query();
    let answer = query
        .answer()
        .a("b.cdn.test", [192, 0, 2, 81], 600)
        .cname("a.cdn.test", "b.cdn.test", 60)
        .a("stranger.test", [192, 0, 2, 99], 600)
        .cname("WWW.example", "a.cdn.test", 300)
        .a("B.cdn.test", [192, 0, 2, 80], 20);
    world.hear(&query, &answer.bytes);
    world.answered();
    let (names, addresses) = world.watch.seen.pop().expect("one answer");
    assert_eq!(names, ["www.example", "a.cdn.test", "b.cdn.test"]);
    assert_eq!(addresses, [learned("192.0.2.81", 60, false), learned("192.0.2.80", 20, false)]);
}

#[test]
fn a_loop_of_aliases_ends() {
    let mut world = World::new(1);
    world.ask(1, &question(7, "www.example", 1).bytes);
    let query = world.query();
    let answer =
        query.answer().cname("www.example", "b.test", 60).cname("b.test", "www.example", 9);
    world.hear(&query, &answer.bytes);
    world.answered();
    let (names, addresses) = world.watch.seen.pop().expect("one answer");
    assert_eq!((names, addresses), (vec!["www.example".to_owned(), "b.test".to_owned()], vec![]));
}

#[test]
fn hints_of_https_records_are_learnt() {
    let mut world = World::new(1);
    world.ask(1, &question(7, "www.example", 65).bytes);
    let query = world.query();
    // Priority 1, target ".", alpn h2, two IPv4 hints and one IPv6 hint.
    let mut value = vec![0, 1, 0, 0, 1, 0, 3, 2, b'h', b'2', 0, 4, 0, 8];
    value.extend([192, 0, 2, 1, 192, 0, 2, 2, 0, 6, 0, 16]);
    let v6: core::net::Ipv6Addr = "2001:db8::5".parse().expect("an address");
    value.extend(v6.octets());
    let answer =
        query.answer().record("www.example", 65, 300, &value).record("x.test", 65, 300, &value);
    world.hear(&query, &answer.bytes);
    world.answered();
    let (_, addresses) = world.watch.seen.pop().expect("one answer");
    let expected =
        ["192.0.2.1", "192.0.2.2", "2001:db8::5"].map(|address| learned(address, 300, true));
    assert_eq!(addresses, expected);
    // A malformed record has none, and is passed on.
    world.ask(1, &question(7, "www.example", 65).bytes);
    let query = world.query();
    let answer = query.answer().record("www.example", 65, 300, &value[..value.len() - 3]);
    world.hear(&query, &answer.bytes);
    assert_eq!(world.answered().2.len(), answer.bytes.len());
    assert!(world.watch.seen.pop().expect("one answer").1.is_empty());
}

#[test]
fn targets_of_https_records_are_learnt() {
    let mut world = World::new(1);
    world.ask(1, &question(7, "www.example", 65).bytes);
    let query = world.query();
    let service = |priority: u8, target: &str| [vec![0, priority], wire(target)].concat();
    let answer = query
        .answer()
        .cname("www.example", "web.example", 60)
        .record("web.example", 65, 300, &service(1, "a.cdn.test"))
        // The same again, the owner, the name that was asked, a record of somebody else.
        .record("web.example", 65, 300, &service(2, "A.CDN.test"))
        .record("web.example", 65, 300, &service(3, "web.example"))
        .record("web.example", 65, 300, &service(4, "www.example"))
        .record("web.example", 65, 300, &[0, 5, 0])
        .record("stranger.test", 65, 300, &service(1, "b.cdn.test"))
        .record("web.example", 64, 20, &service(0, "c.cdn.test"));
    world.hear(&query, &answer.bytes);
    world.answered();
    let targets = world.watch.targets.pop().expect("one answer");
    let targets: Vec<_> =
        targets.iter().map(|one| (one.name.to_string(), one.ttl.as_secs_f64())).collect();
    let expected = [("a.cdn.test".to_owned(), 60.0), ("c.cdn.test".to_owned(), 20.0)];
    assert_eq!(targets, expected);
}

#[test]
fn an_answer_may_be_refused_and_a_malformed_one_is_a_failure() {
    let mut world = World::new(1);
    world.watch = Watch { refuses_address: Some(ip("127.0.0.1")), ..Watch::default() };
    let asked = question(7, "www.example", 1).edns(1_232, &[]);
    world.ask(1, &asked.bytes);
    let query = world.query();
    world.hear(&query, &query.answer().a("www.example", [127, 0, 0, 1], 5).bytes);
    let (_, _, message) = world.answered();
    assert_eq!((message[3] & 0x0f, message[7]), (5, 0), "REFUSED, without the address");
    world.ask(1, &asked.bytes);
    let query = world.query();
    let mut answer = query.answer().cname("www.example", "b.test", 5);
    answer.bytes.truncate(answer.bytes.len() - 3);
    world.hear(&query, &answer.bytes);
    assert_eq!(world.answered().2[3] & 0x0f, 2);
    assert_eq!(world.watch.seen.len(), 1);
}

#[test]
fn what_the_hosts_table_says_is_learnt_too() {
    let mut world = World::new(1);
    let mut hosts = crate::dns::Hosts::default();
    hosts.add("box.test", ip("192.0.2.7")).expect("a name");
    world.forwarder.set_hosts(hosts);
    world.ask(1, &question(7, "box.test", 1).bytes);
    world.answered();
    let (names, addresses) = world.watch.seen.pop().expect("one answer");
    assert_eq!(
        (names, addresses),
        (vec!["box.test".to_owned()], vec![learned("192.0.2.7", 10, false)])
    );
    assert_eq!(wire("box.test").len(), 10);
}

#[test]
fn keys_of_encrypted_hellos_are_hidden_if_the_policy_says_so() {
    // Priority 1, target ".", alpn h2, ech, an IPv4 hint.
    let value = [
        0, 1, 0, 0, 1, 0, 3, 2, b'h', b'2', 0, 5, 0, 3, b'k', b'e', b'y', 0, 4, 0, 4, 192, 0, 2, 1,
    ];
    for hides_ech in [false, true] {
        let mut world = World::new(1);
        world.watch.hides_ech = hides_ech;
        world.ask(1, &question(7, "www.example", 65).bytes);
        let query = world.query();
        let answer = query.answer().record("www.example", 65, 300, &value);
        let answer = answer.record("www.example", 1, 300, &[192, 0, 2, 1]);
        world.hear(&query, &answer.bytes);
        let (_, _, message) = world.answered();
        assert_eq!(message.len(), answer.bytes.len());
        assert_eq!(message.windows(3).any(|bytes| bytes == b"key"), !hides_ech);
        assert_eq!(message[message.len() - 4..], [192, 0, 2, 1]);
        assert_eq!(world.watch.seen.len(), 1);
    }
}
