//! Fetching one file by HTTP, with TLS or without: hyper on the stack's sockets.
//!
//! Called by: `https-get`, tests.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::rt::{Read, Write};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use wirespeed::net::{Net, TcpStream};

/// The URL to fetch, checked before anything is opened.
pub struct Target {
    uri: Uri,
    at: SocketAddr,
    tls: Option<TlsConnector>,
}

impl Target {
    /// The host of `uri` is an address; `https` takes a connector.
    ///
    /// # Errors
    /// The fault of the URL, or the lack of a connector.
    pub fn new(uri: Uri, connector: Option<TlsConnector>) -> Result<Target> {
        let host = uri.host().context("give a whole URL, like https://10.1.0.1/file")?;
        let ip = host.trim_matches(['[', ']']).parse().context("the host must be an address")?;
        let (port, tls) = match uri.scheme_str() {
            Some("https") => {
                let why = "give the server's certificate for https: --certificate FILE";
                (443, Some(connector.context(why)?))
            }
            Some("http") => (80, None),
            _ => bail!("the URL must begin with http:// or https://"),
        };
        let at = SocketAddr::new(ip, uri.port_u16().unwrap_or(port));
        Ok(Target { uri, at, tls })
    }
}

/// Fetch `target` into `into`; returns how many bytes it had.
///
/// # Errors
/// The connection, a status other than 200, or `into`.
pub async fn fetch(
    net: &Net,
    target: &Target,
    into: &mut (impl AsyncWrite + Unpin),
) -> Result<u64> {
    let Target { uri, at, tls } = target;
    let stream =
        TcpStream::connect(net, *at).await.with_context(|| format!("connecting to {at}"))?;
    if let Some(connector) = tls {
        let name = ServerName::IpAddress(at.ip().into());
        let stream = connector.connect(name, stream).await.context("agreeing on TLS")?;
        save(request(TokioIo::new(stream), uri).await?, into).await
    } else {
        save(request(TokioIo::new(stream), uri).await?, into).await
    }
}

async fn request<S>(stream: S, uri: &Uri) -> Result<Response<Incoming>>
where
    S: Read + Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    tokio::spawn(async move {
        // An error of the connection is an error of the response as well.
        let _ = connection.await;
    });
    let authority = uri.authority().context("a URL with a host")?.as_str();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header(HOST, authority).body(Empty::<Bytes>::new())?;
    Ok(sender.send_request(request).await?)
}

async fn save(
    mut response: Response<Incoming>,
    into: &mut (impl AsyncWrite + Unpin),
) -> Result<u64> {
    ensure!(response.status() == 200, "the server says {}", response.status());
    let mut bytes = 0;
    while let Some(frame) = response.body_mut().frame().await {
        if let Ok(data) = frame?.into_data() {
            into.write_all(&data).await?;
            bytes += data.len() as u64;
        }
    }
    into.flush().await?;
    Ok(bytes)
}
