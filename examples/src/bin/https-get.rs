//! Fetches one URL by way of a stack of its own, behind a TUN interface. As root:
//!
//! ```text
//! https-get --dev ws1 --kernel 10.1.1.1/24 --ours 10.1.1.2 -o index.html \
//!     http://10.1.1.1/index.html
//! ```
//! `client.rs` speaks HTTP.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use hyper::Uri;
use wirespeed::net::Net;
use wirespeed_examples::{client, tls, tun};

/// Fetch a URL into a file.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    interface: tun::Interface,
    /// The certificate to trust, in PEM; for https.
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// The file to write.
    #[arg(long, short)]
    output: PathBuf,
    /// What to fetch; the host is an address.
    uri: Uri,
}

#[tokio::main]
async fn main() -> ExitCode {
    wirespeed_examples::outcome(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<()> {
    let connector = match &arguments.certificate {
        None => None,
        Some(path) => {
            let pem = tokio::fs::read(path).await;
            Some(tls::connector(&pem.with_context(|| format!("reading {}", path.display()))?)?)
        }
    };
    let target = client::Target::new(arguments.uri, connector)?;
    let (net, _driver) = Net::spawn_tokio(arguments.interface.stack()?);
    let out = tokio::fs::File::create(&arguments.output).await;
    let mut out = out.with_context(|| format!("writing {}", arguments.output.display()))?;
    let bytes = client::fetch(&net, &target, &mut out).await?;
    eprintln!("{bytes} bytes");
    Ok(())
}
