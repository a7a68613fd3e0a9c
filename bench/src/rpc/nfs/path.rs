//! A TAP between our stack and the kernel, and the rate of one TCP connection over it. Called by
//! `rpc/nfs.rs`. Our end is a thread with a tokio runtime, pinned to one core. The programs at the
//! kernel's end are pinned to another core.

use std::fs::File;
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use net::{Net, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

use crate::harness::Bench;
use crate::measure::{pattern, pin};
use crate::namespace::{enter, ip};
use crate::outside::host::{KERNEL, OURS, at, host_with_tap, stack_over};
use crate::peers::kernel::{Placement, UNIT, accept, listen, read_all};

/// Bytes of a READ and of a WRITE, and of one read or write in a transfer without NFS.
pub(super) const PIECE: usize = 256 << 10;

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// From the kernel's end to ours.
    In,
    /// From our end to the kernel's.
    Out,
}

/// The TAP and both ends.
pub(super) struct Path {
    pub(super) placement: Placement,
    pub(super) runtime: Runtime,
    pub(super) net: Net,
    /// The data that is written, again and again.
    pub(super) data: Arc<Vec<u8>>,
    our_core: usize,
    kernel_core: usize,
    pub(super) namespace: File,
}

impl Path {
    /// Makes the path, and pins this thread to our end's core.
    pub(super) fn new(b: &Bench) -> Result<Path> {
        let placement =
            if b.cores.second.is_some() { Placement::TwoCores } else { Placement::OneCore };
        let (our_core, kernel_core) = placement.split(b.cores)?;
        pin(&[our_core])?;
        let (namespace, tap) = host_with_tap(true, 1500)?;
        let name = tap.name().to_owned();
        let stack = stack_over(tap)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let net = {
            let _inside = runtime.enter();
            Net::spawn_tokio(stack).0
        };
        let data = Arc::new(pattern(PIECE));
        let path = Path { placement, runtime, net, data, our_core, kernel_core, namespace };
        path.by_kernel(|| {
            ip("link set lo up")?;
            ip(&format!("route add {OURS}/32 dev {name} congctl cubic"))
        })?;
        Ok(path)
    }

    /// Runs `what` in the kernel's namespace and on the kernel's core. Processes that it starts
    /// stay there.
    pub(super) fn by_kernel<T: Send>(&self, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                pin(&[self.kernel_core])?;
                enter(&self.namespace)?;
                what()
            });
            thread.join().map_err(|_| anyhow!("the kernel's end panicked"))?
        })
    }

    /// Runs `what` on the kernel's core. Processes that it starts stay there.
    pub(super) fn on_kernel_core<T>(&self, what: impl FnOnce() -> Result<T>) -> Result<T> {
        pin(&[self.kernel_core])?;
        let done = what();
        pin(&[self.our_core])?;
        done
    }

    /// The rate of a connection without NFS, in GB/s.
    pub(super) fn alone(&self, flow: Flow, bytes: usize) -> Result<f64> {
        let (listening, listens) = mpsc::channel::<SocketAddr>();
        thread::scope(|scope| {
            let kernel = scope.spawn(move || {
                self.by_kernel(|| {
                    let listener = listen(at(KERNEL, 0))?;
                    listening.send(listener.local_addr()?).context("our end went away")?;
                    let stream = accept(&listener)?;
                    match flow {
                        Flow::In => send(stream, bytes),
                        Flow::Out => Ok(read_all(stream)?.0.count),
                    }
                })
            });
            let listens = listens.recv();
            let took = listens.context("the kernel's end did not start").and_then(|to| {
                self.runtime.block_on(async {
                    let stream = TcpStream::connect(&self.net, to).await?;
                    match flow {
                        Flow::In => take(stream, bytes).await,
                        Flow::Out => give(stream, &self.data, bytes).await,
                    }
                })
            });
            let carried = kernel.join().map_err(|_| anyhow!("the kernel's end panicked"))??;
            ensure!(carried == bytes as u64, "{carried} of {bytes} bytes were carried");
            Ok(rate(bytes, took?))
        })
    }
}

/// Reads until the end of the stream. Returns how long it took.
async fn take(mut stream: TcpStream, bytes: usize) -> Result<Duration> {
    let mut room = vec![0; PIECE];
    let (start, mut got) = (Instant::now(), 0);
    loop {
        match stream.read(&mut room).await? {
            0 => break,
            some => got += some,
        }
    }
    let took = start.elapsed();
    ensure!(got == bytes, "{got} of {bytes} bytes came");
    Ok(took)
}

/// Writes, and waits until the other end has read everything and has closed. Returns how long it
/// took.
async fn give(mut stream: TcpStream, data: &[u8], bytes: usize) -> Result<Duration> {
    let (start, mut left) = (Instant::now(), bytes);
    while left > 0 {
        let now = left.min(data.len());
        stream.write_all(&data[..now]).await?;
        left -= now;
    }
    stream.shutdown().await?;
    ensure!(stream.read(&mut [0; 1]).await? == 0, "the other end sent data instead of closing");
    Ok(start.elapsed())
}

/// The rate in GB/s.
pub(super) fn rate(bytes: usize, took: Duration) -> f64 {
    bytes as f64 * 1e-9 / took.as_secs_f64()
}

/// The kernel's end of a transfer to us: it sends.
fn send(mut stream: std::net::TcpStream, bytes: usize) -> Result<u64> {
    use std::io::Write;
    let (data, mut left) = (pattern(UNIT), bytes);
    while left > 0 {
        let now = left.min(data.len());
        stream.write_all(&data[..now]).context("writing")?;
        left -= now;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(bytes as u64)
}
