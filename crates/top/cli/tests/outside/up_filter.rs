//! `wirespeed up` with rules between two hosts, which are the kernels of two namespaces: what
//! passes, what is translated, and what a reload does to flows.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Need, until};

use crate::up::{CONFIG, TIMEOUT, World};

pub(crate) const CASES: &[Case] = &[
    ("up_filters_and_translates_by_its_rules", &[Need::PING], filters),
    ("up_filters_on_trial_and_ends_states", &[], trial),
    ("up_filters_with_two_shards", &[], shards),
    ("up_translates_with_two_shards", &[], nat_of_shards),
];

/// How long an answer is waited for that may not come.
const SILENCE: Duration = Duration::from_millis(400);

const BEHIND: &str = "198.51.100.2";

const RULES: &str = "[filter]
rules = '''
pass in lan out wan icmp echo-request label ping
pass in lan out wan tcp 7007 label echo log
pass in wan to 198.51.100.2 tcp 443 from !@bad label web
'''
[nat]
rules = '''
source out wan from 198.51.100.0/24 to port
dest in wan to self tcp 8443 to 198.51.100.2:443
'''
[sets]
bad = ['203.0.113.0/24', 'file:bad.txt']
";

/// A server in this namespace, or in the one behind the router: it says who its client is, and
/// then echoes.
fn serve(at: &str) {
    let listener = TcpListener::bind(at).expect("the port is free");
    std::thread::spawn(move || {
        while let Ok((mut stream, from)) = listener.accept() {
            let _ = stream.write_all(format!("{}\n", from.ip()).as_bytes());
            std::thread::spawn(move || std::io::copy(&mut stream.try_clone()?, &mut stream));
        }
    });
}

fn connect(to: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to.parse().expect("an address"), SILENCE)?;
    stream.set_read_timeout(Some(SILENCE))?;
    Ok(stream)
}

/// The place of a mistake in the line of a file that has `part`, as messages say it.
fn placed(file: &str, part: &str, column: usize) -> String {
    let line = file.lines().position(|line| line.contains(part)).expect("a line has it") + 1;
    format!("router.toml:{line}:{column}: ")
}

/// The next line that the other end sends.
fn line(stream: &mut TcpStream) -> std::io::Result<String> {
    let (mut line, mut byte) = (String::new(), [0]);
    while byte[0] != b'\n' {
        stream.read_exact(&mut byte)?;
        line.push(char::from(byte[0]));
    }
    Ok(line.trim().to_owned())
}

fn echoes(stream: &mut TcpStream) -> bool {
    stream.write_all(b"again\n").is_ok() && line(stream).is_ok_and(|line| line == "again")
}

/// Let the router read another configuration; returns what it says of it.
fn reload(world: &World, config: &str) -> String {
    let before = world.log().len();
    world.write(config);
    world.signal(Signal::HUP);
    let said = || world.log().split_off(before);
    let is_done = |said: &str| said.contains("took effect") || said.contains("stays");
    assert!(until(TIMEOUT, || is_done(&said())), "{}", said());
    said()
}

fn filters() {
    let world = World::with_files(&format!("{CONFIG}{RULES}"), &[("bad.txt", "10.9.0.0/16\n")]);
    assert!(world.log().contains("filter: 3 rules, 2 of NAT"), "{}", world.log());
    let behind = |to: &'static str| world.behind.inside(move || connect(to)).expect("it ran");
    let ping = world.behind.command("ping").args(["-qc1", "-W2", "192.0.2.1"]).output();
    assert!(ping.is_ok_and(|ping| ping.status.success()), "{}", world.log());
    // Masquerade: the server sees the router's address.
    serve("192.0.2.1:7007");
    serve("192.0.2.1:7008");
    let mut echo = behind("192.0.2.1:7007").expect("a rule passes it");
    assert_eq!(line(&mut echo).expect("it says so"), "192.0.2.2");
    assert!(behind("192.0.2.1:7008").is_err(), "the default blocks it");
    assert!(connect(&format!("{BEHIND}:443")).is_err(), "nobody listens yet");
    // Destination: the client is seen as it is.
    world.behind.inside(|| serve("198.51.100.2:443")).expect("it ran");
    let mut web = connect("192.0.2.2:8443").expect("it is translated");
    assert_eq!(line(&mut web).expect("it says so"), "192.0.2.1");
    assert!(connect("192.0.2.2:8444").is_err(), "the default blocks it");
    shown(&world);
    // A mistake changes nothing, and its place is said; nor does a file that is gone.
    let wrong = format!("{CONFIG}{}", RULES.replace("label echo", "lable echo"));
    let said = reload(&world, &wrong);
    assert!(said.contains(&placed(&wrong, "lable", 30)), "{said}");
    std::fs::remove_file(world.path("bad.txt")).expect("it is there");
    let right = format!("{CONFIG}{RULES}");
    let said = reload(&world, &right);
    assert!(said.contains("bad.txt") && said.contains(&placed(&right, "bad = ", 26)), "{said}");
    assert!(echoes(&mut echo) && echoes(&mut web), "the running rules stay");
    // Rules that do not pass a flow any more end it; the other one goes on.
    std::fs::write(world.path("bad.txt"), "10.8.0.0/16\n").expect("room");
    let without = RULES.replace("pass in lan out wan tcp 7007 label echo log\n", "");
    let said = reload(&world, &format!("{CONFIG}{without}"));
    assert!(said.contains("filter: 2 rules, 2 of NAT"), "{said}");
    assert!(echoes(&mut web) && !echoes(&mut echo), "{}", world.log());
    // Without the sections everything passes as it is.
    let said = reload(&world, CONFIG);
    assert!(said.contains("filter: removed") && said.contains("1 changes took effect"), "{said}");
    let mut plain = behind("192.0.2.1:7008").expect("no rule");
    assert_eq!(line(&mut plain).expect("it says so"), BEHIND);
    assert_eq!(world.end(Signal::TERM), 0);
}

/// What tools say of the rules and of the flows.
fn shown(world: &World) {
    let rows = |section: &str| -> Value {
        let document = world.show_json(section);
        serde_json::from_str(&document).unwrap_or_else(|why| panic!("{why}: {document}"))
    };
    let filter = rows("filter")["stacks"][0]["filter"].clone();
    assert_eq!(filter.as_array().map(Vec::len), Some(4), "the default is last: {filter}");
    assert_eq!((&filter[1]["label"], &filter[1]["flows"]), (&"echo".into(), &1.into()));
    assert!(filter[1]["packets"].as_u64() > Some(2) && filter[3]["rule"].is_null(), "{filter}");
    let states = rows("states")["stacks"][0]["states"].clone();
    let is_echo = |row: &&Value| row["dst"] == "192.0.2.1:7007";
    let echo = states.as_array().and_then(|all| all.iter().find(is_echo).cloned());
    let echo = echo.unwrap_or_else(|| panic!("{states}"));
    assert_eq!((&echo["in_dev"], &echo["out_dev"]), (&"lan".into(), &"wan".into()));
    assert_eq!((&echo["phase"], &echo["rule"]), (&"established".into(), &2.into()));
    assert!(echo["reply_dst"].as_str().is_some_and(|to| to.starts_with("192.0.2.2:")), "{echo}");
    let nat = rows("nat")["stacks"][0].clone();
    assert_eq!((&nat["nat"][0]["sources"], &nat["nat"][1]["sources"]), (&1.into(), &Value::Null));
    let is_mapped = |row: &Value| row["inside"].as_str().is_some_and(|at| at.starts_with(BEHIND));
    assert!(nat["mappings"].as_array().is_some_and(|all| all.iter().any(is_mapped)), "{nat}");
    let text = world.show("filter");
    assert!(text.contains("default block") && text.contains("pass before any rule"), "{text}");
    world.says("filter: rule 2 (echo): pass: in lan out wan 198.51.100.2:");
    let (code, said) = world.tool("filter explain in wan 203.0.113.9:9 > 192.0.2.2:8443 tcp");
    assert!(code == 0 && said.contains("makes its destination 198.51.100.2"), "{said}");
    assert!(said.contains("its source is none of those"), "a set has it: {said}");
    assert!(said.contains("block by default"), "{said}");
}

fn trial() {
    let world = World::new(&format!("{CONFIG}[filter]\nrules = 'pass tcp 7007'\n"));
    serve("192.0.2.1:7007");
    let behind = |to: &'static str| world.behind.inside(move || connect(to)).expect("it ran");
    let mut old = behind("192.0.2.1:7007").expect("a rule passes it");
    let other = world.path("other.toml");
    let rules = format!("{CONFIG}[filter]\nrules = 'pass tcp 7009'\n");
    std::fs::write(&other, &rules).expect("room");
    let (code, said) = world.local(&format!("filter check {}", other.display()));
    assert_eq!((code, said.as_str()), (0, "1 rule, 0 of NAT, 0 sets with 0 networks\n"));
    let apply = format!("filter apply {} --confirm", other.display());
    // It goes back by itself.
    let (code, said) = world.tool(&format!("{apply} 1s"));
    assert!(code == 0 && said.starts_with("1 rule, "), "{said}");
    world.says("other rules are on trial");
    assert!(behind("192.0.2.1:7007").is_err(), "not by those rules");
    world.says("its own rules run again");
    assert!(behind("192.0.2.1:7007").is_ok(), "{}", world.log());
    assert!(world.tool("filter confirm").0 != 0, "the time is over");
    // Confirmed ones stay, until the configuration is read again.
    assert_eq!(world.tool(&format!("{apply} 60s")).0, 0);
    let (code, said) = world.tool("filter confirm");
    assert!(code == 0 && said.contains("until the configuration is read again"), "{said}");
    assert!(behind("192.0.2.1:7007").is_err(), "not by those rules");
    let said = reload(&world, &format!("{CONFIG}[filter]\nrules = 'pass tcp 7007'\n"));
    assert!(said.contains("filter: 1 rule,"), "it is the same file: {said}");
    old = behind("192.0.2.1:7007").unwrap_or(old);
    assert!(line(&mut old).is_ok() && echoes(&mut old), "{}", world.log());
    // A state that was ended does not pass in the middle.
    let (code, said) = world.tool("states kill src 198.51.100.2 dport 7007 in lan");
    assert!(code == 0 && said.ends_with(" ended\n") && !said.starts_with('0'), "{said}");
    assert!(!echoes(&mut old), "{}", world.log());
    std::fs::write(&other, rules.replace("pass", "pas")).expect("room");
    let (code, said) = world.local(&format!("filter check {}", other.display()));
    assert!(code == 1 && said.contains("other.toml:13:10: "), "{said}");
    assert_eq!(world.end(Signal::TERM), 0);
}

/// Both directions of a flow have to reach the shard that has its state.
fn shards() {
    let rules = "[filter]\nrules = 'pass in lan tcp 7007'\n";
    let world = World::new(&format!("shards = 2\n{CONFIG}{rules}"));
    serve("192.0.2.1:7007");
    let all =
        world.behind.inside(|| (0..16).filter_map(|_| connect("192.0.2.1:7007").ok()).collect());
    let mut all: Vec<TcpStream> = all.expect("it ran");
    assert_eq!(all.len(), 16, "{}", world.log());
    assert!(all.iter_mut().all(|one| line(one).is_ok() && echoes(one)), "{}", world.log());
    let document: Value = serde_json::from_str(&world.show_json("states")).expect("JSON");
    let count = |shard: usize| document["stacks"][shard]["states"].as_array().map_or(0, Vec::len);
    assert_eq!(count(0) + count(1), 16, "{document}");
    assert!(count(0) > 0 && count(1) > 0, "each has some: {document}");
    assert!(world.behind.inside(|| connect("192.0.2.1:7008")).expect("it ran").is_err());
    assert_eq!(world.end(Signal::TERM), 0);
}

/// NAT with two shards: many clients on one address, and a server behind a port.
fn nat_of_shards() {
    let world = World::with_files(&format!("shards = 2\n{CONFIG}{RULES}"), &[("bad.txt", "")]);
    serve("192.0.2.1:7007");
    let mut all: Vec<TcpStream> = Vec::new();
    for n in 2..10 {
        let _ = n == 2 || world.behind.ip(&format!("addr add 198.51.100.{n}/24 dev ws1"));
        let route = format!("route replace default via 198.51.100.1 src 198.51.100.{n}");
        assert!(world.behind.ip(&route));
        let four = || (0..4).filter_map(|_| connect("192.0.2.1:7007").ok()).collect::<Vec<_>>();
        all.extend(world.behind.inside(four).expect("it ran"));
    }
    assert_eq!(all.len(), 32, "{}", world.log());
    for one in &mut all {
        assert_eq!(line(one).expect("it says so"), "192.0.2.2", "masquerade");
        assert!(echoes(one), "{}", world.log());
    }
    world.behind.inside(|| serve("198.51.100.2:443")).expect("it ran");
    for _ in 0..16 {
        let mut web = connect("192.0.2.2:8443").expect("it is translated");
        assert_eq!(line(&mut web).expect("it says so"), "192.0.2.1");
        assert!(echoes(&mut web), "{}", world.log());
    }
    let document: Value = serde_json::from_str(&world.show_json("nat")).expect("JSON");
    let sources = |of: &Value| of["nat"][0]["sources"].as_u64().unwrap_or(0);
    let each = [0, 1].map(|shard| sources(&document["stacks"][shard]));
    assert_eq!(each[0] + each[1], 8, "{document}");
    assert!(each[0] > 0 && each[1] > 0, "each has some: {document}");
    assert_eq!(sources(&document["host"]), 8, "{document}");
    let (code, said) = world.tool("states kill dport 7007");
    assert!(code == 0 && said.starts_with("32 "), "{said}");
    assert!(!all.iter_mut().take(2).any(echoes), "{}", world.log());
    assert_eq!(world.end(Signal::TERM), 0);
}
