//! The cost of a policy: ns a new flow with no rules, with 1,000 rules and 4,096 pins, by the
//! compiled rules and by the plain list, and what the log adds.
//!
//! Called by: `cargo bench -p wirespeed-policy`. Half of the rules have a name, half a network, all
//! of them a port; flows lead to pinned addresses. Each figure is the best of several.

use core::fmt::Write as _;
use core::hint::black_box;
use core::net::{IpAddr, SocketAddr};
use std::time::Instant;

use base::Duration;
use gateway::{End, Ends, Policy, Report};
use host::dns::{Answered, Asked, DomainName, Learned, Policy as _};
use wirespeed_policy::text::{Source, parse};
use wirespeed_policy::{Destination, Fence, HostAddresses, Protocol, Rules, plain};

const PINS: u32 = 4_096;
const FLOWS: u32 = 1 << 16;

fn rules(count: u32) -> Rules {
    let mut text = String::from("default = \"deny\"\n");
    for number in 0..count {
        let target = match number % 2 {
            0 => format!("*.n{number}.test"),
            _ => format!("10.{}.{}.0/24", number / 256, number % 256),
        };
        writeln!(text, "[[rule]]\nallow = \"{target}\"\nports = \"443\"").expect("text");
    }
    let source = Source { file: Some(("policy.toml", &text)), ..Source::default() };
    parse(&source, &|_| Err(String::new())).expect("rules")
}

fn address(number: u32) -> IpAddr {
    let [_, a, b, c] = number.to_be_bytes();
    IpAddr::from([11, a, b, c])
}

fn name(number: u32) -> DomainName {
    DomainName::parse(&format!("www.n{}.test", number % 1_000 / 2 * 2)).expect("a name")
}

fn fence(rules: &Rules) -> Fence {
    let mut fence = Fence::new(rules.clone(), HostAddresses::default()).expect("few rules");
    for number in 0..PINS {
        let name = name(number);
        let asked = Asked { name: &name, rtype: 1, is_local: true };
        let ttl = Duration::from_secs(300);
        let addresses = [Learned { address: address(number), ttl, is_hint: false }];
        fence.answer(&Answered { asked, aliases: &[], addresses: &addresses, targets: &[] });
    }
    fence
}

/// Nanoseconds for each flow.
fn best(name: &str, flows: u32, mut run: impl FnMut(u32)) {
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let begin = Instant::now();
        (0..flows).for_each(&mut run);
        best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(flows));
    }
    println!("{name:<50} {best:>9.0} ns");
}

fn main() {
    let host = HostAddresses::default();
    for count in [0, 10, 1_000, 4_000] {
        let rules = rules(count);
        let begin = Instant::now();
        let mut fence = fence(&rules);
        println!("{count} rules: compiled in {} us", begin.elapsed().as_micros());
        let to = |number: u32| {
            Destination::new(Protocol::Tcp, address(number.wrapping_mul(2_654_435_761) % PINS), 443)
        };
        best(&format!("{count} rules: decide"), FLOWS, |number| {
            black_box(fence.decide(&to(number)));
        });
        best(&format!("{count} rules: plain list"), 64, |number| {
            let to = to(number);
            let names = [name(number.wrapping_mul(2_654_435_761) % PINS)];
            black_box(plain::first(&rules, &host, &to, &names));
        });
        best(&format!("{count} rules: a flow, from SYN to log"), FLOWS, |number| {
            let remote = SocketAddr::new(to(number).address, 443);
            let guest = SocketAddr::from(([10, 0, 2, 100], number as u16));
            let ends = Ends { guest, remote };
            black_box(fence.tcp(&ends));
            let since = base::Instant::ZERO;
            let end = End::Finished;
            let protocol = Protocol::Tcp;
            fence.ended(&Report { protocol, ends, end, since, bytes_up: 1, bytes_down: 1 });
            while let Some(line) = fence.next_line() {
                black_box(line);
            }
        });
    }
}
