//! `wirespeed up` with rules between two hosts, which are the kernels of two namespaces: what
//! passes, what is translated, and what a reload does to flows.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Need, until};

use crate::up::{CONFIG, TIMEOUT, World};

pub(crate) const CASES: &[Case] =
    &[("up_filters_and_translates_by_its_rules", &[Need::PING], filters)];

/// How long an answer is waited for that may not come.
const SILENCE: Duration = Duration::from_millis(400);

const BEHIND: &str = "198.51.100.2";

const RULES: &str = "[filter]
rules = '''
pass in lan out wan icmp echo-request label ping
pass in lan out wan tcp 7007 label echo
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
    // A mistake changes nothing, and its place is said; nor does a file that is gone.
    let said = reload(&world, &format!("{CONFIG}{}", RULES.replace("label echo", "lable echo")));
    assert!(said.contains("router.toml:14:30: "), "{said}");
    std::fs::remove_file(world.path("bad.txt")).expect("it is there");
    let said = reload(&world, &format!("{CONFIG}{RULES}"));
    assert!(said.contains("bad.txt") && said.contains("router.toml:23:27: "), "{said}");
    assert!(echoes(&mut echo) && echoes(&mut web), "the running rules stay");
    // Rules that do not pass a flow any more end it; the other one goes on.
    std::fs::write(world.path("bad.txt"), "10.8.0.0/16\n").expect("room");
    let without = RULES.replace("pass in lan out wan tcp 7007 label echo\n", "");
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
