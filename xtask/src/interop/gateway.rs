//! Suites `gateway`, `gateway-programs`, `gateway-fence` and `gateway-containers`: `wirespeed
//! netns` with the programs that people run, as an ordinary user; each of its three processes
//! killed at random moments; a hundred attempts to get out of a fence.
//!
//! docs/gateway.md. Everything runs in namespaces without a link to the machine's network.

mod containers;
mod egress;
mod escapes;
mod life;
mod others;
mod podman;
mod programs;
mod quic;
mod scene;
mod table;

use super::ip::{PING, TCPDUMP};
use super::iperf::IPERF3;
use super::outside::{CURL, IP, NGINX};
use super::router::{PYTHON3, SS, TRACEROUTE};
use super::{Case, Need};

const WIREGUARD: Need = Need::Program { program: "wireguard-go", package: "wireguard-go" };
const MICROSOCKS: Need = Need::Program { program: "microsocks", package: "microsocks" };
const SOCAT: Need = Need::Program { program: "socat", package: "socat" };
const APT_GET: Need = Need::Program { program: "apt-get", package: "apt" };
const BUSYBOX: Need = Need::Program { program: "busybox", package: "busybox" };
const DIG: Need = Need::Program { program: "dig", package: "bind9-dnsutils" };
const GIT: Need = Need::Program { program: "git", package: "git" };
const GO: Need = Need::Program { program: "go", package: "golang-go" };
const JAVA: Need = Need::Program { program: "java", package: "default-jre-headless" };
const JAVAC: Need = Need::Program { program: "javac", package: "default-jdk-headless" };
const LSNS: Need = Need::Program { program: "lsns", package: "util-linux" };
const OPENSSL: Need = Need::Program { program: "openssl", package: "openssl" };
const SCAN: Need = Need::Program { program: "dpkg-scanpackages", package: "dpkg-dev" };
const SETPRIV: Need = Need::Program { program: "setpriv", package: "util-linux" };
const SETSID: Need = Need::Program { program: "setsid", package: "util-linux" };
const SSH: Need = Need::Program { program: "ssh", package: "openssh-client" };
const SSHD: Need = Need::Program { program: "sshd", package: "openssh-server" };
const NSENTER: Need = Need::Program { program: "nsenter", package: "util-linux" };
const UNSHARE: Need = Need::Program { program: "unshare", package: "util-linux" };

/// A list of needs behind those of every case.
macro_rules! needs {
    ($($need:expr),*) => {
        &[Need::Root, IP, SS, SETPRIV, OPENSSL, PYTHON3, NGINX, $($need),*]
    };
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "curl: http and https, versions 1.1 and 2, IPv4 and IPv6",
        needs: needs![CURL],
        run: programs::web,
    },
    Case {
        name: "dig: UDP, TCP, EDNS with 3,000 bytes, any server",
        needs: needs![DIG],
        run: programs::names,
    },
    Case { name: "ping and traceroute", needs: needs![PING, TRACEROUTE], run: programs::pings },
    Case {
        name: "published nginx logs the client's address; --to-host, --host-address",
        needs: needs![CURL],
        run: others::ports,
    },
    Case {
        name: "--via socks5: curl, ssh, names, datagrams",
        needs: needs![CURL, DIG, MICROSOCKS, PING, SOCAT, SSH, SSHD, GIT],
        run: egress::socks,
    },
    Case {
        name: "wirespeed proxy: curl, ssh, rules",
        needs: needs![CURL, SOCAT, SSH, SSHD, GIT],
        run: egress::proxy,
    },
    Case {
        name: "--via wg, wirespeed wg: curl, ssh, ping, dig",
        needs: needs![CURL, DIG, PING, SSH, SSHD, GIT, WIREGUARD],
        run: egress::wireguard,
    },
    Case {
        name: "exit statuses, Ctrl-C, --keep, --pid, --hide",
        needs: needs![CURL, SETSID],
        run: life::ends,
    },
    Case {
        name: "pasta and pesto as podman calls them: names, ports, the client's address, the end",
        needs: needs![CURL, UNSHARE, NSENTER],
        run: containers::podman_lines,
    },
    Case {
        name: "pasta and slirp4netns as rootlesskit calls them: ports that follow, the API",
        needs: needs![CURL, UNSHARE, NSENTER],
        run: containers::other_lines,
    },
    Case {
        name: "each of the three processes is killed at a random moment, and nothing is left",
        needs: needs![CURL, LSNS],
        run: life::kills,
    },
];

/// What takes longer, or needs more of the machine.
pub(super) const PROGRAMS: &[Case] = &[
    Case {
        name: "git over https and ssh, scp, ssh -R",
        needs: needs![GIT, SSH, SSHD],
        run: programs::git,
    },
    Case {
        name: "iperf3: up, down, both at once, four flows, UDP",
        needs: needs![IPERF3],
        run: programs::iperf,
    },
    Case { name: "python asyncio: 200 connections at once", needs: needs![], run: others::asyncio },
    Case { name: "Go's resolver", needs: needs![GO], run: others::go },
    Case { name: "quinn: bytes both ways, names of hellos", needs: needs![DIG], run: quic::quinn },
    Case { name: "java", needs: needs![JAVA, JAVAC], run: others::java },
    Case {
        name: "apt-get update and download from a mirror",
        needs: needs![APT_GET, SCAN],
        run: others::apt,
    },
    Case {
        name: "show, explain, dump, top, --capture, --log",
        needs: needs![CURL, TCPDUMP],
        run: others::sight,
    },
    Case {
        name: "--link: round trip, goodput, loss",
        needs: needs![CURL, PING, IPERF3],
        run: others::link,
    },
];

pub(super) const FENCE: &[Case] = &[Case {
    name: "attempts to get out of a fence: each is refused and logged",
    needs: needs![CURL, UNSHARE],
    run: escapes::run,
}];

/// They need a tree of Debian with podman and rootlesskit: see `podman.rs`.
pub(super) const CONTAINERS: &[Case] = &[
    Case {
        name: "podman: run, published port, build, bridge",
        needs: &[Need::Root, CURL, UNSHARE, BUSYBOX],
        run: podman::podman,
    },
    Case {
        name: "rootlesskit: pasta and slirp4netns",
        needs: &[Need::Root, CURL, UNSHARE, BUSYBOX],
        run: podman::rootlesskit,
    },
];
