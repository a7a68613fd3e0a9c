//! Questions for names through a gateway: over UDP and TCP, from the hosts table, refused, without
//! a server, and more of them than there is room for.

use base::{KeyedHash, Limit};
use device::fault::Rng;
use gateway::{Config, NamesConfig};
use host::dns::{ForwarderConfig, Hosts};
use stack::{CallError, TcpHandle, UdpHandle};
use tcp::{Error, State};

use super::bench::{Bench, at};

/// A resolver that no guest knows the address of.
const ANY: &str = "203.0.113.9:53";

fn bench(servers: &[&str]) -> Bench {
    let servers = servers.iter().map(|server| at(server)).collect();
    let (hosts, _) = Hosts::from_text("192.0.2.7 box.test\n");
    let secret = KeyedHash::new(3, 4);
    let names = NamesConfig { forwarder: ForwarderConfig::new(servers), hosts, secret };
    Bench::new(Config { names: Some(names), ..Config::default() })
}

/// A question for the addresses (IPv4) of a name.
fn question(id: u16, name: &str) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The answer of a server to what it got: this address.
fn answer(question: &[u8], address: [u8; 4]) -> Vec<u8> {
    let mut bytes = question.to_vec();
    (bytes[2], bytes[7]) = (0x81, 1);
    bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 0, 0, 4]);
    bytes.extend(address);
    bytes
}

fn framed(message: &[u8]) -> Vec<u8> {
    host::dns::framed(message)
}

/// Send a question from the guest's socket.
fn ask(bench: &mut Bench, own: UdpHandle, id: u16, name: &str) {
    let now = bench.now;
    bench.guest.udp_send(own, at(ANY), &question(id, name), now).expect("there is room");
    bench.settle();
}

/// What the guest's socket got: the id, the result code, and whether it ends with this address.
fn heard(bench: &mut Bench, own: UdpHandle, address: [u8; 4]) -> (u16, u8, bool) {
    let got = bench.guest.udp_receive(own).expect("an answer");
    assert_eq!(got.from, at(ANY), "from the address that was asked");
    let bytes = got.payload.as_slice();
    (u16::from_be_bytes([bytes[0], bytes[1]]), bytes[3] & 15, bytes.ends_with(&address))
}

fn nothing_is_left(bench: &Bench) {
    let (in_flight, sockets, connections) = bench.engine.name_sizes();
    let sessions = bench.engine.session_counts();
    assert_eq!((in_flight, sockets, connections, sessions), (0, 0, 0, (0, 0)));
    assert_eq!((bench.tokens.len(), bench.engine.flow_count()), (0, 0));
    assert_eq!(bench.engine.next_deadline(), base::Instant::NEVER);
}

#[test]
fn a_question_to_any_address_is_answered_from_there() {
    let mut bench = bench(&["198.51.100.7:53"]);
    let own = Bench::udp(&mut bench.guest, 5_000);
    let there = Bench::udp(&mut bench.server, 53);
    for id in [7, 8] {
        ask(&mut bench, own, id, "www.example");
        let asked = bench.server.udp_receive(there).expect("a question");
        assert_ne!(asked.from.port(), 5_000, "a port of its own");
        let reply = answer(asked.payload.as_slice(), [192, 0, 2, 80]);
        let now = bench.now;
        bench.server.udp_send(there, asked.from, &reply, now).expect("there is room");
        bench.settle();
        assert_eq!(heard(&mut bench, own, [192, 0, 2, 80]), (id, 0, true));
        nothing_is_left(&bench);
    }
    assert_eq!(bench.engine.name_counts().map(|counts| counts.answers), Some(2));
    assert!(bench.policy.asked.is_empty(), "no flow was judged");
}

#[test]
fn names_that_are_known_or_refused_are_not_asked() {
    let mut bench = bench(&["198.51.100.7:53"]);
    let own = Bench::udp(&mut bench.guest, 5_000);
    let there = Bench::udp(&mut bench.server, 53);
    bench.policy.refused_name = Some("secret.example");
    for (name, code, is_known) in [("box.test", 0, true), ("secret.example", 5, false)] {
        ask(&mut bench, own, 9, name);
        assert_eq!(heard(&mut bench, own, [192, 0, 2, 7]), (9, code, is_known));
    }
    assert!(bench.server.udp_receive(there).is_none());
    let (hosts, _) = Hosts::from_text("192.0.2.8 box.test\n");
    assert!(bench.engine.set_hosts(hosts));
    ask(&mut bench, own, 9, "box.test");
    assert_eq!(heard(&mut bench, own, [192, 0, 2, 8]), (9, 0, true));
    nothing_is_left(&bench);
}

#[test]
fn without_a_server_that_answers_the_guest_hears_so() {
    // Nobody listens at the first, and the second has no route; then there is none at all.
    let mut bench = bench(&["198.51.100.7:53", "203.0.113.1:53"]);
    let own = Bench::udp(&mut bench.guest, 5_000);
    ask(&mut bench, own, 7, "www.example");
    assert_eq!(heard(&mut bench, own, [0; 4]).1, 2);
    let now = bench.now;
    assert!(bench.engine.set_name_servers(Vec::new(), now));
    ask(&mut bench, own, 7, "www.example");
    assert_eq!(heard(&mut bench, own, [0; 4]).1, 2);
    // A server that is silent: 1 s in the first round, 4 s in the last.
    let there = Bench::udp(&mut bench.server, 53);
    assert!(bench.engine.set_name_servers(vec![at("198.51.100.7:53")], now));
    ask(&mut bench, own, 7, "www.example");
    bench.pass(4);
    assert!(bench.guest.udp_receive(own).is_none());
    assert_eq!(bench.engine.name_sizes(), (1, 1, 0));
    bench.pass(2);
    assert_eq!(heard(&mut bench, own, [0; 4]).1, 2);
    assert!(bench.server.udp_receive(there).is_some() && bench.server.udp_receive(there).is_some());
    nothing_is_left(&bench);
}

#[test]
fn a_server_that_comes_later_gets_the_questions_in_flight() {
    let mut bench = bench(&["203.0.113.1:53"]);
    let silent = Bench::udp(&mut bench.server, 54);
    let there = Bench::udp(&mut bench.server, 53);
    let now = bench.now;
    bench.engine.set_name_servers(vec![at("198.51.100.7:54")], now);
    let own = Bench::udp(&mut bench.guest, 5_000);
    ask(&mut bench, own, 7, "www.example");
    assert!(bench.server.udp_receive(silent).is_some());
    bench.engine.set_name_servers(vec![at("198.51.100.7:53")], now);
    assert!(bench.engine.next_deadline() <= now);
    bench.settle();
    assert!(bench.server.udp_receive(there).is_some());
}

#[test]
fn a_limit_leaves_questions_with_a_failure() {
    let mut bench = bench(&["198.51.100.7:53"]);
    bench.engine.budget_mut().set(Limit::DnsInFlight, 2);
    let own = Bench::udp(&mut bench.guest, 5_000);
    let there = Bench::udp(&mut bench.server, 53);
    for id in 0..3 {
        ask(&mut bench, own, id, "www.example");
    }
    assert_eq!(heard(&mut bench, own, [0; 4]), (2, 2, false));
    assert_eq!(bench.engine.name_counts().map(|counts| counts.full), Some(1));
    let asked = core::iter::from_fn(|| bench.server.udp_receive(there)).count();
    assert_eq!(asked, 2);
    bench.pass(6);
    nothing_is_left(&bench);
}

/// The server's end of the connection by which it is asked, and what it got.
fn asked_over(bench: &mut Bench, listener: stack::ListenerHandle) -> (TcpHandle, Vec<u8>) {
    let there = bench.server.tcp_accept(listener).expect("a connection");
    let mut into = [0; 2_048];
    let count = bench.server.tcp_read(there, &mut into).expect("a question");
    (there, into[..count].to_vec())
}

#[test]
fn a_connection_carries_questions_and_ends_when_it_is_idle() {
    let mut bench = bench(&["198.51.100.7:53"]);
    let listener = Bench::listen(&mut bench.server, 53);
    let client = bench.connect(ANY);
    assert_eq!(bench.guest.tcp_state(client), Some((State::Established, None)));
    let both = [framed(&question(1, "www.example")), framed(&question(2, "box.test"))].concat();
    // In two pieces, which are cut anywhere.
    for piece in [&both[..9], &both[9..]] {
        assert_eq!(bench.guest.tcp_write(client, piece), Ok(piece.len()));
        bench.settle();
    }
    let mut into = [0; 2_048];
    let count = bench.guest.tcp_read(client, &mut into).expect("the known one");
    assert_eq!((into[3], into[count - 1]), (2, 7));
    let (there, asked) = asked_over(&mut bench, listener);
    let reply = framed(&answer(&asked[2..], [192, 0, 2, 80]));
    assert_eq!(bench.server.tcp_write(there, &reply), Ok(reply.len()));
    bench.settle();
    let count = bench.guest.tcp_read(client, &mut into).expect("the other one");
    assert_eq!((into[3], &into[count - 4..count]), (1, &[192, 0, 2, 80][..]));
    assert_eq!(bench.engine.name_sizes(), (0, 0, 1));
    bench.pass(9);
    assert_eq!(bench.engine.name_sizes().2, 1);
    bench.pass(2);
    assert_eq!(bench.guest.tcp_read(client, &mut into), Ok(0), "closed");
    bench.guest.tcp_close(client);
    bench.server.tcp_close(there);
    bench.settle();
    nothing_is_left(&bench);
}

#[test]
fn a_guest_that_asks_and_closes_gets_its_answers() {
    let mut bench = bench(&["198.51.100.7:53"]);
    let listener = Bench::listen(&mut bench.server, 53);
    let client = bench.connect(ANY);
    let message = framed(&question(1, "www.example"));
    assert_eq!(bench.guest.tcp_write(client, &message), Ok(message.len()));
    bench.guest.tcp_shutdown_write(client);
    bench.settle();
    let (there, asked) = asked_over(&mut bench, listener);
    let reply = framed(&answer(&asked[2..], [192, 0, 2, 80]));
    assert_eq!(bench.server.tcp_write(there, &reply), Ok(reply.len()));
    bench.settle();
    let mut into = [0; 2_048];
    assert_eq!(bench.guest.tcp_read(client, &mut into), Ok(reply.len()));
    assert_eq!(bench.guest.tcp_read(client, &mut into), Ok(0));
    nothing_is_left(&bench);
}

#[test]
fn a_server_that_closes_its_connection_has_failed() {
    let mut bench = bench(&["198.51.100.7:53"]);
    let listener = Bench::listen(&mut bench.server, 53);
    let client = bench.connect(ANY);
    let message = framed(&question(1, "www.example"));
    assert_eq!(bench.guest.tcp_write(client, &message), Ok(message.len()));
    bench.settle();
    let (there, _) = asked_over(&mut bench, listener);
    bench.server.tcp_close(there);
    bench.settle();
    let mut into = [0; 2_048];
    bench.guest.tcp_read(client, &mut into).expect("an answer");
    assert_eq!((into[3], into[5] & 15), (1, 2), "SERVFAIL");
    assert_eq!(bench.engine.name_sizes(), (0, 0, 1));
}

#[test]
fn hostile_guests_are_bounded() {
    let mut bench = bench(&["198.51.100.7:53"]);
    bench.engine.budget_mut().set(Limit::GatewayDnsConnections, 2);
    let config = tcp::Config {
        receive_buffer_bytes: 4_096,
        receive_buffer_max_bytes: 0,
        ..tcp::Config::default()
    };
    let (owner, now) = (base::Owner::program(), bench.now);
    let greedy = bench.guest.tcp_connect(at(ANY), None, &config, owner, now).expect("a route");
    let long = bench.connect(ANY);
    let third = bench.connect(ANY);
    assert_eq!(bench.guest.tcp_state(third), Some((State::SynSent, None)));
    assert_eq!(bench.engine.budget().hits(Limit::GatewayDnsConnections), 1);
    // A message that is longer than a question.
    assert_eq!(bench.guest.tcp_write(long, &[0xff, 0xff, 1, 2]), Ok(4));
    bench.settle();
    let reset = Err(CallError::Failed(Error::Reset));
    assert_eq!(bench.guest.tcp_read(long, &mut [0; 8]), reset);
    // Thousands of questions, of which the answers are not read.
    let all = framed(&question(1, "box.test")).repeat(20_000);
    let mut written = 0;
    for _ in 0..100 {
        written += bench.guest.tcp_write(greedy, &all[written..]).unwrap_or(0);
        bench.settle();
    }
    let asked = bench.engine.name_counts().map_or(0, |counts| counts.questions);
    assert!((10..20_000).contains(&asked), "{asked}");
    let held = bench.inner.pool().in_use_bytes();
    assert!(held < 8 << 20, "the gateway holds {held} bytes");
    // It is idle, and so is the third one later, which found room when its SYN came again.
    bench.pass(15);
    bench.guest.tcp_abort(greedy);
    assert_eq!(bench.guest.tcp_state(third).map(|(_, error)| error), Some(None));
    bench.pass(20);
    nothing_is_left(&bench);
}

#[test]
fn a_flood_of_questions_is_bounded() {
    let mut bench = bench(&["198.51.100.7:53"]);
    bench.is_server_deaf = true;
    for first in (0..100_000_u32).step_by(500) {
        for number in first..first + 500 {
            let guest = core::net::Ipv4Addr::from_bits(0x0a00_0264 + number / 60_000);
            let own = core::net::SocketAddrV4::new(guest, (number % 60_000) as u16 + 1_024);
            let (message, now) = (question(1, &format!("n{number}.example")), bench.now);
            let (ip, to) = (stack::IpSettings::default(), at(ANY));
            bench.guest.udp_send_between(own.into(), to, ip, &message, now).expect("a route");
        }
        bench.settle();
        let (in_flight, sockets, _) = bench.engine.name_sizes();
        assert!(in_flight <= 256 && sockets <= 300, "{in_flight} {sockets} after {first}");
        bench.now += base::Duration::from_millis(100);
    }
    let counts = bench.engine.name_counts().expect("a resolver");
    assert!(counts.questions > 10_000 && counts.full > 0, "{counts:?}");
    let held = bench.inner.pool().in_use_bytes();
    assert!(held < 8 << 20, "the gateway holds {held} bytes");
    bench.pass(60);
    nothing_is_left(&bench);
}

/// Guests and servers that send anything.
#[test]
fn any_bytes_leave_nothing_behind() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut bench = bench(&["198.51.100.7:53"]);
        let own = Bench::udp(&mut bench.guest, 5_000);
        let there = Bench::udp(&mut bench.server, 53);
        let listener = Bench::listen(&mut bench.server, 53);
        let mut client = bench.connect(ANY);
        for round in 0..60 {
            let mut bytes = match rng.below(3) {
                0 => vec![0; rng.below(40)],
                _ => question(round, ["www.example", "box.test"][rng.below(2)]),
            };
            for _ in 0..rng.below(3) {
                let at = rng.below(bytes.len() + 1);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = rng.next_u64() as u8);
            }
            let now = bench.now;
            if rng.below(2) == 0 {
                let _ = bench.guest.udp_send(own, at(ANY), &bytes, now);
            } else if bench.guest.tcp_write(client, &framed(&bytes)).is_err() {
                bench.guest.tcp_abort(client);
                client = bench.connect(ANY);
            }
            bench.settle();
            while let Some(asked) = bench.server.udp_receive(there) {
                let mut reply = answer(asked.payload.as_slice(), [192, 0, 2, 80]);
                reply.truncate(rng.below(2 * reply.len()));
                let _ = bench.server.udp_send(there, asked.from, &reply, now);
            }
            while let Some(connection) = bench.server.tcp_accept(listener) {
                let mut into = [0; 2_048];
                let count = bench.server.tcp_read(connection, &mut into).unwrap_or(0);
                let reply = framed(&answer(&into[2.min(count)..count.max(14)], [192, 0, 2, 80]));
                let _ = bench.server.tcp_write(connection, &reply[..rng.below(reply.len())]);
                bench.server.tcp_close(connection);
            }
            bench.settle();
            while bench.guest.udp_receive(own).is_some() {}
            let _ = bench.guest.tcp_read(client, &mut [0; 4_096]);
        }
        bench.guest.tcp_abort(client);
        bench.pass(40);
        nothing_is_left(&bench);
    }
}

#[test]
fn a_gateway_that_ends_leaves_no_question_behind() {
    let mut bench = bench(&["198.51.100.7:53"]);
    Bench::listen(&mut bench.server, 53);
    let client = bench.connect(ANY);
    let message = framed(&question(1, "www.example"));
    assert_eq!(bench.guest.tcp_write(client, &message), Ok(message.len()));
    let own = Bench::udp(&mut bench.guest, 5_000);
    Bench::udp(&mut bench.server, 53);
    ask(&mut bench, own, 7, "www.example");
    assert_eq!(bench.engine.name_sizes().0, 2);
    bench.with(|engine, around| engine.shut_down(around));
    nothing_is_left(&bench);
}
