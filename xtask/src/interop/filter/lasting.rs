//! ssh sessions that stay open while the rules change, and end with the rule that passes them.
//!
//! Called by: the suite `filter`. OpenSSH's server runs on a port of its own, with keys and a
//! configuration of its own.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::scene::{NAT, Site, VERSIONS, Version, config};
use crate::interop::Workbench;
use crate::interop::host::Running;
use crate::interop::ip::until;
use crate::interop::outside::shown;
use crate::interop::router::scene::{LIMIT, tail};

const RELOADS: u32 = 20;
const PORT: u16 = 2222;

/// Rules that pass the sessions, each time by another rule in another place.
fn passing(n: u32) -> String {
    let before: String = (0..n % 4).map(|k| format!("block in wan tcp {}\n", 7000 + k)).collect();
    let label = if n.is_multiple_of(2) { "ssh" } else { "shell" };
    let pass = match n % 3 {
        0 => format!("pass in lan out wan tcp {PORT} label {label}\n"),
        1 => "pass in lan\n".to_owned(),
        _ => format!("pass out wan tcp {{22, {PORT}}} new 50/s label {label}\n"),
    };
    let echo = "pass in lan icmp echo-request\npass in lan icmpv6 echo-request\n";
    format!("{before}{pass}{echo}")
}

/// sshd on the host outside, and the client's configuration.
fn sshd(site: &Site<'_>) -> Result<Running> {
    let bench = site.scene.bench;
    let path = |name: &str| Ok::<_, anyhow::Error>(shown(&bench.path(name))?.to_owned());
    for key in ["host-key", "user-key"] {
        let make = format!("ssh-keygen -q -t ed25519 -N '' -f {}", path(key)?);
        site.said(&site.scene.right, &make)?;
    }
    let text = format!(
        "Port {PORT}\nHostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\n\
         UsePAM no\nPidFile none\nClientAliveInterval 1\nClientAliveCountMax 3\n\
         PasswordAuthentication no\n",
        path("host-key")?,
        path("user-key.pub")?,
    );
    std::fs::write(bench.path("sshd.conf"), text)?;
    // It wants a folder in /run, which is the namespace's own here.
    let command = format!(
        "sh -c 'mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f {}'",
        path("sshd.conf")?
    );
    let running = site.start(&site.scene.right, "sshd", &command)?;
    site.listens(&site.scene.right, PORT)?;
    Ok(running)
}

/// A session, whose far end writes a line each tenth of a second.
struct Session<'a> {
    site: &'a Site<'a>,
    name: String,
    client: Running,
}

impl<'a> Session<'a> {
    fn begin(site: &'a Site<'a>, version: &Version) -> Result<Session<'a>> {
        let name = format!("ssh-{}", version.name);
        let command = format!(
            "ssh -F none -p {PORT} -i {key} -o BatchMode=yes -o StrictHostKeyChecking=no \
             -o UserKnownHostsFile=/dev/null -o ServerAliveInterval=1 -o ServerAliveCountMax=3 \
             root@{to} 'while echo still; do sleep 0.1; done'",
            key = shown(&site.scene.bench.path("user-key"))?,
            to = version.outside,
        );
        let client = site.start(&site.scene.left, &name, &command)?;
        let session = Session { site, name, client };
        session.goes_on().context("a session begins")?;
        Ok(session)
    }

    fn lines(&self) -> usize {
        self.site.scene.left.printed(&self.name).lines().count()
    }

    /// What comes after now also arrives.
    fn goes_on(&self) -> Result<()> {
        let before = self.lines();
        let what = format!("{}: another line", self.name);
        until(&what, Duration::from_secs(10), || Ok(self.lines() > before + 1)).with_context(|| {
            let said =
                std::fs::read_to_string(self.site.scene.bench.path(&format!("{}.err", self.name)));
            tail(&said.unwrap_or_default()).to_owned()
        })
    }
}

/// Both sessions outlive twenty reloads whose rules pass them, and end with one that does not.
pub(super) fn ssh(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench, &config(&passing(0), NAT))?;
    site.is_up()?;
    let _sshd = sshd(&site)?;
    let mut sessions: Vec<Session<'_>> =
        VERSIONS.iter().map(|version| Session::begin(&site, version)).collect::<Result<_>>()?;
    for n in 1..=RELOADS {
        site.reload(&config(&passing(n), NAT)).with_context(|| format!("reload {n}"))?;
        sessions.iter().try_for_each(Session::goes_on).with_context(|| format!("reload {n}"))?;
    }
    let filter = format!("proto tcp dport {PORT}");
    let states = site.states(&filter)?;
    ensure!(states.len() == sessions.len(), "{RELOADS} reloads made other states: {states:?}");
    // A rule that rejects them resets both.
    let other = format!("reject tcp {PORT}\n{}", passing(1));
    site.reload(&config(&other, NAT))?;
    for session in &mut sessions {
        until("a session ends that is rejected", LIMIT, || Ok(!session.client.is_alive()?))?;
        let said = std::fs::read_to_string(bench.path(&format!("{}.err", session.name)))?;
        let is_reset = said.contains("reset") || said.contains("Broken pipe");
        ensure!(is_reset && !said.contains("Timeout"), "{}: {}", session.name, tail(&said));
    }
    let left = site.states(&filter)?;
    ensure!(left.is_empty(), "states of sessions that ended: {left:?}");
    // With the rule back, a new session begins.
    site.reload(&config(&passing(2), NAT))?;
    Session::begin(&site, &VERSIONS[0])?;
    println!("  2 ssh sessions through {RELOADS} reloads, with the same states");
    site.end()
}
