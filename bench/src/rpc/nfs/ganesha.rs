//! Transfers between our client and nfs-ganesha, which uses the kernel's TCP. Called by
//! `rpc/nfs.rs`. It needs root, nfs-ganesha, rpcbind and util-linux.

use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use net::{Net, TcpStream};
use nfs::client::{Nfs, Reader, Writer, mount};
use nfs::limits::RECORD_BYTES;
use nfs::proto::Handle;
use rpc::auth::{AuthSys, Credential};
use rpc::client::Config;
use rpc::tasks::Client;

use super::path::{Flow, PIECE, Path, rate};
use super::{Folder, MOUNTED, Measured, SERVED, THERE, WRITTEN, measured};
use crate::outside::host::{KERNEL, at};

/// Ports of ganesha's NFS and MOUNT.
const NFS: u16 = 2_049;
const MOUNT: u16 = 20_048;
/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// nfs-ganesha and its port mapper. They end when this is dropped, and when this process ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a server for the directory at the kernel's end. Its processes have their own `/run`;
    /// the settings and the log are next to the directory.
    fn start(path: &Path, folder: &Folder) -> Result<Server> {
        let text = format!(
            "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {NFS}; MNT_Port = {MOUNT};
               Enable_NLM = false; Enable_RQUOTA = false; }}
             EXPORT {{ Export_Id = 1; Path = {SERVED}; Pseudo = /x; Access_Type = RW; SecType = sys;
               Squash = No_Root_Squash; Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }} }}
             LOG {{ Default_Log_Level = EVENT; }}"
        );
        fs::write(folder.path("config"), text)?;
        let script = format!(
            "mount -t tmpfs none /run && rpcbind -i &&
             exec ganesha.nfsd -F -f {MOUNTED}/config -L {MOUNTED}/log -p /run/pid"
        );
        // `--pdeathsig` ends the server with the thread that starts it, which is this one.
        let network =
            format!("--net=/proc/{}/fd/{}", std::process::id(), path.namespace.as_raw_fd());
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nsenter", &network, &folder.namespace()]);
        command.args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
        let child = path
            .on_kernel_core(|| command.spawn().context("starting setpriv (install util-linux)"))?;
        let mut server = Server(child);
        let start = Instant::now();
        let log = folder.path("log");
        while !fs::read_to_string(&log).is_ok_and(|log| log.contains("SERVER INITIALIZED")) {
            if let Some(status) = server.0.try_wait()? {
                bail!("nfs-ganesha ended ({status}): install nfs-ganesha-vfs and rpcbind");
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "nfs-ganesha does not start; install nfs-ganesha-vfs and rpcbind"
            );
            thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }
}

/// Our client, which has mounted a directory of the server.
pub(super) struct Ganesha<'a> {
    path: &'a Path,
    nfs: Nfs,
    root: Handle,
    _server: Server,
}

impl<'a> Ganesha<'a> {
    pub(super) fn new(path: &'a Path, folder: &Folder) -> Result<Ganesha<'a>> {
        let server = Server::start(path, folder)?;
        let (nfs, root) = path.runtime.block_on(async {
            let mounts = client(&path.net, nfs::mount::PROGRAM, MOUNT);
            let root = mount(&mounts, SERVED.as_bytes()).await?;
            let nfs = Nfs::over_streams(client(&path.net, nfs::proto::PROGRAM, NFS));
            let mut nfs = nfs.with_transfer(PIECE as u32);
            nfs.ask_limits(&root).await?;
            anyhow::Ok((nfs, root))
        })?;
        Ok(Ganesha { path, nfs, root, _server: server })
    }

    /// Transfers the file once.
    pub(super) fn carry(&self, flow: Flow, bytes: usize) -> Result<Measured> {
        self.path.runtime.block_on(measured(async {
            let took = match flow {
                Flow::In => self.read(bytes).await?,
                Flow::Out => self.write(bytes).await?,
            };
            Ok(rate(bytes, took))
        }))
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
        let (file, _) = self.nfs.lookup(&self.root, WRITTEN.as_bytes()).await?;
        let start = Instant::now();
        let (mut writer, mut left) = (Writer::new(&self.nfs, file), bytes);
        let data = &self.path.data;
        while left > 0 {
            let now = left.min(data.len());
            match now == data.len() {
                true => writer.write(data.clone()).await?,
                false => writer.write(data[..now].to_vec()).await?,
            }
            left -= now;
        }
        let written = writer.finish().await?;
        let took = start.elapsed();
        ensure!(written == bytes as u64, "{written} of {bytes} bytes were written");
        Ok(took)
    }
}

/// A client for an RPC program of the server, like that of `wirespeed nfs`.
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
