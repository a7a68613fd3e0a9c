//! A host on a TAP that checks whether its address is free, joins a group, and writes the datagrams
//! of the group to standard output.
//!
//! `cargo run -p wirespeed --features net --example multicast -- ws0 10.1.0.2/24 239.1.2.3:5300`
//!
//! Called by: readers, `cargo xtask interop ip`. It needs root or `cap_net_admin`.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("TAPs are Linux's: there is nothing to run here");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::hash::{BuildHasher, Hasher, RandomState};
    use std::io::Write;
    use std::net::{IpAddr, SocketAddr};
    use std::time::Duration;

    use wirespeed::device::tap::{Config, Setup, Tap};
    use wirespeed::net::{Net, blocking};
    use wirespeed::{Address, AddressState, Cidr, PortConfig, PortId, Stack, StackConfig};

    pub(crate) fn run() -> Result<(), Box<dyn Error>> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let [name, cidr, group] = args.as_slice() else {
            return Err(
                "usage: multicast TAP ADDRESS/LENGTH GROUP:PORT [one datagram ends it]".into()
            );
        };
        let (cidr, group): (Cidr, SocketAddr) = (cidr.parse()?, group.parse()?);

        // The stack computes checksums, so that captures of the TAP have them.
        let config = Config { name: Some(name.clone()), vnet_hdr: false, ..Config::default() };
        let mut tap = Tap::open(&config)?;
        tap.configure(&Setup { up: true, ..Setup::default() })?;
        let mac = tap.our_mac().unwrap_or_default();
        let half = || RandomState::new().build_hasher().finish();
        let mut stack = Stack::new(StackConfig::new([half(), half()]));
        let addresses = Vec::new(); // none before it is known to be free
        let port =
            stack.add_port(Box::new(tap), PortConfig { mac, addresses, ..PortConfig::default() });
        let (net, driver) = Net::spawn_thread(stack)?;

        let tentative = Address { state: AddressState::Tentative, ..Address::fixed(cidr) };
        net.with_stack(|stack| stack.add_address(port, tentative))??;
        if !is_free(&net, port, cidr.addr)? {
            let address = cidr.addr;
            return Err(format!("{address} is another host's: give one that is free").into());
        }
        eprintln!("{} is ours", cidr.addr);

        let any: IpAddr = if group.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let socket = blocking::UdpSocket::bind(&net, SocketAddr::new(any, group.port()))?;
        match (group.ip(), cidr.addr) {
            (IpAddr::V4(group), IpAddr::V4(ours)) => socket.join_multicast_v4(group, ours)?,
            (IpAddr::V6(group), _) => socket.join_multicast_v6(&group, port.scope_id())?,
            _ => return Err("address and group are of different versions of IP".into()),
        }
        eprintln!("member of {}", group.ip());
        let mut datagram = vec![0; 65_536];
        let (n, _from) = socket.recv_from(&mut datagram)?;
        std::io::stdout().write_all(&datagram[..n])?;
        // Dropping the socket leaves the group; the driver reports that before it stops.
        drop(socket);
        driver.stop()?;
        Ok(())
    }

    /// Wait until the stack has asked whether another host has the address (RFC 4862 section 5.4,
    /// RFC 5227): it takes up to two seconds for IPv6, seven for IPv4.
    fn is_free(net: &Net, port: PortId, ip: IpAddr) -> std::io::Result<bool> {
        loop {
            let state = |stack: &mut Stack| {
                stack.addresses(port).iter().find(|a| a.ip() == ip).map(|a| a.state)
            };
            match net.with_stack(state)? {
                Some(AddressState::Tentative) => std::thread::sleep(Duration::from_millis(50)),
                state => return Ok(state == Some(AddressState::Preferred)),
            }
        }
    }
}
