//! A program whose stack others see, by one line: `wirespeed show`, `top`, `explain`, and a
//! browser. It moves bytes between two stacks in memory until Ctrl-C.

use std::io::{Result, Write, copy, sink, stdout};
use std::net::SocketAddr;
use std::time::Duration;

use wirespeed::net::{Net, blocking};
use wirespeed::observe::Observer;
use wirespeed::pair::{PairConfig, pair};

fn main() -> Result<()> {
    let (client, server) = pair(&PairConfig::new([1, 2]));
    let at = SocketAddr::new(server.addr, 7);
    let (client, _driver) = Net::spawn_thread(client.stack)?;
    let (server, _other) = Net::spawn_thread(server.stack)?;
    let seen = Observer::new("seen").page("127.0.0.1:0")?.start(client.clone())?;
    writeln!(stdout(), "{}", seen.page().unwrap_or_default())?;
    let listener = blocking::TcpListener::bind(&server, at)?;
    std::thread::spawn(move || {
        listener.accept().and_then(|(mut from, _)| copy(&mut from, &mut sink()))
    });
    let mut to = blocking::TcpStream::connect(&client, at)?;
    loop {
        to.write_all(&[0; 65_536])?;
        std::thread::sleep(Duration::from_millis(1));
    }
}
