//! TLS by rustls with the provider `ring`: a certificate made at start, and both ends' settings.
//!
//! Called by: `files`, `client`.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A server's side, and the certificate that its clients are to trust, in PEM.
pub struct Identity {
    /// Accepts TLS.
    pub acceptor: TlsAcceptor,
    /// The certificate in PEM, for `curl --cacert`.
    pub certificate_pem: String,
}

/// A new key, and a certificate for `address` and `localhost` that it signs itself.
///
/// # Errors
/// The provider refuses, which it does not.
pub fn identity(address: IpAddr) -> Result<Identity> {
    let names = vec![address.to_string(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).context("making a certificate")?;
    let certificate_pem = made.cert.pem();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|why| anyhow::anyhow!("the key that was made: {why}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Identity { acceptor: TlsAcceptor::from(Arc::new(config)), certificate_pem })
}

/// A client's side that trusts the certificates in `pem`, and no others.
///
/// # Errors
/// There is no certificate in it.
pub fn connector(pem: &[u8]) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.context("not PEM: give a file that begins with BEGIN")?;
        roots.add(certificate).context("a certificate that cannot be trusted")?;
    }
    if roots.is_empty() {
        anyhow::bail!("no certificate in that file: give the server's, in PEM");
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
