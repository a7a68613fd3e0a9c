//! Fetching one file by HTTP, with TLS or without: hyper on the stack's sockets.
//!
//! Called by: `https-get`, tests. Must not know: which device the stack has.

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

/// Fetch `uri`, whose host is an address, into `into`; returns how many bytes it had. `tls` is for
/// `https`.
///
/// # Errors
/// The address, the connection, a status other than 200, or `into`.
pub async fn fetch(
    net: &Net,
    uri: &Uri,
    tls: Option<&TlsConnector>,
    into: &mut (impl AsyncWrite + Unpin),
) -> Result<u64> {
    let host = uri.host().context("give a whole URL, like https://10.1.0.1/file")?;
    let ip = host.trim_matches(['[', ']']).parse().context("the host must be an address")?;
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => bail!("the URL must begin with http:// or https://"),
    };
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect(net, SocketAddr::new(ip, port)).await?;
    if secure {
        let connector = tls.context("give the server's certificate for https")?;
        let name = ServerName::IpAddress(ip.into());
        let stream = connector.connect(name, stream).await?;
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
        // Its error is the response's as well.
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
