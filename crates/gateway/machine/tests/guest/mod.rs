//! A machine: a stack of ours at the other end of a gateway's link; and a server to talk to.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::thread;
use std::time::Duration;

use base::{Cidr, KeyedHash, MacAddr};
use device::Device;
use device::vm::{Dgram, Stream};
use net::blocking::TcpStream;
use net::dhcp::{Change, Config, DhcpPort};
use net::{DriverThread, Net};
use stack::{Address, PortConfig, PortId, Route, Stack, StackConfig};

const MAC: MacAddr = MacAddr([0x52, 0x54, 0, 0, 0, 1]);
/// Longer than anything takes, on a busy machine, too.
const LONG: Duration = Duration::from_secs(60);

/// A machine with one interface.
pub(crate) struct Guest {
    net: Net,
    driver: Option<DriverThread>,
    port: PortId,
}

impl Guest {
    /// At the other end of a stream socket.
    pub(crate) fn on_stream(socket: UnixStream) -> Guest {
        Guest::on(Box::new(Stream::from_socket(socket, "gateway".as_ref()).expect("a link")))
    }

    /// At the other end of a datagram socket.
    #[allow(dead_code, reason = "not every program of tests has such a link")]
    pub(crate) fn on_datagrams(socket: UnixDatagram) -> Guest {
        Guest::on(Box::new(Dgram::adopt(socket).expect("a link")))
    }

    fn on(device: Box<dyn Device>) -> Guest {
        let mut stack = Stack::new(StackConfig::new([1, 2]));
        let port = stack.add_port(device, PortConfig { mac: MAC, ..PortConfig::default() });
        let (net, driver) = Net::spawn_thread(stack).expect("a thread");
        Guest { net, driver: Some(driver), port }
    }

    /// Ask for an address by DHCP, and take it.
    #[allow(dead_code, reason = "not every program of tests asks")]
    pub(crate) fn lease(&mut self) -> Ipv4Addr {
        let port = self.port;
        let mut asking = None;
        let began = std::time::Instant::now();
        while began.elapsed() < LONG {
            let change = self.net.with_stack(|stack| {
                let now = stack.now();
                let config = Config::new(MAC, KeyedHash::new(3, 4));
                let client = asking.get_or_insert_with(|| {
                    DhcpPort::new(stack, port, config, now).expect("a client")
                });
                client.poll(stack, now)
            });
            if let Some(Change::Configured(lease)) = change.expect("the stack runs") {
                return lease.address;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("no address in {LONG:?}");
    }

    /// Take an address without a question.
    pub(crate) fn set_address(&mut self, own: Ipv4Addr) {
        let port = self.port;
        let own = Cidr { addr: own.into(), prefix_len: 24 };
        let set = self.net.with_stack(|stack| stack.add_address(port, Address::fixed(own)));
        set.expect("the stack runs").expect("the address is free");
        let gateway = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2));
        let default = Route::new("0.0.0.0/0".parse().expect("all"), Some(gateway), port.0);
        self.net.with_stack(|stack| stack.add_route(default)).expect("the stack runs");
    }

    /// Send bytes, and read what comes back until the end.
    pub(crate) fn echo(&mut self, to: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&self.net, to, LONG)?;
        stream.set_read_timeout(Some(LONG))?;
        stream.write_all(bytes)?;
        stream.shutdown(Shutdown::Write)?;
        let mut back = Vec::new();
        stream.read_to_end(&mut back)?;
        Ok(back)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.stop().expect("the driver ran");
        }
    }
}

/// A server of this machine that sends back what comes.
pub(crate) struct Echo {
    pub(crate) port: u16,
}

impl Echo {
    pub(crate) fn new() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        // It ends with the program.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes).and_then(|_| stream.write_all(&bytes));
            }
        });
        Echo { port }
    }
}
