//! What a case needs beside the workspace, whether it is there, and the sentence if it is not.
//!
//! Called by: `cases.rs`; tests name the needs of their cases.

#[cfg(target_os = "linux")]
use std::fs::File;

/// Something that a case cannot run without.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// A program on the search path, and the Debian package that has it.
    Program(&'static str, &'static str),
    /// io_uring, allowed to all users.
    IoUring,
    /// What a function looks for: the sentence if it is missing.
    Other(fn() -> Option<String>),
}

impl Need {
    /// curl.
    pub const CURL: Need = Need::Program("curl", "curl");
    /// nginx.
    pub const NGINX: Need = Need::Program("nginx", "nginx-light");
    /// ping of iputils.
    pub const PING: Need = Need::Program("ping", "iputils-ping");
    /// setpriv, which takes privileges away from a program.
    pub const SETPRIV: Need = Need::Program("setpriv", "util-linux");
    /// socat.
    pub const SOCAT: Need = Need::Program("socat", "socat");
    /// tcpdump, and libpcap with it.
    pub const TCPDUMP: Need = Need::Program("tcpdump", "tcpdump");
    /// tshark.
    pub const TSHARK: Need = Need::Program("tshark", "tshark");
    /// unshare, which gives a program namespaces of its own.
    pub const UNSHARE: Need = Need::Program("unshare", "util-linux");

    /// What to say if it is not there.
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

    /// The same as a question.
    pub fn is_there(self) -> bool {
        self.missing().is_none()
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// What every case needs and this machine or user lacks: TUN, iproute2, root.
#[cfg(target_os = "linux")]
pub(crate) fn missing_for_all() -> Option<String> {
    if File::options().read(true).write(true).open("/dev/net/tun").is_err() {
        return Some("needs /dev/net/tun, and to be allowed to open it".to_owned());
    }
    let missing = Need::Program("ip", "iproute2").missing();
    let refused = || "needs root: `ip netns add` was refused".to_owned();
    missing.or_else(|| crate::Namespace::new().is_none().then(refused))
}

/// No case is for another system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn missing_for_all() -> Option<String> {
    Some("needs Linux".to_owned())
}
