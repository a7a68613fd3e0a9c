//! A server of the files below one folder, over TLS: hyper on the stack's sockets.
//!
//! Called by: `https-files`, tests. A path leaves the folder neither by `..`, in any spelling, nor
//! by a symbolic link. At most [`CONNECTIONS_MAX`] connections are served at a time; the others
//! wait in the listener's backlog. A client that neither reads nor writes loses its connection, so
//! that the others get their turn.

use std::convert::Infallible;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use wirespeed::net::{TcpListener, TcpStream};

use crate::write_timeout::WriteTimeout;

/// Connections that are served at a time.
pub const CONNECTIONS_MAX: usize = 256;

/// How long a client may take to shake hands, to send its headers, to take more of an answer: the
/// usual choice for [`serve`].
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes read from a file at a time.
const CHUNK: usize = 64 * 1024;

/// Serve the files below `root` until the stack ends. A client that keeps the server waiting for
/// `timeout` is let go.
///
/// # Errors
/// `root` is no folder; the stack's driver is gone.
pub async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    root: &Path,
    timeout: Duration,
) -> io::Result<()> {
    let root: Arc<Path> = tokio::fs::canonicalize(root).await?.into();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (stream, from) = listener.accept().await?;
        let (acceptor, root) = (acceptor.clone(), root.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, acceptor, root, timeout).await {
                eprintln!("{from}: {error:#}");
            }
            drop(place);
        });
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    root: Arc<Path>,
    timeout: Duration,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = WriteTimeout::new(stream, timeout);
    let tls = tokio::time::timeout(timeout, acceptor.accept(stream)).await;
    let tls = tls.context("the client did not shake hands in time")??;
    let service = service_fn(move |request| {
        let root = root.clone();
        async move { Ok::<_, Infallible>(answer(&request, &root).await) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .serve_connection(TokioIo::new(tls), service)
        .await?;
    Ok(())
}

type Answer = Response<Either<FileBody, Full<Bytes>>>;

async fn answer(request: &Request<Incoming>, root: &Path) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        refusal.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("a header's value"));
        return refusal;
    }
    let Some(path) = inside(root, request.uri().path()) else {
        return text(StatusCode::BAD_REQUEST, "no such path\n");
    };
    match open(root, &path).await {
        Ok((file, len)) => {
            let body = FileBody::new(file, if request.method() == Method::HEAD { 0 } else { len });
            let mut response = Response::new(Either::Left(body));
            let headers = response.headers_mut();
            headers.insert(CONTENT_LENGTH, len.into());
            let kind = "application/octet-stream".parse().expect("a header's value");
            headers.insert(CONTENT_TYPE, kind);
            response
        }
        // Do not reveal whether a file exists that may not be read.
        Err(_) => text(StatusCode::NOT_FOUND, "no such file\n"),
    }
}

fn text(status: StatusCode, words: &'static str) -> Answer {
    let mut response =
        Response::new(Either::Right(Full::new(Bytes::from_static(words.as_bytes()))));
    *response.status_mut() = status;
    response
}

/// The file that a request's path means, if that has only names in it once it is decoded.
pub fn inside(root: &Path, request_path: &str) -> Option<PathBuf> {
    let decoded = percent_decoded(request_path)?;
    let relative = decoded.strip_prefix('/')?;
    if relative.contains(['\0', '\\']) {
        return None;
    }
    let normal = |c: Component<'_>| matches!(c, Component::Normal(_));
    Path::new(relative).components().all(normal).then(|| root.join(relative))
}

/// RFC 3986 section 2.1, decoded once: a percent sign that is left belongs to the name.
fn percent_decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Open a file that is below `root` when all links are followed.
async fn open(root: &Path, path: &Path) -> io::Result<(File, u64)> {
    let real = tokio::fs::canonicalize(path).await?;
    if !real.starts_with(root) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(&real).await?;
    let metadata = file.metadata().await?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok((file, metadata.len()))
}

/// A file's bytes, as many as it had when it was opened.
struct FileBody {
    file: File,
    left: u64,
    chunk: Vec<u8>,
}

impl FileBody {
    fn new(file: File, left: u64) -> FileBody {
        FileBody { file, left, chunk: Vec::new() }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let want = usize::try_from(this.left).map_or(CHUNK, |left| left.min(CHUNK));
        this.chunk.resize(want, 0);
        let mut room = ReadBuf::new(&mut this.chunk);
        match Pin::new(&mut this.file).poll_read(cx, &mut room) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(())) => {
                let read = room.filled();
                if read.is_empty() {
                    let shrunk = io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank");
                    return Poll::Ready(Some(Err(shrunk)));
                }
                let data = Bytes::copy_from_slice(read);
                this.left -= data.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_a_path_leaves_the_folder() {
        let root = Path::new("/srv");
        for refused in [
            "/../etc/passwd",
            "/a/../../b",
            "/%2e%2e/etc",
            "/..%2fetc",
            "/%2E%2E%2Fetc",
            "//etc",
            "/%2fetc",
            "/a\\..\\b",
            "/a%00b",
            "/%",
            "/%4",
            "/%zz",
            "/%+1",
            "relative",
            "/%ff",
        ] {
            assert_eq!(inside(root, refused), None, "{refused}");
        }
        assert_eq!(inside(root, "/a/b%20c"), Some(PathBuf::from("/srv/a/b c")));
        assert_eq!(inside(root, "/..a/%252e%252e"), Some(PathBuf::from("/srv/..a/%2e%2e")));
    }
}
