//! A file server over TLS on a stack of its own, behind a TUN interface. As root:
//!
//! ```text
//! https-files --dev ws0 --kernel 10.1.0.1/24 --ours 10.1.0.2 --certificate /tmp/ws0.pem .
//! curl --cacert /tmp/ws0.pem https://10.1.0.2/README.md
//! ```
//! `files.rs` serves.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use wirespeed::net::{Net, TcpListener};
use wirespeed_examples::{files, tls, tun};

/// Serve the files below a folder over TLS.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    interface: tun::Interface,
    /// The port to listen on.
    #[arg(long, default_value_t = 443)]
    port: u16,
    /// Where to write the certificate that clients are to trust.
    #[arg(long)]
    certificate: PathBuf,
    /// Seconds that a client may keep the server waiting.
    #[arg(long, default_value_t = files::PATIENCE.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// The folder.
    root: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    wirespeed_examples::outcome(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<()> {
    let (net, _driver) = Net::spawn_tokio(arguments.interface.stack()?);
    let ours = arguments.interface.ours;
    let identity = tls::identity(ours)?;
    let listener = TcpListener::bind(&net, SocketAddr::new(ours, arguments.port))?;
    tokio::fs::write(&arguments.certificate, &identity.certificate_pem)
        .await
        .with_context(|| format!("writing {}", arguments.certificate.display()))?;
    println!("serving at https://{}", listener.local_addr()?);
    let timeout = Duration::from_secs(arguments.timeout);
    tokio::select! {
        served = files::serve(listener, identity.acceptor, &arguments.root, timeout) => {
            served.with_context(|| format!("serving {}", arguments.root.display()))
        }
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}
