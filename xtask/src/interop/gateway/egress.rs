//! Egress out: a proxy and a WireGuard peer beyond the gateway, and the gateway as a proxy itself.
//!
//! microsocks runs at the router; the peer is wireguard-go at the server, behind an interface
//! of the kernel. Names, web and logins are the server's.

use anyhow::{Context, Result, ensure};

use super::programs::logins;
use super::scene::Site;
use crate::interop::Workbench;
use crate::interop::router::scene::tail;

const CURL: &str = "curl -sS -m 20 -w '%{http_version} %{remote_ip}' https://web.example/";
const SSH: &str = "test $(ssh -F config ssh.example echo yes) = yes && echo logged in";

/// `--via socks5://`, with datagrams where the proxy carries them.
pub(super) fn socks(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    logins(&mut site)?;
    let words = ["microsocks", "-i", "10.77.0.1", "-p", "1080"];
    site.serve_at_router("microsocks", &words)?;
    let via = "--via socks5://10.77.0.1:1080";
    for (what, line, expected) in
        [("curl", CURL, "hello from the server"), ("ssh", SSH, "logged in")]
    {
        site.prints(via, line, expected)?;
        println!("  {what} {via}: ok");
    }
    // It carries TCP only: names are asked of a server through it, by TCP.
    let text = site.prints(&format!("{via} --dns 8.8.4.53"), CURL, "hello from the server")?;
    println!("  names through it: {}", text.lines().last().unwrap_or_default());
    let (code, text) = site.inside(via, "ping -c1 -W2 8.8.4.80")?;
    ensure!(code != 0 && text.contains("TCP only"), "ping: exit {code}: {text}");
    // Our own proxy carries datagrams, too.
    site.keep("proxy", "$WS proxy --listen 127.0.0.1:1081")?;
    host_listens(&site, 1081)?;
    let dig = "dig +time=5 +tries=2 -p 5353 @8.8.4.53 web.example";
    let via = "--via socks5://127.0.0.1:1081";
    site.serve("names-5353", &names_at(5353))?;
    site.prints(via, dig, "8.8.4.80").context("datagrams through our own proxy")?;
    println!("  datagrams {via}: ok");
    Ok(())
}

/// A relay from another port to the name server, so that a question is a datagram like others.
fn names_at(port: u16) -> String {
    format!("socat UDP4-LISTEN:{port},bind=8.8.4.53,fork,reuseaddr UDP4:8.8.4.53:53")
}

fn host_listens(site: &Site<'_>, port: u16) -> Result<()> {
    let line = format!(
        "for i in $(seq 100); do ss -Hltn sport = :{port} | grep -q . && exit 0; \
                        sleep 0.1; done; exit 1"
    );
    let (code, _) = site.on_host(&line)?;
    ensure!(code == 0, "nobody listens at {port}");
    Ok(())
}

/// `wirespeed proxy` with its clients, and with rules.
pub(super) fn proxy(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    logins(&mut site)?;
    let rules =
        "--allow web.example --allow only6.example --allow ssh.example:22 --log $F/home/proxy.log";
    site.keep("proxy", &format!("$WS proxy --listen 127.0.0.1:1080 {rules}"))?;
    host_listens(&site, 1080)?;
    for (what, line) in [
        ("curl --socks5-hostname", "--socks5-hostname 127.0.0.1:1080"),
        ("curl -x", "-x http://127.0.0.1:1080"),
        ("curl --proxytunnel", "-p -x http://127.0.0.1:1080"),
    ] {
        for url in ["http://web.example/", "https://web.example/", "http://only6.example/"] {
            let (code, text) = site.on_host(&format!("curl -sS -m 20 {line} {url}"))?;
            let is_it = code == 0 && text.contains("hello from the server");
            ensure!(is_it, "{what} {url}: exit {code}: {text}");
        }
        println!("  {what}: ok");
    }
    let ssh = "ssh -F config -o 'ProxyCommand=socat - PROXY:127.0.0.1:%h:%p,proxyport=1080' \
               ssh.example echo logged in";
    let (code, text) = site.on_host(ssh)?;
    ensure!(code == 0 && text.contains("logged in"), "ssh: exit {code}: {}", tail(&text));
    println!("  ssh through CONNECT: ok");
    for (url, expected) in [("http://other.example/", "97"), ("http://web.example:81/", "97")] {
        let line = format!("curl -sS -m 20 --socks5-hostname 127.0.0.1:1080 {url}");
        let (code, text) = site.on_host(&line)?;
        ensure!(code.to_string() == expected, "{url}: exit {code}: {text}");
    }
    site.wait_for("home/proxy.log", "other.example")?;
    println!("  names that no rule allows are refused and logged");
    Ok(())
}

/// The daemon's configuration, by its socket.
const CONFIGURE: &str = "\
import base64, socket, sys
key = lambda text: base64.b64decode(text).hex()
to = socket.socket(socket.AF_UNIX)
to.connect('/var/run/wireguard/wg0.sock')
to.sendall(('set=1\\nprivate_key=%s\\nlisten_port=51820\\npublic_key=%s\\nallowed_ip=10.9.0.2/32\\n'
  'allowed_ip=fd09::2/128\\n\\n' % (key(sys.argv[1]), key(sys.argv[2]))).encode())
print(to.recv(1000).decode())
";

/// Keys of the peer and of ours: X25519 of fixed numbers.
const KEYS: &str = "\
import base64
from subprocess import run
for number in (1, 2):
    secret = bytes([number]) * 32
    der = bytes.fromhex('302e020100300506032b656e04220420') + secret
    got = run(['openssl', 'pkey', '-inform', 'DER', '-pubout', '-outform', 'DER'], input=der,
      capture_output=True, check=True).stdout
    print(base64.b64encode(secret).decode(), base64.b64encode(got[-32:]).decode())
";

/// `--via wg:FILE` of netns and proxy, and `wirespeed wg`.
pub(super) fn wireguard(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    logins(&mut site)?;
    std::fs::write(bench.path("keys.py"), KEYS)?;
    std::fs::write(bench.path("configure.py"), CONFIGURE)?;
    let (_, keys) = site.on_server("/usr/bin/python3 $F/keys.py")?;
    let keys: Vec<&str> = keys.split_whitespace().collect();
    let &[peer, peer_public, own, own_public] = &keys[..] else {
        anyhow::bail!("no keys: {keys:?}")
    };
    site.serve("peer", "wireguard-go -f wg0")?;
    let configure = format!(
        "for i in $(seq 100); do test -S /var/run/wireguard/wg0.sock && break; sleep 0.1; done; \
         /usr/bin/python3 $F/configure.py {peer} {own_public}; \
         ip addr add 10.9.0.1/24 dev wg0; ip addr add fd09::1/64 dev wg0 nodad; \
         ip link set wg0 mtu 1420 up"
    );
    let (code, text) = site.on_server(&configure)?;
    ensure!(code == 0 && text.contains("errno=0"), "the peer: exit {code}: {text}");
    let file = format!(
        "[Interface]\nPrivateKey = {own}\nAddress = 10.9.0.2/24, fd09::2/64\nDNS = 8.8.4.53\n\n\
         [Peer]\nPublicKey = {peer_public}\nAllowedIPs = 0.0.0.0/0, ::/0\n\
         Endpoint = 10.78.0.2:51820\nPersistentKeepalive = 25\n"
    );
    std::fs::write(bench.path("wg.conf"), file)?;
    let via = "--via wg:$F/wg.conf";
    site.left_the_host()?;
    for (what, line, expected) in [
        ("curl", CURL, "hello from the server"),
        ("ssh", SSH, "logged in"),
        ("ping", "ping -c2 -i0.2 -W5 8.8.4.80", " 0% packet loss"),
        ("dig", "dig +time=5 -p 53 @8.8.8.8 web.example", "8.8.4.80"),
    ] {
        site.prints(via, line, expected).with_context(|| what.to_owned())?;
        println!("  {what} {via}: ok");
    }
    // Nothing but datagrams to the peer has left.
    let left = site.left_the_host()?;
    let other = left.iter().find(|line| !line.contains("10.78.0.2") || !line.contains("51820"));
    ensure!(other.is_none(), "it went past the tunnel: {other:?}");
    let (code, text) = site.on_host("$WS wg $F/wg.conf -- curl -sS -m 20 http://web.example/")?;
    ensure!(code == 0 && text.contains("hello"), "wirespeed wg: exit {code}: {text}");
    site.keep("wg-proxy", "$WS wg $F/wg.conf --socks 127.0.0.1:1082")?;
    host_listens(&site, 1082)?;
    let line = "curl -sS -m 20 --socks5-hostname 127.0.0.1:1082 https://web.example/";
    let (code, text) = site.on_host(line)?;
    ensure!(code == 0 && text.contains("hello"), "wg --socks: exit {code}: {text}");
    println!("  wirespeed wg with a program, and as a proxy: ok");
    Ok(())
}
