//! A gateway for a virtual machine of QEMU, in this process: `vm SOCKET NAME...`. The machine
//! reaches ports 80 and 443 of the names, and nothing else, until standard input ends.
//!
//! Called by: people who read how to begin; docs/gateway.md has the options of QEMU.

use std::io::Read;
use std::os::unix::net::UnixListener;

use wirespeed_machine::{Config, Gateway, Vm, VmKind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give the path of a socket, then names to allow")?;
    let names: Vec<String> = arguments.map(|name| format!("{name:?}")).collect();
    let policy = match names.as_slice() {
        [] => String::new(),
        names => format!("[[rule]]\nallow = [{}]\nports = ['80', '443']\n", names.join(", ")),
    };
    let socket = UnixListener::bind(&path)?;
    let gateway = Gateway::start(Config {
        policy,
        vms: vec![Vm { kind: VmKind::Stream, fd: socket.into() }],
        log: Some(Box::new(|line| println!("{line}"))),
        say: Some(Box::new(|text| eprintln!("{text}"))),
        ..Config::default()
    })?;
    for network in gateway.networks() {
        println!("the machine's network: {}, by DHCP and router advertisements", network.network());
    }
    let ended = std::io::stdin().read_to_end(&mut Vec::new());
    gateway.stop()?;
    std::fs::remove_file(&path)?;
    ended?;
    Ok(())
}
