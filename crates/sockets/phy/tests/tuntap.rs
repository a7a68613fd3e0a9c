//! smoltcp's own TUN and TAP interfaces as ports, with the kernel at the other end. Each case runs
//! in a network namespace of its own; the program has no test harness, so that it can skip.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod cases {
    use std::io::{Read, Write};
    use std::net::{Shutdown, SocketAddr, TcpListener};
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use net::{Net, blocking};
    use smoltcp::phy::{Medium, TunTapInterface, wait};
    use smoltcp::time::{Duration as Interval, Instant};
    use stack::{PortConfig, Stack, StackConfig};
    use testbed::Case;
    use wirespeed_phy::Pump;

    pub(super) const CASES: &[Case] = &[
        ("a_tun_interface_of_smoltcp_is_a_port", &[], || exchange(Medium::Ip)),
        ("a_tap_interface_of_smoltcp_is_a_port", &[], || exchange(Medium::Ethernet)),
    ];

    const SOON: Duration = Duration::from_secs(60);

    /// The kernel sends back a megabyte.
    fn exchange(medium: Medium) {
        let device = TunTapInterface::new("st0", medium).expect("root makes it");
        for command in ["addr add 10.9.0.1/24 dev st0", "link set st0 up"] {
            assert!(testbed::ip(command), "ip {command}");
        }
        let (mut pump, port) = Pump::new(device, 512).expect("Ethernet or IP");
        let mut stack = Stack::new(StackConfig::new([1, 2]));
        let mac = base::MacAddr([2, 0, 0, 0, 0, 9]);
        let addresses = vec!["10.9.0.2/24".parse().expect("an address")];
        let config = PortConfig { mac, addresses, ..PortConfig::default() };
        stack.add_port(Box::new(port), config);
        let (net, _driver) = Net::spawn_thread(stack).expect("the thread starts");
        let listener = TcpListener::bind("10.9.0.1:0").expect("the kernel's address");
        let at = listener.local_addr().expect("it listens");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut peer, _) = listener.accept().expect("our stack connects");
                let mut all = Vec::new();
                peer.read_to_end(&mut all).expect("until the end");
                peer.write_all(&all).expect("our stack reads");
            });
            scope.spawn(|| {
                talk(&net, at);
                done.store(true, Ordering::Release);
            });
            // smoltcp's device stays on this thread.
            while !done.load(Ordering::Acquire) {
                if pump.turn(Instant::now()) == 0 {
                    let most = Some(Interval::from_millis(1));
                    wait(pump.device().as_raw_fd(), most).expect("it is open");
                }
            }
        });
    }

    fn talk(net: &Net, at: SocketAddr) {
        let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i * 7 + (i >> 9)) as u8).collect();
        let mut stream = blocking::TcpStream::connect_timeout(net, at, SOON).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("not zero");
        stream.write_all(&data).expect("the kernel reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("the kernel writes");
        assert!(back == data, "{} bytes came back", back.len());
    }
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[cases::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
