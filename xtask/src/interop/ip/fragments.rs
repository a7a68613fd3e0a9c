//! Datagrams of 64 KB to the echo service and back, in fragments both ways. RFC 791 section 3.2,
//! RFC 8200 section 4.5.

use super::capture::Capture;
use super::steps::{LIMIT, arrived, ours, show, with_control};
use crate::interop::Workbench;
use crate::interop::host::Host;
use anyhow::{Context, Result, ensure};

/// socat's address of our echo service, ours in a capture's field of the source, and the bytes of a
/// datagram: over IPv4 the largest there is.
const ENDS: [(&str, &str, usize); 2] = [
    ("UDP4:10.9.0.2:7", "ip.src == 10.9.0.2", 65_507),
    ("UDP6:[fd09::2]:7", "ipv6.src == fd09::2", 65_000),
];

/// Of 1,480 bytes over IPv4, of 1,448 over IPv6.
const FRAGMENTS: &str = "45";

pub(super) fn echoed(bench: &Workbench) -> Result<()> {
    with_control(bench)?;
    let host = Host::new(bench)?;
    let mut services = ours(bench, &host, "services", &["10.9.0.2/24", "fd09::2/64"])?;
    let _services = host.start("services", services.args(["--offload", "off"]))?;
    // It serves when it can be asked.
    show(bench, &host, "frag")?;
    let capture = Capture::start(bench, &host, "ws0")?;
    for (to, _, bytes) in ENDS {
        bench.file("sent", bytes)?;
        // Half a second after the end of its input, socat ends.
        let script = format!("socat -t 0.5 -b 70000 - '{to}' < sent > received");
        let mut socat = host.command("sh");
        bench.run(socat.args(["-c", &script]).current_dir(bench.path("")), LIMIT)?;
        arrived(bench).with_context(|| format!("back from {to}"))?;
    }
    let counts = show(bench, &host, "frag")?;
    for name in ["datagrams_fragmented", "datagrams_reassembled"] {
        ensure!(counts[name] == 2, "{name} is not 2: {counts}");
    }
    let captured = capture.finish(bench)?;
    captured.is_clean()?;
    let fields = ["udp.length", "udp.checksum.status", "ip.fragment.count", "ipv6.fragment.count"];
    for (_, from_us, bytes) in ENDS {
        let length = bytes + 8;
        for filter in [from_us.to_owned(), format!("!({from_us})")] {
            let lines = captured.lines(&format!("udp.length == {length} && {filter}"), &fields)?;
            let words: Vec<Vec<&str>> =
                lines.iter().map(|line| line.split_whitespace().collect()).collect();
            let expected = vec![vec![length.to_string(), "1".into(), FRAGMENTS.into()]];
            ensure!(words == expected, "tshark sees {words:?}, expected {expected:?}");
        }
    }
    Ok(())
}
