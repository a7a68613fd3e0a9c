//! Connections that are opened and closed, and idle connections. Called by `outside`. The idle
//! connections are measured in a separate process (`wirespeed-bench idle-async`), whose memory and
//! CPU time are those of the connections only.

use std::io::Read;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use base::{Instant as StackTime, IpVersion, Limit, Owner};
use net::Net;
use rustix::time::{ClockId, clock_gettime};
use stack::pair::{PairConfig, pair};
use stack::{Event, ListenConfig};

use crate::measure::{Cores, Measurement, pin, thread_cpu_s};
use crate::memory::resident_bytes;
use crate::peers::kernel::{connect, listen};

/// How many connections [`ours`] and [`kernel`] open before they close them again.
const AT_ONCE: usize = 32;

/// Number of listening ports. A client's local port in TIME-WAIT can be used again with another
/// listening port, so that local ports do not run out.
const PORTS: u16 = 64;

/// Opens [`AT_ONCE`] connections, accepts them, closes them at the client and then at the server,
/// and repeats this for `seconds`: all on one thread, over a link in memory. `units` of the result
/// counts the connections.
pub(super) fn ours(cores: Cores, version: IpVersion, seconds: f64) -> Result<Measurement> {
    pin(&[cores.first])?;
    let config = PairConfig { version, ..PairConfig::new([0x1988, 0x1989]) };
    let (mut client, mut server) = pair(&config);
    let mut listeners = Vec::new();
    for port in 0..PORTS {
        let at = SocketAddr::new(server.addr, 5000 + port);
        let listen = ListenConfig { backlog: 2 * AT_ONCE, ..ListenConfig::default() };
        let listener = server.stack.tcp_listen(at, listen);
        listeners.push(listener.map_err(|e| anyhow!("listen: {e:?}"))?);
    }
    let config = tcp::Config::default();
    let (start, cpu) = (Instant::now(), thread_cpu_s());
    let mut units = 0;
    while start.elapsed().as_secs_f64() < seconds {
        let now = StackTime::from_nanos(start.elapsed().as_nanos() as u64 + 1);
        let to = SocketAddr::new(server.addr, 5000 + (units / AT_ONCE as u64 % 64) as u16);
        let listener = listeners[usize::from(to.port() - 5000)];
        let mut open = Vec::with_capacity(AT_ONCE);
        for _ in 0..AT_ONCE {
            let c = client.stack.tcp_connect(to, None, &config, Owner::program(), now);
            open.push(c.map_err(|e| anyhow!("connect: {e:?}"))?);
        }
        client.stack.flush();
        let (mut closed, mut turns) = (0, 0);
        while closed < AT_ONCE {
            server.stack.poll(now);
            client.stack.poll(now);
            while let Some(event) = client.stack.next_event() {
                if let Event::Tcp(c, events) = event
                    && events.has(tcp::Events::CONNECTED)
                {
                    client.stack.tcp_close(c);
                }
            }
            client.stack.flush();
            while let Some(event) = server.stack.next_event() {
                match event {
                    Event::Accept(_) => while server.stack.tcp_accept(listener).is_some() {},
                    Event::Tcp(s, events) if events.has(tcp::Events::PEER_CLOSED) => {
                        server.stack.tcp_close(s);
                        closed += 1;
                    }
                    _ => {}
                }
            }
            server.stack.flush();
            turns += 1;
            ensure!(turns < 1000, "after {turns} polls, {closed} of {AT_ONCE} connections closed");
        }
        units += AT_ONCE as u64;
    }
    let settings =
        format!("{AT_ONCE} at once, {} in TIME-WAIT at the end", client.stack.time_wait_count());
    counted(units, start, thread_cpu_s() - cpu, settings)
}

/// Like [`ours`], with the kernel's sockets over loopback.
pub(super) fn kernel(cores: Cores, seconds: f64) -> Result<Measurement> {
    pin(&[cores.first])?;
    let listeners = (0..PORTS)
        .map(|_| listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
        .collect::<Result<Vec<_>>>()?;
    let addresses =
        listeners.iter().map(|l| Ok(l.local_addr()?)).collect::<Result<Vec<SocketAddr>>>()?;
    let (start, cpu) = (Instant::now(), thread_cpu_s());
    let mut units = 0;
    while start.elapsed().as_secs_f64() < seconds {
        let which = (units / AT_ONCE as u64) as usize % listeners.len();
        let mut clients = Vec::with_capacity(AT_ONCE);
        let mut servers = Vec::with_capacity(AT_ONCE);
        for _ in 0..AT_ONCE {
            clients.push(connect(addresses[which])?);
        }
        for _ in 0..AT_ONCE {
            servers.push(listeners[which].accept().context("accepting")?.0);
        }
        for client in &clients {
            client.shutdown(Shutdown::Write)?;
        }
        for mut server in servers {
            ensure!(server.read(&mut [0])? == 0, "the server read data that no client had sent");
        }
        units += AT_ONCE as u64;
    }
    counted(units, start, thread_cpu_s() - cpu, format!("kernel loopback, {AT_ONCE} at once"))
}

fn counted(units: u64, start: Instant, cpu_s: f64, settings: String) -> Result<Measurement> {
    let wall_s = start.elapsed().as_secs_f64();
    Ok(Measurement { units, wall_s, cpu_s, settings, ..Measurement::default() })
}

/// Idle connections between two stacks, and the stacks. A task waits for each socket.
struct Idle {
    _open: Vec<(net::TcpStream, net::TcpStream)>,
    _nets: (Net, Net),
}

async fn idle(connections: usize) -> Result<Idle> {
    /// Connections to one remote port. Each needs a local port of its own, and there are more local
    /// ports than this.
    const CONNECTIONS_PER_PORT: usize = 20_000;
    let mut config = PairConfig::new([0x1988, 0x1989]);
    config.stack.budget.set(Limit::Connections, connections + 64);
    config.stack.budget.set(Limit::MbufBytes, 512 << 20);
    let (client, server) = pair(&config);
    let address = server.addr;
    let ((client, _driver), (server, _other)) =
        (Net::spawn_thread(client.stack)?, Net::spawn_thread(server.stack)?);
    std::mem::forget((_driver, _other));
    let mut open: Vec<(net::TcpStream, net::TcpStream)> = Vec::with_capacity(connections);
    let mut port = 5000;
    while open.len() < connections {
        let to = SocketAddr::new(address, port);
        let listener = net::TcpListener::bind(&server, to)?;
        for _ in 0..CONNECTIONS_PER_PORT.min(connections - open.len()) {
            let stream = net::TcpStream::connect(&client, to).await?;
            let (accepted, _) = listener.accept().await?;
            open.push((stream, accepted));
        }
        port += 1;
    }
    std::future::poll_fn(|cx| {
        for (client, server) in &open {
            let waits = client.poll_read_ready(cx).is_pending();
            if !(waits && server.poll_read_ready(cx).is_pending()) {
                return std::task::Poll::Ready(Err(anyhow!("a connection is not idle")));
            }
        }
        std::task::Poll::Ready(Ok(()))
    })
    .await?;
    Ok(Idle { _open: open, _nets: (client, server) })
}

/// Opens `connections` idle connections. Returns the bytes by which this process grew for each
/// endpoint (a connection has two), and the CPU time that the process used while the connections
/// were idle, in percent of a core. The process must do nothing else.
///
/// # Errors
/// The connections could not be opened, or one of them was not idle.
pub fn measure_idle(connections: usize) -> Result<(f64, f64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let one = idle(1).await?;
        let before = resident_bytes()?;
        let many = idle(connections).await?;
        // Wait until delayed ACKs are sent and the last timers have expired.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let bytes = (resident_bytes()? - before) / (2 * connections) as f64;
        let (cpu, start) = (process_cpu_s(), Instant::now());
        tokio::time::sleep(Duration::from_secs(4)).await;
        let percent = 100.0 * (process_cpu_s() - cpu) / start.elapsed().as_secs_f64();
        std::mem::forget((one, many));
        Ok((bytes, percent))
    })
}

fn process_cpu_s() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Runs [`measure_idle`] in a new process of this program (`wirespeed-bench idle-async`), and
/// returns the two figures that it prints.
pub(super) fn idle_by_another(connections: usize) -> Result<(f64, f64)> {
    let program = std::env::current_exe().context("finding this program")?;
    let out = Command::new(program)
        .args(["idle-async", &connections.to_string()])
        .output()
        .context("starting this program again")?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    match (figures.next(), figures.next()) {
        (Some(Ok(bytes)), Some(Ok(percent))) => Ok((bytes, percent)),
        _ => Err(anyhow!("the process for idle connections printed {text:?}")),
    }
}
