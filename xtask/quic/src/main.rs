//! QUIC by quinn, for the interop suite `gateway-programs`.
//!
//! Called by: `xtask/src/interop/gateway/quic.rs`. `quic serve ADDRESS CERTIFICATE KEY` echoes each
//! stream; `quic echo ADDRESS NAME AUTHORITY BYTES` sends bytes to a server of that name and checks
//! that they come back. Files are PEM.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Bytes of a stream at most.
const BYTES_MAX: usize = 64 << 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", at, certificate, key] => serve(at.parse()?, certificate, key).await,
        ["echo", at, name, authority, bytes] => {
            echo(at.parse()?, name, authority, bytes.parse()?).await
        }
        _ => bail!("expected serve ADDRESS CERTIFICATE KEY, or echo ADDRESS NAME AUTHORITY BYTES"),
    }
}

async fn serve(at: SocketAddr, certificate: &str, key: &str) -> Result<()> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let endpoint = Endpoint::server(ServerConfig::with_single_cert(chain, key)?, at)?;
    println!("ready");
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((mut to, mut from)) = connection.accept_bi().await {
                let Ok(bytes) = from.read_to_end(BYTES_MAX).await else { return };
                if to.write_all(&bytes).await.is_err() || to.finish().is_err() {
                    return;
                }
            }
        });
    }
    Ok(())
}

async fn echo(at: SocketAddr, name: &str, authority: &str, bytes: usize) -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let mut endpoint = Endpoint::client(any.parse()?)?;
    endpoint.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots))?);
    let connection = endpoint.connect(at, name)?.await.context("no connection")?;
    let (mut to, mut from) = connection.open_bi().await?;
    let sent: Vec<u8> = (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect();
    to.write_all(&sent).await?;
    to.finish()?;
    let back = from.read_to_end(BYTES_MAX).await?;
    ensure!(back == sent, "{} bytes came back, or others", back.len());
    println!("echoed {bytes} bytes, round trip {:?}", connection.rtt());
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}
