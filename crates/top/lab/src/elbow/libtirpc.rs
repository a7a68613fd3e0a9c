//! libtirpc, the RPC library of Linux, as client and server, in a small C program that is compiled
//! when it is needed.
//!
//! Called by: `elbow.rs`, `tap.rs`, the benchmarks. It needs a C compiler, libtirpc-dev, and root
//! for the network namespace; an error says which of them is missing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use device::namespace::Namespace;

use super::point::{Causes, Curve, Transport};
use super::{Effort, ends::failed};
use crate::Error;
use crate::compiled::Compiled;
use crate::namespace::{ip, new_namespace};

const SOURCE: &str = include_str!("peer.c");

/// The number of averages is divided by this: half as many as with our stack.
const AVERAGES_PART: u32 = 2;

/// The compiled program, and its server in a network namespace.
pub struct Peer {
    program: Compiled,
    namespace: Namespace,
    server: Child,
    /// The server's ports of TCP and UDP.
    ports: (u16, u16),
}

impl Peer {
    /// Start a server in a new namespace; `prepare` runs there first.
    ///
    /// # Errors
    /// Something is missing; the text says what.
    pub fn new<T: Send>(
        prepare: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<(Peer, T), Error> {
        let options = ["-I/usr/include/tirpc", "-ltirpc", "-lpthread"];
        let program = Compiled::new(SOURCE, &options, "libtirpc-dev")?;
        let namespace = new_namespace()?;
        let started = namespace.inside(|| {
            ip(&["link", "set", "lo", "up"])?;
            let prepared = prepare()?;
            // The server ends when its standard input is closed, at the latest when this process
            // ends.
            let mut command = program.command();
            command.arg("server").stdin(Stdio::piped()).stdout(Stdio::piped());
            Ok((command.spawn().map_err(failed)?, prepared))
        });
        let (mut server, prepared) = started.map_err(failed)??;
        let mut line = String::new();
        if let Some(out) = server.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(failed)?;
        }
        let mut words = line.split_whitespace().map(str::parse);
        let (Some(Ok(tcp)), Some(Ok(udp))) = (words.next(), words.next()) else {
            let _ = server.kill();
            let _ = server.wait();
            return Err(failed("the server of libtirpc did not start"));
        };
        Ok((Peer { program, namespace, server, ports: (tcp, udp) }, prepared))
    }

    /// The port at which the server listens.
    pub fn port(&self, transport: Transport) -> u16 {
        match transport {
            Transport::Tcp => self.ports.0,
            Transport::Udp => self.ports.1,
        }
    }

    /// The process of the server.
    pub fn server_id(&self) -> u32 {
        self.server.id()
    }

    /// Delayed ACKs that the kernel has sent in the server's namespace, from /proc/net/netstat.
    pub(super) fn delayed_acks(&self) -> u64 {
        let path = format!("/proc/{}/net/netstat", self.server.id());
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut rows = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (names, values) = (rows.next().unwrap_or_default(), rows.next().unwrap_or_default());
        let mut pairs = names.split(' ').zip(values.split(' '));
        let value = pairs.find(|(name, _)| *name == "DelayedACKs").map(|(_, value)| value.parse());
        value.and_then(Result::ok).unwrap_or(0)
    }

    /// Start a client in the server's namespace. Its arguments are `what`, the server's address and
    /// port, and `words`.
    ///
    /// # Errors
    /// The client cannot be started.
    pub fn client(
        &self,
        what: &str,
        transport: Transport,
        words: &[String],
    ) -> Result<Child, Error> {
        let mut command = self.program.command();
        command.args([what, "127.0.0.1", &self.port(transport).to_string()]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        self.namespace.inside(|| command.spawn().map_err(failed)).map_err(failed)?
    }

    /// Run a client to its end. Returns all that it prints.
    ///
    /// # Errors
    /// The client failed; it has printed why on standard error.
    pub fn ask(&self, what: &str, words: &[String]) -> Result<String, Error> {
        let child = self.client(what, Transport::Tcp, words)?;
        let output = child.wait_with_output().map_err(failed)?;
        if !output.status.success() {
            return Err(failed("the client of libtirpc failed"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Measure a curve with libtirpc at both ends.
pub(super) fn measure(
    curve: &mut Curve,
    effort: Effort,
    stop: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let (peer, ()) = Peer::new(|| Ok(()))?;
    let averages = (effort.averages / AVERAGES_PART).max(1);
    let name = if curve.transport == Transport::Tcp { "tcp" } else { "udp" };
    let mut words = vec![name.to_owned(), effort.calls.to_string(), averages.to_string()];
    words.extend(curve.points.iter().map(|point| point.bytes.to_string()));
    let mut client = peer.client("calls", curve.transport, &words)?;
    let out = client.stdout.take().map(BufReader::new);
    for line in out.into_iter().flat_map(BufRead::lines) {
        if stop() {
            break;
        }
        take(curve, &line.map_err(failed)?)?;
    }
    if stop() {
        // The process may have ended already.
        let _ = client.kill();
    }
    let status = client.wait().map_err(failed)?;
    if !status.success() && !stop() {
        return Err(failed("the client of libtirpc failed: it has said why above"));
    }
    Ok(())
}

/// Add a line of the client's output to the curve.
fn take(curve: &mut Curve, line: &str) -> Result<(), Error> {
    let broken = || failed(format!("the client of libtirpc said '{line}'"));
    let (figures, counts) = line.split_once(" calls ").ok_or_else(broken)?;
    let figures: Vec<f64> = figures
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| broken())?;
    let (bytes, averages) = figures.split_first().ok_or_else(broken)?;
    let count = |name: &str| {
        let mut words = format!("calls {counts}");
        words.push(' ');
        let mut words = words.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|word| word.parse::<u64>().ok())
    };
    let is_it = |point: &&mut super::Point| f64::from(point.bytes) == *bytes;
    let point = curve.points.iter_mut().find(is_it).ok_or_else(broken)?;
    point.averages_ns = averages.to_vec();
    point.calls = count("calls").ok_or_else(broken)?;
    point.causes = Causes {
        segments: count("packets").ok_or_else(broken)?,
        delayed_acks: count("delayed").ok_or_else(broken)?,
        nagle_holds: 0,
        blocked_ns: count("blocked_us").ok_or_else(broken)? * 1_000,
    };
    Ok(())
}
