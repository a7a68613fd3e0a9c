//! What a test case needs from the machine: programs, io_uring, root. Each need has a check, and a
//! message for a machine that does not meet it.
//!
//! Called by: `cases.rs`; tests name the needs of their cases.

#[cfg(target_os = "linux")]
use std::fs::File;

/// Something that a case cannot run without.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// A program on `PATH`, and the Debian package that contains it.
    Program(&'static str, &'static str),
    /// io_uring, allowed to all users.
    IoUring,
    /// A function that checks for a need, and returns the message if the need is not met.
    Other(fn() -> Option<String>),
}

impl Need {
    /// Chromium, which [`Browser`](crate::Browser) drives.
    pub const CHROMIUM: Need = Need::Program("chromium", "chromium");
    /// curl.
    pub const CURL: Need = Need::Program("curl", "curl");
    /// dnsmasq, a server of DHCP and DNS.
    pub const DNSMASQ: Need = Need::Program("dnsmasq", "dnsmasq-base");
    /// nginx.
    pub const NGINX: Need = Need::Program("nginx", "nginx-light");
    /// ping of iputils.
    pub const PING: Need = Need::Program("ping", "iputils-ping");
    /// radvd, which advertises IPv6 prefixes.
    pub const RADVD: Need = Need::Program("radvd", "radvd");
    /// rpcinfo of TI-RPC.
    pub const RPCINFO: Need = Need::Program("rpcinfo", "rpcbind");
    /// setpriv, which runs a program with fewer privileges.
    pub const SETPRIV: Need = Need::Program("setpriv", "util-linux");
    /// socat.
    pub const SOCAT: Need = Need::Program("socat", "socat");
    /// tcpdump, and libpcap with it.
    pub const TCPDUMP: Need = Need::Program("tcpdump", "tcpdump");
    /// tshark.
    pub const TSHARK: Need = Need::Program("tshark", "tshark");
    /// unshare, which runs a program in new namespaces.
    pub const UNSHARE: Need = Need::Program("unshare", "util-linux");

    /// The message if the need is not met.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Need::Program(program, package) => (!is_on_path(program))
                .then(|| format!("needs {program} (Debian: apt install {package})")),
            Need::Other(missing) => missing(),
            Need::IoUring => {
                let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
                (!disabled.is_ok_and(|how| how.trim() == "0")).then(|| {
                    "needs io_uring: Linux 6.6 or later, sysctl kernel.io_uring_disabled=0"
                        .to_owned()
                })
            }
        }
    }

    /// True if the need is met.
    pub fn is_there(self) -> bool {
        self.missing().is_none()
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Checks the needs that all cases have: `/dev/net/tun`, iproute2 and root. Returns the message for
/// the first one that is not met.
#[cfg(target_os = "linux")]
pub(crate) fn missing_for_all() -> Option<String> {
    if File::options().read(true).write(true).open("/dev/net/tun").is_err() {
        return Some("needs /dev/net/tun, and the right to open it".to_owned());
    }
    let missing = Need::Program("ip", "iproute2").missing();
    let refused = || "needs root: `ip netns add` was refused".to_owned();
    missing.or_else(|| crate::Namespace::new().is_none().then(refused))
}

/// Cases run on Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn missing_for_all() -> Option<String> {
    Some("needs Linux".to_owned())
}
