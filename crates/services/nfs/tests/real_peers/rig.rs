//! Our server, nfs-ganesha, clients of both, and trees of test files.

use std::fs;
use std::future::Future;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use base::{Instant, KeyedHash};
use rpc::auth::{AuthSys, Credential};
use rpc::client::Config;
use rpc::server::Server;
use rpc::tasks::{Client, Limits, Servers, listen, serve_datagrams};
use testbed::{Running, ip, until};
use tokio::net::{TcpListener, TcpStream as Stream, UdpSocket};
use tokio::runtime::Runtime;
use wirespeed_nfs::client::{Nfs, mount};
use wirespeed_nfs::limits::RECORD_BYTES;
use wirespeed_nfs::proto::Handle;
use wirespeed_nfs::server::{Export, Mount, Nfs as Service, Secrets};
use wirespeed_nfs::{mount as mounting, proto};

/// A folder that is removed when this is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wsnfs-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("room for a folder");
        Folder(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The ports of our server's NFS and MOUNT.
pub(crate) const OURS: [u16; 2] = [2_049, 2_049];
pub(crate) const GANESHA: [u16; 2] = [2_049, 20_048];

/// A runtime whose threads are in the case's namespace, and which runs a server of `dir`.
pub(crate) fn serving(dir: &Path) -> Runtime {
    assert!(ip("link set lo up"));
    let runtime = runtime();
    let secrets = Secrets { run: 0x5eed, lasting: KeyedHash::new(3, 4) };
    let export = Export::open(dir, false, secrets, clock).expect("a directory");
    let servers = Servers::blocking(4, || {
        let mut server = Server::new(KeyedHash::new(1, 2));
        server.add(Service(export.clone()));
        server.add(Mount(export.clone()));
        server
    });
    let at = SocketAddr::from(([127, 0, 0, 1], 2_049));
    let (listener, socket) = runtime.block_on(async {
        let socket = UdpSocket::bind(at).await.expect("the port is free");
        (TcpListener::bind(at).await.expect("the port is free"), socket)
    });
    let limits = Limits { record_max: RECORD_BYTES, ..Limits::default() };
    let by_tcp = servers.clone();
    runtime.spawn(async move { listen(by_tcp, || listener.accept(), limits).await });
    runtime.spawn(serve_datagrams(servers, socket, KeyedHash::new(3, 4), 16));
    runtime
}

fn clock() -> Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    Instant::from_nanos(START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64 + 1)
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads")
}

/// Starts Debian's rpcbind and nfs-ganesha, which serves `dir`, and waits until they answer.
pub(crate) fn ganesha(folder: &Folder, dir: &Path) -> [Running; 2] {
    assert!(ip("link set lo up"));
    let rpcbind = Command::new("rpcbind").args(["-f", "-i"]).stderr(Stdio::null()).spawn();
    let rpcbind = Running(rpcbind.expect("it starts"));
    assert!(until(LONG, || connects(111)), "rpcbind does not listen");
    let config = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = false;
           Enable_RQUOTA = false; Enable_UDP = true; }}
         EXPORT {{ Export_Id = 1; Path = {0}; Pseudo = /x; Access_Type = RW; SecType = sys;
           Squash = No_Root_Squash; Protocols = 3; Transports = TCP, UDP; FSAL {{ Name = VFS; }} }}
         LOG {{ Default_Log_Level = EVENT; }}",
        dir.display()
    );
    fs::write(folder.join("config"), config).expect("room");
    let mut command = Command::new("ganesha.nfsd");
    command.arg("-F").arg("-f").arg(folder.join("config")).arg("-L").arg(folder.join("log"));
    let ganesha = command.arg("-p").arg(folder.join("pid")).stderr(Stdio::null()).spawn();
    let ganesha = Running(ganesha.expect("it starts"));
    assert!(until(LONG, || connects(2_049) && connects(20_048)), "ganesha does not listen");
    [rpcbind, ganesha]
}

const LONG: Duration = Duration::from_secs(30);

fn connects(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// A client, and the handle of the root of an export.
pub(crate) async fn mounted([nfs, mnt]: [u16; 2], export: &Path, by_udp: bool) -> (Nfs, Handle) {
    let mounts = client(mounting::PROGRAM, mnt, by_udp).await;
    let root = mount(&mounts, export.as_os_str().as_encoded_bytes()).await.expect("it is mounted");
    let client = client(proto::PROGRAM, nfs, by_udp).await;
    let mut nfs = if by_udp { Nfs::over_datagrams(client) } else { Nfs::over_streams(client) };
    nfs.ask_limits(&root).await.expect("limits");
    (nfs, root)
}

pub(crate) async fn client(program: u32, port: u16, by_udp: bool) -> Client {
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let credential = Credential::Sys(AuthSys::default());
    let config = Config { credential, record_max: RECORD_BYTES, ..Config::new(program, 3) };
    if by_udp {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        return Client::over_datagrams(config, KeyedHash::new(5, 6), socket, to);
    }
    Client::over_streams(config, 77, move || Stream::connect(to))
}

/// Run a future on a runtime. A case that hangs fails.
pub(crate) fn within<T>(runtime: &Runtime, what: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(120);
    runtime.block_on(async { tokio::time::timeout(limit, what).await.expect("it ends in time") })
}

/// Makes a tree of `files` files, the largest of which has `largest` bytes.
pub(crate) fn tree(at: &Path, files: usize, largest: usize) {
    for n in 0..files {
        let dir = at.join(format!("d{}", n % 7)).join(format!("e{}", n % 3));
        fs::create_dir_all(&dir).expect("room");
        let bytes = if n == 0 { largest } else { n * 37 % 9_000 };
        let data: Vec<u8> = (0..bytes).map(|i| (i * 7 + n + i / 251 + i / 65_521) as u8).collect();
        fs::write(dir.join(format!("f {n}")), data).expect("room");
    }
}

/// Does diff(1) find no difference between two trees?
pub(crate) fn are_same(one: &Path, other: &Path) {
    let diff = Command::new("diff").arg("-r").arg(one).arg(other).output().expect("it starts");
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

/// The output of a program, which must succeed.
pub(crate) fn printed(program: &str, words: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(words).output().expect("it starts");
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    output.stdout
}
