//! The services: hyper with HTTP/1 and HTTP/2, and tonic's health service. Only two things differ
//! from a program for a real network: connections come from our sockets, and the server sends no
//! `date`, which would be the time of the system's clock.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use net::{Net, TcpListener, TcpStream};
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use wirespeed_virtual_time::Host;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bytes of an answer of hyper's servers.
const ANSWER: usize = 10_000;

/// What is served.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Http1,
    Http2,
    Grpc,
}

/// Serve on port 80 of a host.
pub(crate) async fn serve(kind: Kind, host: &Host) -> io::Result<()> {
    let listener = TcpListener::bind(&host.net()?, host.at(80))?;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("day", ServingStatus::Serving).await;
    let routes = Routes::new(health).prepare();
    let serving = host.clone();
    host.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream = TokioIo::new(stream);
            let mut http2 = server::conn::http2::Builder::new(TokioExecutor::new());
            http2.timer(TokioTimer::new()).auto_date_header(false);
            match kind {
                Kind::Http1 => {
                    let mut http1 = server::conn::http1::Builder::new();
                    http1.timer(TokioTimer::new()).auto_date_header(false);
                    serving.spawn(http1.serve_connection(stream, service_fn(answer)));
                }
                Kind::Http2 => {
                    serving.spawn(http2.serve_connection(stream, service_fn(answer)));
                }
                Kind::Grpc => {
                    let service = TowerToHyperService::new(routes.clone());
                    serving.spawn(http2.serve_connection(stream, service));
                }
            }
        }
    });
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let number: u64 = request.uri().path()[1..].parse().unwrap_or_default();
    Ok(Response::new(Full::new(Bytes::from(vec![number as u8; ANSWER]))))
}

/// A client, which connects when it has to.
pub(crate) struct Caller {
    kind: Kind,
    host: Host,
    to: SocketAddr,
    connection: Option<Connection>,
}

enum Connection {
    Http1(client::conn::http1::SendRequest<Full<Bytes>>),
    Http2(client::conn::http2::SendRequest<Full<Bytes>>),
    Grpc(HealthClient<Channel>),
}

impl Caller {
    pub(crate) fn new(kind: Kind, host: &Host, server: &Host) -> Caller {
        Caller { kind, host: host.clone(), to: server.at(80), connection: None }
    }

    /// One request. After a failure the next request makes a new connection.
    ///
    /// # Errors
    /// No answer in time, or a connection that failed, or a wrong answer.
    pub(crate) async fn call(&mut self, number: u64) -> Result<(), Failure> {
        let called = tokio::time::timeout(PATIENCE, self.attempt(number)).await;
        let result = called.unwrap_or_else(|elapsed| Err(elapsed.into()));
        if result.is_err() {
            self.connection = None;
        }
        result
    }

    async fn attempt(&mut self, number: u64) -> Result<(), Failure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.kind, &self.host, self.to).await?,
        };
        match self.connection.insert(connection) {
            Connection::Http1(sender) => {
                sender.ready().await?;
                check(sender.send_request(request(number)?).await?, number).await
            }
            Connection::Http2(sender) => {
                sender.ready().await?;
                check(sender.send_request(request(number)?).await?, number).await
            }
            Connection::Grpc(client) => {
                let answer = client.check(HealthCheckRequest { service: "day".to_owned() }).await?;
                let status = answer.into_inner().status();
                let is_serving =
                    status == tonic_health::pb::health_check_response::ServingStatus::Serving;
                is_serving.then_some(()).ok_or_else(|| format!("the service is {status:?}").into())
            }
        }
    }
}

fn request(number: u64) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    Request::get(format!("http://server/{number}")).header("host", "server").body(Full::default())
}

async fn check(answer: Response<Incoming>, number: u64) -> Result<(), Failure> {
    let body = answer.into_body().collect().await?.to_bytes();
    let is_right = body.len() == ANSWER && body.iter().all(|&byte| byte == number as u8);
    is_right.then_some(()).ok_or_else(|| "another answer than was asked for".into())
}

async fn connect(kind: Kind, host: &Host, to: SocketAddr) -> Result<Connection, Failure> {
    let net = host.net()?;
    if let Kind::Grpc = kind {
        let connector = tower::service_fn(move |_: Uri| dial(net.clone(), to));
        let endpoint = Endpoint::from_static("http://server");
        let channel = endpoint.connect_with_connector(connector).await?;
        return Ok(Connection::Grpc(HealthClient::new(channel)));
    }
    let stream = dial(net, to).await?;
    if let Kind::Http1 = kind {
        let (sender, connection) = client::conn::http1::handshake(stream).await?;
        host.spawn(connection);
        return Ok(Connection::Http1(sender));
    }
    let mut http2 = client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = http2.timer(TokioTimer::new()).handshake(stream).await?;
    host.spawn(connection);
    Ok(Connection::Http2(sender))
}

async fn dial(net: Net, to: SocketAddr) -> io::Result<TokioIo<TcpStream>> {
    Ok(TokioIo::new(TcpStream::connect(&net, to).await?))
}
