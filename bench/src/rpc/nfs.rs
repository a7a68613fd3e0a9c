//! NFS over a TAP beside the bytes alone: our client on a stack of ours, and behind the kernel's
//! TCP nfs-ganesha with a file in memory, or a socket that sends or takes as many bytes. Called by
//! `rpc.rs`. Both figures are of the same TAP, stack, sockets of ours and cores, one after the
//! other. Needs root, nfs-ganesha, rpcbind and util-linux.

use std::fs::{self, File};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use net::{Net, TcpStream};
use nfs::client::{Nfs, Reader, Writer, mount};
use nfs::limits::RECORD_BYTES;
use nfs::proto::Handle;
use rpc::auth::{AuthSys, Credential};
use rpc::client::Config;
use rpc::tasks::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

use crate::harness::{Bench, Figure, paired};
use crate::measure::{median, pattern, pin, thread_cpu_s};
use crate::namespace::enter;
use crate::outside::host::{KERNEL, OURS, at, host_with_tap, stack_over};
use crate::peers::kernel::{Placement, UNIT, accept, listen, read_all};

/// Where the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the server to us.
    Read,
    /// From us to the server.
    Write,
}

/// Ports of ganesha's NFS and MOUNT.
const NFS: u16 = 2_049;
const MOUNT: u16 = 20_048;
/// The file that is read, and the one that is written.
const THERE: &str = "there";
const WRITTEN: &[u8] = b"written";
/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of one read or write of ours, where there is no NFS.
const ALONE_UNIT: usize = 256 << 10;

/// A row: its pairs, NFS first.
pub(super) fn row(b: &Bench, direction: Direction) -> Result<Figure> {
    let (bytes, pairs) = if b.is_quick { (64 << 20, 5) } else { (1 << 30, 9) };
    let path = Path::new(b, bytes)?;
    // The connection, its windows, and memory that is used for the first time.
    path.by_nfs(direction, bytes)?;
    path.alone(direction, bytes)?;
    let (mut nfs, mut busy, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let samples = paired(
        pairs,
        || {
            let (rate, share) = path.by_nfs(direction, bytes)?;
            nfs.push(rate);
            busy.push(share);
            Ok(rate)
        },
        || {
            alone.push(path.alone(direction, bytes)?);
            Ok(alone[alone.len() - 1])
        },
    )?;
    let what = match direction {
        Direction::Read => "READs",
        Direction::Write => "unstable WRITEs and a COMMIT",
    };
    let note = format!(
        "{} MB, wall time; {:.2} GB/s [our client, tokio, {what} of {} KB, 16 in flight, {:.0} % \
         of our core; nfs-ganesha with its file in tmpfs] over {:.2} GB/s [the same sockets of \
         ours; a thread with a blocking socket]; TAP with vnet_hdr, MTU 1500, kernel cubic, {}",
        bytes >> 20,
        median(&nfs),
        path.piece >> 10,
        100.0 * median(&busy),
        median(&alone),
        path.placement.words()
    );
    Ok(Figure { value: median(&samples), samples, note })
}

/// A directory in memory that is gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let path = PathBuf::from(format!("/dev/shm/wirespeed-bench-nfs-{}", std::process::id()));
        fs::create_dir(&path)
            .with_context(|| format!("making {} (a tmpfs is needed there)", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// nfs-ganesha and its port mapper, which end with this, and with this process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// A server of `dir` in a network namespace, with CUBIC over `tap`, by processes of their own
    /// with a `/run` of their own.
    fn start(namespace: &File, tap: &str, dir: &FilePath) -> Result<Server> {
        let (config, log) = (dir.join("config"), dir.join("log"));
        let served = dir.join("served");
        fs::create_dir(&served)?;
        let text = format!(
            "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {NFS}; MNT_Port = {MOUNT};
               Enable_NLM = false; Enable_RQUOTA = false; }}
             EXPORT {{ Export_Id = 1; Path = {}; Pseudo = /x; Access_Type = RW; SecType = sys;
               Squash = No_Root_Squash; Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }} }}
             LOG {{ Default_Log_Level = EVENT; }}",
            served.display()
        );
        fs::write(&config, text)?;
        let script = format!(
            "ip link set lo up && ip route add {OURS}/32 dev {tap} congctl cubic &&
             mount -t tmpfs none /run && rpcbind -i &&
             exec ganesha.nfsd -F -f {} -L {} -p /run/pid",
            config.display(),
            log.display()
        );
        let entered = format!("--net=/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nsenter", &entered]);
        command.args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().context("starting setpriv (install util-linux)")?;
        let mut server = Server(child);
        let start = Instant::now();
        while !fs::read_to_string(&log).is_ok_and(|log| log.contains("SERVER INITIALIZED")) {
            if let Some(status) = server.0.try_wait()? {
                bail!("nfs-ganesha ended ({status}): install nfs-ganesha-vfs and rpcbind");
            }
            ensure!(start.elapsed() < PATIENCE, "nfs-ganesha does not start: see its log");
            thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }
}

/// A TAP, our stack on one end with a client of NFS, the kernel and the server on the other.
struct Path {
    placement: Placement,
    kernel_core: usize,
    runtime: Runtime,
    net: Net,
    nfs: Nfs,
    root: Handle,
    /// Bytes of a READ and a WRITE.
    piece: usize,
    data: Vec<u8>,
    // In this order: the server ends before its files and its network.
    _server: Server,
    _folder: Folder,
    namespace: File,
}

impl Path {
    fn new(b: &Bench, bytes: usize) -> Result<Path> {
        let placement =
            if b.cores.second.is_some() { Placement::TwoCores } else { Placement::OneCore };
        let (ours, kernel_core) = placement.split(b.cores)?;
        let (namespace, tap) = host_with_tap(true, 1500)?;
        let folder = Folder::new()?;
        pin(&[kernel_core])?;
        let server = Server::start(&namespace, tap.name(), &folder.0);
        pin(&[ours])?;
        let (server, served) = (server?, folder.0.join("served"));
        let data = pattern(ALONE_UNIT);
        let whole: Vec<u8> = data.iter().copied().cycle().take(bytes).collect();
        fs::write(served.join(THERE), whole).context("making the file in /dev/shm")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stack = stack_over(tap)?;
        let (net, nfs, root) = runtime.block_on(async {
            let (net, _driver) = Net::spawn_tokio(stack);
            let export = served.as_os_str().as_encoded_bytes();
            let root = mount(&client(&net, nfs::mount::PROGRAM, MOUNT), export).await?;
            let mut nfs = Nfs::over_streams(client(&net, nfs::proto::PROGRAM, NFS));
            nfs.ask_limits(&root).await?;
            anyhow::Ok((net, nfs, root))
        })?;
        // A Writer knows how many bytes a piece has.
        let piece = Writer::new(&nfs, root).piece_bytes();
        Ok(Path {
            placement,
            kernel_core,
            runtime,
            net,
            nfs,
            root,
            piece,
            data,
            _server: server,
            _folder: folder,
            namespace,
        })
    }

    /// GB/s of a file, and the share of that time in which our thread had work.
    fn by_nfs(&self, direction: Direction, bytes: usize) -> Result<(f64, f64)> {
        self.runtime.block_on(async {
            let cpu = thread_cpu_s();
            let took = match direction {
                Direction::Read => self.read(bytes).await?,
                Direction::Write => self.write(bytes).await?,
            };
            Ok((rate(bytes, took), (thread_cpu_s() - cpu) / took.as_secs_f64()))
        })
    }

    async fn read(&self, bytes: usize) -> Result<Duration> {
        let (file, of) = self.nfs.lookup(&self.root, THERE.as_bytes()).await?;
        let start = Instant::now();
        let (mut reader, mut got) = (Reader::new(&self.nfs, file, of.size), 0);
        while let Some(chunk) = reader.next().await? {
            got += chunk.data().len();
        }
        let took = start.elapsed();
        ensure!(got == bytes, "{got} of {bytes} bytes were read");
        Ok(took)
    }

    async fn write(&self, bytes: usize) -> Result<Duration> {
        // Written over after the first time: the server's memory for it is there.
        let file = match self.nfs.lookup(&self.root, WRITTEN).await {
            Ok((file, _)) => file,
            Err(_) => self.nfs.create(&self.root, WRITTEN, 0o644).await?,
        };
        let start = Instant::now();
        let (mut writer, mut left) = (Writer::new(&self.nfs, file), bytes);
        while left > 0 {
            let now = left.min(self.piece).min(self.data.len());
            let mut piece = writer.buffer();
            piece.extend_from_slice(&self.data[..now]);
            writer.write(piece).await?;
            left -= now;
        }
        let written = writer.finish().await?;
        let took = start.elapsed();
        ensure!(written == bytes as u64, "{written} of {bytes} bytes were written");
        Ok(took)
    }

    /// GB/s of a connection.
    fn alone(&self, direction: Direction, bytes: usize) -> Result<f64> {
        let (listening, listens) = mpsc::channel::<SocketAddr>();
        thread::scope(|scope| {
            let kernel = scope.spawn(move || -> Result<u64> {
                pin(&[self.kernel_core])?;
                enter(&self.namespace)?;
                let listener = listen(at(KERNEL, 0))?;
                listening.send(listener.local_addr()?).context("our end went away")?;
                let stream = accept(&listener)?;
                match direction {
                    Direction::Read => send(stream, bytes),
                    Direction::Write => Ok(read_all(stream)?.0.count),
                }
            });
            let listens = listens.recv();
            let took = listens.context("the kernel's end did not start").and_then(|to| {
                self.runtime.block_on(async {
                    let stream = TcpStream::connect(&self.net, to).await?;
                    match direction {
                        Direction::Read => take(stream, bytes).await,
                        Direction::Write => give(stream, &self.data, bytes).await,
                    }
                })
            });
            let carried = kernel.join().map_err(|_| anyhow!("the kernel's end panicked"))??;
            ensure!(carried == bytes as u64, "{carried} of {bytes} bytes were carried");
            Ok(rate(bytes, took?))
        })
    }
}

/// Read to the end.
async fn take(mut stream: TcpStream, bytes: usize) -> Result<Duration> {
    let mut room = vec![0; ALONE_UNIT];
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

/// Write, and wait until the other end has read it all and closed.
async fn give(mut stream: TcpStream, data: &[u8], bytes: usize) -> Result<Duration> {
    let (start, mut left) = (Instant::now(), bytes);
    while left > 0 {
        let now = left.min(data.len());
        stream.write_all(&data[..now]).await?;
        left -= now;
    }
    stream.shutdown().await?;
    ensure!(stream.read(&mut [0; 1]).await? == 0, "the other end sends something");
    Ok(start.elapsed())
}

fn rate(bytes: usize, took: Duration) -> f64 {
    bytes as f64 * 1e-9 / took.as_secs_f64()
}

/// The kernel's end sends.
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

/// A client of a program of the server, as `wirespeed nfs` makes it.
fn client(net: &Net, program: u32, port: u16) -> Client {
    let credential = Credential::Sys(AuthSys::default());
    let config = Config { credential, record_max: RECORD_BYTES, ..Config::new(program, 3) };
    let net = net.clone();
    Client::over_streams(config, 1, move || {
        let net = net.clone();
        async move {
            let stream = TcpStream::connect(&net, at(KERNEL, port)).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        }
    })
}
