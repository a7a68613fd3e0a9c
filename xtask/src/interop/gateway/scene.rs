//! The setting of the suite: the machine of an ordinary user, a router, and a server that has every
//! address which programs ask for.
//!
//! ```text
//! host 10.77.0.2 --- 10.77.0.1 router 10.78.0.1 --- 10.78.0.2 server: 8.8.0.0/16, 10.1.0.0/16,
//!      fd77::2       fd77::1          fd78::1       fd78::2           2001:4860::/32
//! ```
//!
//! The server's addresses are public ones of the real Internet where rules ask for public
//! addresses: documentation prefixes are not public. The namespaces have no link to the machine's
//! network.
//!
//! Called by: the cases beside this file. Programs run as a user who owns nothing, in the
//! namespaces of network and mounts of the host, with `resolv.conf`, `hosts` and `passwd` of the
//! case.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use crate::interop::ip::{sysctl, until};
use crate::interop::outside::shown;
use crate::interop::router::scene::{each, tail};

/// A user who owns nothing.
pub(super) const USER: u32 = 61_999;
/// The time limit of any one program.
const LIMIT: Duration = Duration::from_secs(60);

/// The addresses that the server has beside its own.
const SERVED: &[&str] = &[
    "8.8.0.0/16",
    "10.1.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "198.18.0.0/15",
    "2001:4860::/32",
    "64:ff9b::/96",
    "2002::/16",
    "fd00::/16",
];

/// The start of a program on the host, or with `root` first on the server, in mounts of its own.
/// `FOLDER` is the case's.
const AS_USER: &str = "#!/bin/sh
set -e
for file in resolv.conf hosts passwd; do mount --bind FOLDER/etc/$file /etc/$file; done
mount --bind FOLDER/var-run /run
cd FOLDER/home
set -- env -i LANG=C HOME=FOLDER/home PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin \\
  WIRESPEED_RUNTIME_DIR=FOLDER/run WS=FOLDER/ws F=FOLDER PROBE='/usr/bin/python3 FOLDER/probe.py' \\
  SSL_CERT_FILE=FOLDER/ca.pem CURL_CA_BUNDLE=FOLDER/ca.pem GIT_SSL_CAINFO=FOLDER/ca.pem \"$@\"
if [ -n \"$AS_ROOT\" ]; then exec \"$@\"; fi
exec setpriv --reuid USER --regid USER --clear-groups --inh-caps=-all \"$@\"
";

/// A private authority and a certificate of the server for all names in `example`.
const CERTIFICATES: &str = "\
set -e; cd \"$1\"
new='openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'
$new -keyout ca.key -out ca.pem -subj '/CN=Interop' -addext 'basicConstraints=critical,CA:TRUE'
$new -CA ca.pem -CAkey ca.key -keyout server.key -out server.pem -subj '/CN=web.example' \\
  -addext 'subjectAltName=DNS:web.example,DNS:denied.example,DNS:other.example,DNS:only6.example' \\
  -addext 'basicConstraints=critical,CA:FALSE'
";

const NGINX: &str = "\
daemon off; master_process off; user root; error_log stderr; pid FOLDER/nginx.pid;
events { worker_connections 2000; }
http {
  access_log FOLDER/web.log;
  server {
    listen 80; listen [::]:80; root FOLDER/www;
    listen 443 ssl http2; listen [::]:443 ssl http2;
    ssl_certificate FOLDER/server.pem; ssl_certificate_key FOLDER/server.key;
  }
}
";

/// The hosts, with the programs that always run there.
pub(super) struct Site<'a> {
    pub(super) bench: &'a Workbench,
    // Programs end before the namespaces that they are in.
    running: Vec<Running>,
    pub(super) host: Host<'a>,
    pub(super) router: Host<'a>,
    pub(super) server: Host<'a>,
    marks: std::cell::Cell<u32>,
}

impl<'a> Site<'a> {
    /// The namespaces, a name server and services at the server, and a sniffer at the router.
    pub(super) fn new(bench: &'a Workbench) -> Result<Site<'a>> {
        let mut site = Site {
            bench,
            running: Vec::new(),
            host: Host::without_tap(bench)?,
            router: Host::without_tap(bench)?,
            server: Host::without_tap(bench)?,
            marks: std::cell::Cell::new(0),
        };
        site.files()?;
        site.links()?;
        let python = format!("/usr/bin/python3 {}", script(bench, "server.py")?);
        let folder = shown(&bench.path(""))?.to_owned();
        let folder = folder.trim_end_matches('/');
        site.serve("names", &format!("{python} server {folder}/names.log"))?;
        site.serve("nginx", &format!("nginx -c {folder}/nginx.conf"))?;
        let sniff = format!("exec {python} sniff left {folder}/sniff.log");
        let sniffer = site.router.start("sniff", site.router.command("sh").args(["-c", &sniff]))?;
        site.running.push(sniffer);
        for log in ["names.log", "sniff.log"] {
            site.wait_for(log, "ready")?;
        }
        site.server_listens(443)?;
        Ok(site)
    }

    /// Wait until a program of the server listens at this TCP port.
    pub(super) fn server_listens(&self, port: u16) -> Result<()> {
        let line = format!("ss -Hltn sport = :{port}");
        let listens = || Ok(self.on_server(&line)?.1.contains("LISTEN"));
        until(&format!("the server listens at {port}"), LIMIT, listens)
    }

    fn files(&self) -> Result<()> {
        let bench = self.bench;
        let folder = shown(&bench.path(""))?.trim_end_matches('/').to_owned();
        let filled =
            |text: &str| text.replace("FOLDER", &folder).replace("USER", &USER.to_string());
        for name in ["etc", "home", "run", "var-run", "www"] {
            std::fs::create_dir_all(bench.path(name))?;
        }
        for name in ["home", "run"] {
            chown(bench.path(name), Some(USER), Some(USER))?;
        }
        let passwd = std::fs::read_to_string("/etc/passwd")?;
        let user = format!("{passwd}wsuser:*:{USER}:{USER}::{folder}/home:/bin/sh\n");
        for (name, text) in [
            ("etc/resolv.conf", "nameserver 8.8.4.53\nnameserver 2001:4860::53\n"),
            ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
            ("etc/passwd", &user),
            ("as-user", &filled(AS_USER)),
            ("nginx.conf", &filled(NGINX)),
            ("www/index.html", "hello from the server\n"),
        ] {
            std::fs::write(bench.path(name), text).with_context(|| format!("no file {name}"))?;
        }
        std::fs::set_permissions(bench.path("as-user"), PermissionsExt::from_mode(0o755))?;
        std::fs::copy(bench.wirespeed()?, bench.path("ws"))?;
        std::fs::copy(script(bench, "probe.py")?, bench.path("probe.py"))?;
        let mut make = Command::new("sh");
        bench.run(make.args(["-c", CERTIFICATES, "sh", &folder]), LIMIT)?;
        std::fs::set_permissions(bench.path("ca.key"), PermissionsExt::from_mode(0o600))?;
        Ok(())
    }

    fn links(&self) -> Result<()> {
        let Site { bench, host, router, server, .. } = self;
        for of in [host, router, server] {
            // Addresses of links can be used at once.
            sysctl(bench, of, "ipv6/conf/default/accept_dad", "0")?;
        }
        let to_host = format!("link add left type veth peer name lan0 netns {}", host.name());
        let to_server = format!("link add right type veth peer name lan0 netns {}", server.name());
        each(router, &[&to_host, &to_server])?;
        for (of, link, network, number) in [
            (router, "left", 77, 1),
            (router, "right", 78, 1),
            (host, "lan0", 77, 2),
            (server, "lan0", 78, 2),
        ] {
            each(
                of,
                &[
                    &format!("addr add 10.{network}.0.{number}/24 dev {link}"),
                    &format!("addr add fd{network}::{number}/64 dev {link} nodad"),
                    &format!("link set {link} up"),
                ],
            )?;
        }
        for (of, network, number) in [(host, 77, 1), (server, 78, 1), (router, 78, 2)] {
            each(
                of,
                &[
                    &format!("route add default via 10.{network}.0.{number}"),
                    &format!("route add default via fd{network}::{number}"),
                ],
            )?;
        }
        for prefix in SERVED {
            let version = if prefix.contains(':') { "-6 " } else { "" };
            server.ip(&format!("{version}route add local {prefix} dev lo"))?;
        }
        // It answers from this one, too, where it has to choose an address.
        server.ip("addr add 2001:4860::80/128 dev lo")?;
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            sysctl(bench, router, setting, "1")?;
        }
        sysctl(bench, host, "ipv4/ping_group_range", "0 2147483647")
    }

    /// Start a program on the server, as root, until the end of the case.
    pub(super) fn serve(&mut self, name: &str, line: &str) -> Result<()> {
        let mut shell = self.command(&self.server, true, &format!("exec {line}"))?;
        let running = self.server.start(name, &mut shell)?;
        self.running.push(running);
        Ok(())
    }

    /// Start a program on the router, as root, until the end of the case.
    pub(super) fn serve_at_router(&mut self, name: &str, words: &[&str]) -> Result<()> {
        let mut command = self.router.command(words[0]);
        let running = self.router.start(name, command.args(&words[1..]))?;
        self.running.push(running);
        Ok(())
    }

    /// Start a program on the host as the user, until the end of the case.
    pub(super) fn keep(&mut self, name: &str, line: &str) -> Result<()> {
        let running = self.start(name, line)?;
        self.running.push(running);
        Ok(())
    }

    /// The process that was started last.
    pub(super) fn last_id(&self) -> u32 {
        self.running.last().map_or(0, Running::id)
    }

    /// Let services listen at the host's port 8080, at an abstract socket and at these paths; who
    /// reaches them is in `bait.log`.
    pub(super) fn host_serves(&mut self, paths: &str) -> Result<()> {
        let (script, log) = (script(self.bench, "server.py")?, self.bench.path("bait.log"));
        let line = format!("exec /usr/bin/python3 {script} host {} {paths}", shown(&log)?);
        let bait = self.host.start("bait", self.host.command("sh").args(["-c", &line]))?;
        self.running.push(bait);
        self.wait_for("bait.log", "ready")
    }

    /// Start a shell's line on the host as the user; output goes to files of this name.
    pub(super) fn start(&self, name: &str, line: &str) -> Result<Running> {
        self.host.start(name, &mut self.command(&self.host, false, &format!("exec {line}"))?)
    }

    fn command(&self, host: &Host<'_>, is_root: bool, line: &str) -> Result<Command> {
        let mut command = host.command(shown(&self.bench.path("as-user"))?);
        if is_root {
            command.env("AS_ROOT", "yes");
        }
        command.args(["sh", "-c", line]);
        Ok(command)
    }

    fn run(&self, host: &Host<'_>, is_root: bool, line: &str) -> Result<(i32, String)> {
        let line = format!("exec 2>&1\n{line}\n");
        let line = format!("( {line} ) < /dev/null; echo \"exit $?\"");
        let text = self.bench.run(&mut self.command(host, is_root, &line)?, LIMIT)?;
        let (text, code) = text.trim_end().rsplit_once("exit ").context("no exit status")?;
        Ok((code.parse()?, text.to_owned()))
    }

    /// A shell's line on the server: exit status, output and errors.
    pub(super) fn on_server(&self, line: &str) -> Result<(i32, String)> {
        self.run(&self.server, true, line)
    }

    /// A shell's line on the host, as the user: exit status, output and errors.
    pub(super) fn on_host(&self, line: &str) -> Result<(i32, String)> {
        self.run(&self.host, false, line)
    }

    /// A shell's line as the program of `netns`: exit status, output and errors.
    pub(super) fn inside(&self, options: &str, line: &str) -> Result<(i32, String)> {
        std::fs::write(self.bench.path("line.sh"), line)?;
        self.on_host(&format!("$WS netns {options} -- sh $F/line.sh"))
    }

    /// A shell's line as the program of `netns`, which has to succeed and to print this.
    pub(super) fn prints(&self, options: &str, line: &str, expected: &str) -> Result<String> {
        let (code, text) = self.inside(options, line)?;
        let is_it = code == 0 && text.contains(expected);
        ensure!(
            is_it,
            "netns {options} -- {line}: exit {code}, no '{expected}' in {}",
            tail(&text)
        );
        Ok(text)
    }

    /// A file of the case, so far.
    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.bench.path(name)).unwrap_or_default()
    }

    /// Wait until a line with this text is in a file of the case.
    pub(super) fn wait_for(&self, name: &str, text: &str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.read(name).contains(text) {
            ensure!(Instant::now() < deadline, "no '{text}' in {name}: {}", tail(&self.read(name)));
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Everything that has left the host by now is in the sniffer's log, which ends with a mark.
    /// Returns the lines since the mark before.
    pub(super) fn left_the_host(&self) -> Result<Vec<String>> {
        let number = self.marks.get() + 1;
        self.marks.set(number);
        let mark = format!("mark {number}");
        let mut bash = self.host.command("bash");
        self.bench.run(bash.args(["-c", &format!("echo {mark} > /dev/udp/10.77.0.1/9")]), LIMIT)?;
        self.wait_for("sniff.log", &format!("{mark}\n"))?;
        let log = self.read("sniff.log");
        let before = format!("mark {}\n", number - 1);
        let since = log.split_once(&before).map_or(log.as_str(), |(_, since)| since);
        Ok(since
            .lines()
            .filter(|line| *line != mark && *line != "ready")
            .map(str::to_owned)
            .collect())
    }
}

/// The path of a file of this suite.
fn script(bench: &Workbench, name: &str) -> Result<String> {
    Ok(shown(&bench.root().join("xtask/src/interop/gateway").join(name))?.to_owned())
}
