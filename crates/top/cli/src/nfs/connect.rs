//! From a URL to a client of the server and the handle of the export.
//!
//! Called by: `run.rs`. Ports come from the URL, or from the port mapper of the host.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::pin;

use ::nfs::client::{Error, Nfs, Url, exports, mount};
use ::nfs::limits::RECORD_BYTES;
use ::nfs::proto::{Attributes, Handle};
use anyhow::{Context, Result, bail};
use rpc::auth::{AuthSys, Credential};
use rpc::client::{CallError, Config};
use rpc::portmap::{self, Mapping, procedure};
use rpc::tasks::Client;
use rustix::process::{getgid, getuid};
use tokio::time::timeout;
use wirespeed::base::addr::unspecified;
use wirespeed::net::{self, Net};
use wirespeed::{Cidr, Duration, IpVersion};

use super::args::How;
use crate::output;

/// A server, and where on it a URL is.
pub(super) struct Remote {
    pub(super) nfs: Nfs,
    pub(super) root: Handle,
    /// From the root on.
    pub(super) path: Vec<u8>,
}

impl Remote {
    /// What is at the path.
    pub(super) async fn found(&self) -> Result<(Handle, Attributes), Error> {
        self.nfs.walk(&self.root, &self.path).await
    }
}

/// How long a call of NFS may take: a server may write a megabyte to a slow disk first.
const CALL: Duration = Duration::from_secs(60);
/// How long a port mapper and MOUNT may take, which write nothing.
const ASK: Duration = Duration::from_secs(10);
/// When the user is told what is waited for.
const QUIET: core::time::Duration = core::time::Duration::from_secs(3);

/// Wait for something; if that takes long, say for what.
pub(super) async fn waiting<T>(for_what: &str, what: impl Future<Output = T>) -> T {
    let mut what = pin!(what);
    if let Ok(done) = timeout(QUIET, &mut what).await {
        return done;
    }
    output::err(&format!("waiting for {for_what}; Ctrl-C ends it"));
    what.await
}

/// What the sockets are made from.
pub(super) struct From<'a> {
    pub(super) how: &'a How,
    /// A stack of ours, if there is one.
    pub(super) net: Option<Net>,
    /// The address of the server, if the stack has looked it up.
    pub(super) host: Option<IpAddr>,
}

impl From<'_> {
    /// Connect, and mount the export of the URL.
    pub(super) async fn remote(&self, url: &Url) -> Result<Remote> {
        let ip = self.host(&url.host)?;
        if let (Some(net), Some(gap)) = (&self.net, self.how.gap) {
            net.set_burst_gap(Cidr::host(ip), Some(gap.into())).context("cannot set the gap")?;
        }
        // A server that is asked over UDP by somebody whom it has never seen over TCP need not say
        // much: that somebody may be another.
        let mounted = match self.mounted(url, ip, false).await {
            Err(error) if self.how.udp && !has_timed_out(&error) => {
                self.mounted(url, ip, true).await
            }
            mounted => mounted,
        };
        let (root, path) = mounted?;
        let udp = self.how.udp;
        let nfs_port = self.port(url.nfs_port, ip, ::nfs::proto::PROGRAM, udp).await?;
        let client = self.client((::nfs::proto::PROGRAM, 3), ip, nfs_port, udp).await?;
        let mut nfs = if udp { Nfs::over_datagrams(client) } else { Nfs::over_streams(client) };
        if let Some(bytes) = self.how.bytes {
            nfs = nfs.with_transfer(bytes);
        }
        let at = format!("NFS of {}, port {nfs_port}", url.host);
        let limits = waiting(&at, nfs.ask_limits(&root)).await;
        limits.with_context(|| format!("cannot ask {}, port {nfs_port}", url.host))?;
        let nfs = nfs.with_notices(move |notice| output::err(&super::notice(&at, notice)));
        Ok(Remote { nfs, root, path })
    }

    /// Mount the export of the URL: its handle, and the path from there on.
    async fn mounted(&self, url: &Url, ip: IpAddr, udp: bool) -> Result<(Handle, Vec<u8>)> {
        let program = ::nfs::mount::PROGRAM;
        let port = self.port(url.mount_port, ip, program, udp).await?;
        let mounts = self.client((program, 3), ip, port, udp).await?;
        let at = format!("{}, port {port}", url.host);
        let all = waiting(&format!("MOUNT of {at}"), exports(&mounts)).await;
        let all = all.with_context(|| format!("cannot ask {at} for exports"))?;
        let export = export_of(&all, &url.path);
        let path = url.path[export.len()..].to_vec();
        let shown = String::from_utf8_lossy(export).into_owned();
        let shown = if shown.is_empty() { "/".to_owned() } else { shown };
        let root = waiting(&format!("MOUNT of {at}"), mount(&mounts, shown.as_bytes())).await;
        Ok((root.with_context(|| format!("cannot mount {shown} of {at}"))?, path))
    }

    /// The port of a program, as it is given, or by the port mapper.
    async fn port(&self, given: Option<u16>, ip: IpAddr, program: u32, udp: bool) -> Result<u16> {
        match given {
            Some(port) => Ok(port),
            None => self.mapped(ip, program, udp).await,
        }
    }

    fn host(&self, host: &str) -> Result<IpAddr> {
        if let Some(ip) = self.host.or_else(|| host.parse().ok()) {
            return Ok(ip);
        }
        let found = (host, 0).to_socket_addrs().ok().and_then(|mut all| all.next());
        let found = found.with_context(|| {
            format!("there is no host '{host}': look at its spelling, or give an address")
        })?;
        Ok(found.ip())
    }

    /// The port of a program, by the port mapper (version 2).
    async fn mapped(&self, ip: IpAddr, program: u32, udp: bool) -> Result<u16> {
        let mapper = self.client((portmap::PROGRAM, 2), ip, portmap::PORT, udp).await?;
        let protocol = if udp { portmap::UDP } else { portmap::TCP };
        let mapping = Mapping { program, version: 3, protocol, port: 0 };
        let asked = mapper.call::<_, u32>(procedure::GET, &mapping);
        let asked = waiting(&format!("the port mapper of {ip}"), asked).await;
        let port = asked.with_context(|| {
            format!("cannot ask the port mapper of {ip}: give the port, as nfs://HOST:2049/")
        })?;
        match u16::try_from(port) {
            Ok(port) if port > 0 => Ok(port),
            _ => bail!(
                "the port mapper of {ip} knows no program {program} version 3 over {}: is NFS \
                 version 3 on there?",
                if udp { "UDP" } else { "TCP" }
            ),
        }
    }

    /// A client of a program.
    async fn client(
        &self,
        (program, version): (u32, u32),
        ip: IpAddr,
        port: u16,
        udp: bool,
    ) -> Result<Client> {
        let to = SocketAddr::new(ip, port);
        let credential = Credential::Sys(AuthSys {
            machine: "wirespeed".to_owned(),
            uid: getuid().as_raw(),
            gid: getgid().as_raw(),
            ..AuthSys::default()
        });
        let config = Config {
            credential,
            record_max: RECORD_BYTES,
            timeout: if program == ::nfs::proto::PROGRAM { CALL } else { ASK },
            ..Config::new(program, version)
        };
        let first = getrandom::u32().context("the system gives no random numbers")?;
        let secret = crate::rpcinfo::secret().context("the system gives no random numbers")?;
        let own = SocketAddr::new(unspecified(IpVersion::of(&ip)), 0);
        Ok(match (self.net.clone(), udp) {
            (None, false) => Client::over_streams(config, first, move || async move {
                let stream = tokio::net::TcpStream::connect(to).await?;
                stream.set_nodelay(true)?;
                io::Result::Ok(stream)
            }),
            (None, true) => {
                let socket = tokio::net::UdpSocket::bind(own).await.context("no UDP socket")?;
                Client::over_datagrams(config, secret, socket, to)
            }
            (Some(net), false) => Client::over_streams(config, first, move || {
                let net = net.clone();
                async move {
                    let stream = net::TcpStream::connect(&net, to).await?;
                    stream.set_nodelay(true)?;
                    Ok(stream)
                }
            }),
            (Some(net), true) => {
                let socket = net::UdpSocket::bind(&net, own).context("no UDP socket")?;
                Client::over_datagrams(config, secret, socket, to)
            }
        })
    }
}

/// Was there no reply at all? Another way would be as silent.
fn has_timed_out(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(Error::Call(CallError::TimedOut)))
            || matches!(cause.downcast_ref(), Some(CallError::TimedOut))
    })
}

/// The longest export in which a path is; empty if that is the root, or none.
fn export_of<'a>(exports: &'a [Vec<u8>], path: &[u8]) -> &'a [u8] {
    let is_in = |export: &&[u8]| match path.strip_prefix(*export) {
        Some(rest) => rest.is_empty() || rest[0] == b'/',
        None => false,
    };
    let cut = exports.iter().map(|export| export.strip_suffix(b"/").unwrap_or(export));
    cut.filter(is_in).max_by_key(|export| export.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::export_of;

    #[test]
    fn the_longest_export_is_taken_whole() {
        let exports = [&b"/"[..], b"/srv", b"/srv/files", b"/s"].map(<[u8]>::to_vec);
        for (path, export) in [
            (&b"/srv/files/a"[..], &b"/srv/files"[..]),
            (b"/srv/filesystem", b"/srv"),
            (b"/srv", b"/srv"),
            (b"/x", b""),
            (b"/", b""),
        ] {
            assert_eq!(export_of(&exports, path), export, "{path:?}");
        }
        assert_eq!(export_of(&exports[1..], b"/other"), b"");
    }
}
