//! hyper's requests over sockets in virtual time, and over the same sockets in real time. Called by
//! `programs`. Both sides are one thread: a tokio runtime with client, server and both stacks.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::TokioIo;
use net::{Net, TcpListener, TcpStream};
use stack::pair::{PairConfig, pair};
use virtual_time::{Path, World};

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::{Measurement, thread_cpu_s};

pub(super) const ROW: Spec = spec(
    "hyper over virtual-time sockets: requests a CPU-second / over `mem` in real time",
    Better::Higher,
    0.7,
    0.9,
    "x",
    ratio,
);

/// Connections, each with one request at a time.
const CONNECTIONS: usize = 16;
/// Bytes of an answer.
const ANSWER: usize = 1_000;
/// Requests of a connection between two looks at the CPU clock.
const ROUND: u64 = 50;
/// Requests of a connection before the first counted one.
const WARM_UP: u64 = 200;

fn ratio(bench: &Bench) -> Result<Figure> {
    bench.ratio(Measurement::units_per_cpu_s, in_virtual_time, in_real_time)
}

/// Two hosts with 1 ms between them.
fn in_virtual_time(seconds: f64) -> Result<Measurement> {
    let path = Path { delay: Duration::from_millis(1).into(), ..Path::default() };
    let run = World::new(15).run(async |network| {
        let (client, server) = network.pair(path)?;
        requests(client.net()?, server.net()?, server.at(80), seconds).await
    })?;
    let mut measured = run.output?;
    measured.settings =
        format!("1 ms each way, {CONNECTIONS} connections, {:.0?} virtual", run.elapsed);
    Ok(measured)
}

/// Two stacks over a wire in memory, each with a driver that is a task.
fn in_real_time(seconds: f64) -> Result<Measurement> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let (a, b) = pair(&PairConfig::new([0x1988, 0x1989]));
        let to = SocketAddr::new(b.addr, 80);
        let (client, server) = (Net::spawn_tokio(a.stack).0, Net::spawn_tokio(b.stack).0);
        let mut measured = requests(client, server, to, seconds).await?;
        measured.settings = format!("mem, {CONNECTIONS} connections");
        Ok(measured)
    })
}

/// Requests for this many seconds of CPU time of this thread.
async fn requests(client: Net, server: Net, to: SocketAddr, seconds: f64) -> Result<Measurement> {
    let listener = TcpListener::bind(&server, to)?;
    let serving = tokio::spawn(serve(listener));
    let mut asking = Vec::new();
    for _ in 0..CONNECTIONS {
        asking.push(Asking::connect(&client, to).await?);
    }
    asking = all(asking, WARM_UP).await?;
    let (began, wall, mut units) = (thread_cpu_s(), Instant::now(), 0);
    let mut cpu_s = 0.0;
    while cpu_s < seconds {
        asking = all(asking, ROUND).await?;
        units += ROUND * CONNECTIONS as u64;
        cpu_s = thread_cpu_s() - began;
    }
    serving.abort();
    let bytes = units * ANSWER as u64;
    let wall_s = wall.elapsed().as_secs_f64();
    Ok(Measurement { bytes, cpu_s, wall_s, units, p50_ns: None, settings: String::new() })
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = service_fn(async |_: Request<Incoming>| {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&[7; ANSWER]))))
        });
        let mut http = server::conn::http1::Builder::new();
        tokio::spawn(http.auto_date_header(false).serve_connection(TokioIo::new(stream), answer));
    }
}

/// A connection of a client.
struct Asking(client::conn::http1::SendRequest<Full<Bytes>>);

impl Asking {
    async fn connect(net: &Net, to: SocketAddr) -> Result<Asking> {
        let stream = TcpStream::connect(net, to).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Asking(sender))
    }

    async fn ask(mut self, count: u64) -> Result<Asking> {
        for _ in 0..count {
            self.0.ready().await?;
            let request = Request::get("/").header("host", "server").body(Full::default())?;
            let body = self.0.send_request(request).await?.into_body().collect().await?;
            ensure!(body.to_bytes().len() == ANSWER, "an answer of another length");
        }
        Ok(self)
    }
}

/// Let all connections ask at the same time.
async fn all(asking: Vec<Asking>, count: u64) -> Result<Vec<Asking>> {
    let tasks: Vec<_> = asking.into_iter().map(|one| tokio::spawn(one.ask(count))).collect();
    let mut done = Vec::with_capacity(CONNECTIONS);
    for task in tasks {
        done.push(task.await.context("a client panicked")??);
    }
    Ok(done)
}
