//! curl fetches from our server over TLS, our client from nginx, and curl through the proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener as KernelListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use testbed::{Case, Namespace, Need, Running, ip};
use wirespeed::net::{Net, TcpListener};
use wirespeed_examples::proxy::Upstream;
use wirespeed_examples::{client, files, proxy, tls, tun};

pub(crate) const CASES: &[Case] = &[
    ("curl_fetches_10_mb_from_the_file_server_over_tls", &[Need::CURL], curl_from_server),
    ("our_client_fetches_10_mb_from_our_server", &[], client_from_server),
    ("our_client_fetches_10_mb_from_nginx", &[Need::NGINX], client_from_nginx),
    ("curl_fetches_10_mb_through_the_proxy", &[Need::CURL], || through_proxy(false)),
    ("curl_fetches_10_mb_through_the_proxy_and_a_socks5_server", &[Need::CURL], || {
        through_proxy(true)
    }),
    ("curl_goes_by_the_programs_socks5_and_nowhere_without_it", &[Need::CURL], the_program),
];

const OURS: &str = "10.77.0.2";

/// A folder with a file of 10 MB, gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wsex-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("root")).expect("room for a folder");
        std::fs::write(path.join("root/big"), big()).expect("room for 10 MB");
        std::fs::write(path.join("secret"), "not below the root").expect("room");
        std::os::unix::fs::symlink("../secret", path.join("root/link")).expect("a link");
        Folder(path)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn big() -> Vec<u8> {
    (0..10_000_000_usize).map(|i| (i * 7 + i / 251 + i / 65_521) as u8).collect()
}

fn assert_big(got: &[u8]) {
    assert_eq!(got.len(), 10_000_000);
    assert_eq!(Sha256::digest(got), Sha256::digest(big()));
}

fn curl(arguments: &[&str]) -> std::process::Output {
    let fixed = ["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"];
    Command::new("curl").args(fixed).args(arguments).output().expect("curl is there")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn net(name: &str, kernel: &str, ours: &str) -> wirespeed::Stack {
    let kernel = kernel.parse().expect("an address");
    tun::stack(name, kernel, ours.parse().expect("an address")).expect("root makes a TUN").0
}

/// Serve on a thread in this namespace; returns the certificate's path.
fn serve(folder: &Folder) -> PathBuf {
    let certificate = folder.0.join("certificate.pem");
    let (root, at) = (folder.root(), certificate.clone());
    let (ready, when) = mpsc::channel();
    thread::spawn(move || {
        runtime().block_on(async {
            let (net, _driver) = Net::spawn_tokio(net("ws0", "10.77.0.1/24", OURS));
            let ours: SocketAddr = format!("{OURS}:443").parse().expect("an address");
            let identity = tls::identity(ours.ip()).expect("a certificate");
            std::fs::write(at, identity.certificate_pem).expect("room");
            let listener = TcpListener::bind(&net, ours).expect("free");
            ready.send(()).expect("the case waits");
            // Ends with the process: no other code uses this namespace.
            let _ = files::serve(listener, identity.acceptor, &root, files::PATIENCE).await;
        });
    });
    when.recv_timeout(Duration::from_secs(20)).expect("it listens");
    certificate
}

fn curl_from_server() {
    let folder = Folder::new("curl");
    let certificate = serve(&folder);
    let trust = ["--cacert", certificate.to_str().expect("plain")];
    let url = |path: &str| format!("https://{OURS}{path}");
    let output = curl(&[&trust[..], &[&url("/big")]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_big(&output.stdout);
    for path in ["/../secret", "/%2e%2e/secret", "/link", "/absent", "/"] {
        let options = ["--path-as-is", "--write-out", "%{http_code}"];
        let output = curl(&[&trust[..], &options, &[&url(path)]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.ends_with("400") || said.ends_with("404"), "{path}: {said}");
        assert!(!said.contains("below"), "{path}: {said}");
    }
    // A client that does not trust the certificate gets no answer.
    assert!(!curl(&[&url("/big")]).status.success());
}

async fn fetched(net: &Net, uri: &str, certificate: Option<&Path>) -> Vec<u8> {
    let pem = certificate.map(|path| std::fs::read(path).expect("it was written"));
    let connector = pem.map(|pem| tls::connector(&pem).expect("a certificate"));
    let mut got = Vec::new();
    let uri = uri.parse().expect("a URL");
    let target = client::Target::new(uri, connector).expect("what can be fetched");
    client::fetch(net, &target, &mut got).await.expect("the file");
    got
}

fn client_from_server() {
    let folder = Folder::new("client");
    let certificate = serve(&folder);
    // The client's stack has an interface of its own; the kernel forwards between the two.
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root forwards");
    runtime().block_on(async {
        let (net, _driver) = Net::spawn_tokio(net("ws1", "10.78.0.1/24", "10.78.0.2"));
        assert_big(&fetched(&net, &format!("https://{OURS}/big"), Some(&certificate)).await);
    });
}

fn client_from_nginx() {
    let folder = Folder::new("nginx");
    let config = format!(
        "daemon off; master_process off; user root; events {{}}\n\
         pid {0}/pid; error_log {0}/error.log;\n\
         http {{ access_log off; server {{ listen 10.77.0.1:8080; root {0}/root; }} }}\n",
        folder.0.display()
    );
    let path = folder.0.join("nginx.conf");
    std::fs::write(&path, config).expect("room");
    let stack = net("ws0", "10.77.0.1/24", OURS);
    let nginx = Command::new("nginx").arg("-c").arg(&path).stderr(Stdio::null()).spawn();
    let _nginx = Running(nginx.expect("nginx is there"));
    // The kernel speaks with itself over `lo`, also at this address.
    assert!(ip("link set lo up"));
    let up = || std::net::TcpStream::connect("10.77.0.1:8080").is_ok();
    let listens = (0..200).any(|_| up() || (thread::sleep(Duration::from_millis(50)), false).1);
    assert!(listens, "{:?}", std::fs::read_to_string(folder.0.join("error.log")));
    runtime().block_on(async {
        let (net, _driver) = Net::spawn_tokio(stack);
        assert_big(&fetched(&net, "http://10.77.0.1:8080/big", None).await);
    });
}

/// A second namespace, where the proxy's kernel sockets are.
fn second() -> Namespace {
    let second = Namespace::new().expect("root may");
    for what in ["addr add 198.51.100.5/32 dev lo", "link set lo up"] {
        assert!(second.ip(what), "{what}");
    }
    second
}

/// One HTTP answer a connection, which ends with the connection.
fn http(listener: &KernelListener) {
    for mut stream in listener.incoming().flatten() {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(&big());
    }
}

/// A SOCKS5 server: CONNECT to an IPv4 address, one connection at a time, without checks. `to` says
/// where the connection really goes.
fn socks5(listener: &KernelListener, to: impl Fn(SocketAddr) -> SocketAddr) {
    for mut near in listener.incoming().flatten() {
        let mut hello = [0; 3];
        let mut request = [0; 10];
        let greeted = near.read_exact(&mut hello).and_then(|()| near.write_all(&[5, 0]));
        greeted.and_then(|()| near.read_exact(&mut request)).expect("a client of ours");
        assert_eq!((hello, &request[..4]), ([5, 1, 0], &[5, 1, 0, 1][..]));
        let ip = [request[4], request[5], request[6], request[7]];
        let port = u16::from_be_bytes([request[8], request[9]]);
        let Ok(far) = std::net::TcpStream::connect(to((ip, port).into())) else {
            let _ = near.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
            continue;
        };
        near.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).expect("a client of ours");
        thread::scope(|scope| {
            scope.spawn(|| {
                let _ = std::io::copy(&mut &near, &mut &far);
                let _ = far.shutdown(std::net::Shutdown::Write);
            });
            let _ = std::io::copy(&mut &far, &mut &near);
            let _ = near.shutdown(std::net::Shutdown::Write);
        });
    }
}

fn through_proxy(by_socks5: bool) {
    let second = second();
    let (ready, when) = mpsc::channel();
    let stack = net("ws0", "10.77.0.1/24", OURS);
    thread::scope(|scope| {
        let inside = || {
            second.enter();
            let web = KernelListener::bind("198.51.100.5:80").expect("an address of its");
            thread::spawn(move || http(&web));
            let server = KernelListener::bind("127.0.0.1:1080").expect("an address of its");
            thread::spawn(move || socks5(&server, |asked| asked));
            let upstream = match by_socks5 {
                true => Upstream::Socks5("127.0.0.1:1080".parse().expect("an address")),
                false => Upstream::Direct,
            };
            runtime().block_on(async {
                let (net, driver) = Net::spawn_tokio(stack);
                ready.send(net.clone()).expect("the case waits");
                let _ = proxy::run(&net, upstream, 64).await;
                let _ = driver.await;
            });
        };
        scope.spawn(inside);
        let net = when.recv_timeout(Duration::from_secs(20)).expect("it runs");
        assert!(ip("route add 198.51.100.0/24 via 10.77.0.2 dev ws0"));
        let got = curl(&["http://198.51.100.5/"]);
        let refused = curl(&["http://198.51.100.5:81/"]);
        net.shut_down();
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert_big(&got.stdout);
        assert_eq!(refused.status.code(), Some(7), "a refusal is carried over");
    });
}

/// The program as it is run: in the namespace of the client. There a connection straight to
/// the destination comes back to the proxy, so that nothing but `--socks5` leads anywhere.
fn the_program() {
    assert!(ip("link set lo up"));
    let web = KernelListener::bind("127.0.0.1:8080").expect("lo is up");
    thread::spawn(move || http(&web));
    let server = KernelListener::bind("127.0.0.1:1080").expect("lo is up");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    thread::spawn(move || {
        socks5(&server, |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            "127.0.0.1:8080".parse().expect("an address")
        })
    });
    for (by, options) in [(true, &["--socks5", "127.0.0.1:1080"][..]), (false, &[])] {
        let mut proxy = Command::new(env!("CARGO_BIN_EXE_proxy"));
        let fixed = ["--dev", "ws0", "--kernel", "10.77.0.1/24", "--ours", OURS];
        proxy.args(fixed).args(["--connections", "8"]).args(options);
        let proxy = proxy.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let _proxy = Running(proxy.expect("it was built"));
        let routed = || ip("route add 198.51.100.0/24 via 10.77.0.2 dev ws0");
        let runs =
            (0..200).any(|_| routed() || (thread::sleep(Duration::from_millis(50)), false).1);
        assert!(runs, "the proxy has no interface");
        let got = curl(&["--max-time", "10", "http://198.51.100.5/"]);
        assert_eq!(got.status.success(), by, "{}", String::from_utf8_lossy(&got.stderr));
        if by {
            assert_big(&got.stdout);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1, "connections by way of SOCKS5");
    }
}
