//! A proxy behind a TUN interface: connections routed to it go to their destination by the
//! kernel's sockets, or by way of a SOCKS5 server. As root:
//!
//! ```text
//! proxy --dev ws2 --kernel 10.1.2.1/24 --ours 10.1.2.2 --socks5 127.0.0.1:1080
//! ip route add 203.0.113.0/24 via 10.1.2.2 dev ws2
//! ```
//! Straight to the destination is for stacks in another namespace, or with routes by mark: the
//! proxy's own connections must not be routed back to it. `proxy.rs` does the work.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use wirespeed::net::Net;
use wirespeed_examples::proxy::{self, Upstream};
use wirespeed_examples::tun;

/// Carry every TCP connection of an interface.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    interface: tun::Interface,
    /// A SOCKS5 server to go by, without authentication.
    #[arg(long)]
    socks5: Option<SocketAddr>,
    /// Connections at a time; one more is refused.
    #[arg(long, default_value_t = 1024)]
    connections: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    wirespeed_examples::outcome(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<()> {
    let (net, _driver) = Net::spawn_tokio(arguments.interface.stack()?);
    let upstream = arguments.socks5.map_or(Upstream::Direct, Upstream::Socks5);
    println!("carrying what comes in at {}", arguments.interface.dev);
    tokio::select! {
        ran = proxy::run(&net, upstream, arguments.connections) => Ok(ran?),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}
