//! Fetches one URL by way of a stack of its own, behind a TUN interface. As root:
//!
//! ```text
//! https-get --dev ws1 --kernel 10.1.1.1/24 --ours 10.1.1.2 -o index.html \
//!     http://10.1.1.1/index.html
//! ```
//! Must not know: how HTTP is spoken; `client.rs` does.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use hyper::Uri;
use wirespeed::base::Cidr;
use wirespeed::net::Net;
use wirespeed_examples::{client, tls, tun};

/// Fetch a URL into a file.
#[derive(Parser)]
struct Arguments {
    /// The TUN interface to make or join.
    #[arg(long, default_value = "ws0")]
    dev: String,
    /// The kernel's address on it, with its network.
    #[arg(long, default_value = "10.1.0.1/24")]
    kernel: Cidr,
    /// Our address, of the same network.
    #[arg(long, default_value = "10.1.0.2")]
    ours: IpAddr,
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
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let (stack, _) = tun::stack(&arguments.dev, arguments.kernel, arguments.ours)?;
    let (net, _driver) = Net::spawn_tokio(stack);
    let connector = match &arguments.certificate {
        None => None,
        Some(path) => {
            let pem = tokio::fs::read(path).await;
            Some(tls::connector(&pem.with_context(|| path.display().to_string())?)?)
        }
    };
    let mut out = tokio::fs::File::create(&arguments.output).await?;
    let bytes = client::fetch(&net, &arguments.uri, connector.as_ref(), &mut out).await?;
    eprintln!("{bytes} bytes");
    Ok(())
}
