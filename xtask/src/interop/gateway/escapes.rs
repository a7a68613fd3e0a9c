//! Attempts to get out of a fence: the table, and what has to be so after each of them.
//!
//! The program says that it did not get through; nothing that it sent has left the host, as a
//! sniffer at the next hop sees; no service of the host was reached; and where a packet left the
//! program, the log has the refusal. Where there is something to get through to, the same line of
//! shell gets through without the fence: [`Free`] says from where.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::scene::{Site, USER};
use super::table::{ATTEMPTS, Attempt, Free};
use crate::interop::Workbench;
use crate::interop::outside::shown;
use crate::interop::router::scene::tail;

/// The rules of every attempt.
const FENCE: &str = r#"default = "deny"

[[rule]]
deny = ["cdn.denied.example"]

[[rule]]
allow = ["web.example", "alias.example", "*.rebind.example"]
ports = ["443"]
sni = "match"

[[rule]]
allow = ["8.8.8.0/24"]
ports = ["80"]
"#;

/// The sockets of the host that programs find by path.
const SOCKETS: &[&str] = &[
    "nscd/socket",
    "systemd/resolve/io.systemd.Resolve",
    "avahi-daemon/socket",
    "docker.sock",
    "agent.sock",
    "user/61999/bus",
];

/// All attempts, each in a network of its own.
pub(super) fn run(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    prepare(&mut site)?;
    // What is allowed works, or refusals would say nothing.
    let allowed = [
        "curl -sS -m 20 https://web.example/",
        "curl -6 -sS -m 20 https://web.example/",
        "curl -sS -m 20 http://8.8.8.80/",
    ];
    for line in allowed {
        site.prints("--policy $F/fence.toml", line, "hello from the server")?;
    }
    let mut failed = Vec::new();
    for attempt in ATTEMPTS {
        match refused(&site, attempt).with_context(|| attempt.name.to_owned()) {
            Ok(seen) => println!("  {} | {} | {seen}", attempt.name, attempt.line),
            Err(why) => {
                println!("  {} | {} | FAILED: {why:#}", attempt.name, attempt.line);
                failed.push(format!("{why:#}"));
            }
        }
    }
    println!(
        "  {} of {} attempts failed to get out",
        ATTEMPTS.len() - failed.len(),
        ATTEMPTS.len()
    );
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// The fence, a machine whose services listen everywhere, a setuid program, and a process of the
/// user outside.
fn prepare(site: &mut Site<'_>) -> Result<()> {
    let bench = site.bench;
    std::fs::write(bench.path("fence.toml"), FENCE)?;
    let mut paths = String::new();
    for socket in SOCKETS {
        let path = bench.path("var-run").join(socket);
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        paths += &format!(" {}", shown(&path)?);
    }
    site.host_serves(&paths)?;
    let folder = shown(&bench.path("home"))?.trim_end_matches("/home").to_owned();
    let (code, text) = site.on_server(&format!(
        "cp /usr/bin/id {folder}/setuid-id && chmod 4755 {folder}/setuid-id"
    ))?;
    ensure!(code == 0, "no setuid program: {text}");
    site.keep("outsider", "sleep 1000")?;
    let outsider = site.last_id().to_string();
    std::fs::write(bench.path("outsider"), outsider)?;
    // It tries to come in, as an FTP server would.
    let server = "while :; do bash -c 'echo hello > /dev/tcp/10.77.0.2/2121'; sleep 0.2; done";
    site.serve("inbound", &format!("sh -c \"{server}\" 2> /dev/null"))
}

/// One attempt; returns what the program saw.
fn refused(site: &Site<'_>, attempt: &Attempt) -> Result<String> {
    let free = match attempt.free {
        Free::No => None,
        Free::Unfenced => Some(site.inside("", attempt.line)?),
        Free::Host => Some(site.on_host(attempt.line)?),
    };
    if let Some((code, text)) = free {
        ensure!(code == 0 && text.contains("reached"), "it fails without a fence: {}", tail(&text));
    }
    let _ = std::fs::remove_file(site.bench.path("home/log.jsonl"));
    let baited = site.read("bait.log").len();
    site.left_the_host()?;
    let options = format!("--policy $F/fence.toml --log $F/home/log.jsonl {}", attempt.options);
    // What is refused without an answer costs this time.
    let (code, text) = site.inside(&options, &format!("export PATIENCE=1\n{}", attempt.line))?;
    ensure!(code == 9, "exit {code}: {}", tail(&text));
    let left = site.left_the_host()?;
    let harmful: Vec<_> = left.iter().filter(|line| !may_leave(line, attempt)).collect();
    ensure!(harmful.is_empty(), "these packets left the host: {harmful:?}");
    let contacts = site.read("bait.log").split_off(baited);
    // The shells around the attempt ask nscd, as every program of the host does.
    let contacts: Vec<_> =
        contacts.lines().filter(|line| !line.ends_with("/nscd/socket")).collect();
    ensure!(contacts.is_empty(), "services of the host were reached: {contacts:?}");
    if let Some(wanted) = attempt.logged {
        is_logged(&site.read("home/log.jsonl"), wanted)?;
    }
    let seen = text.lines().rev().find_map(|line| line.strip_prefix("blocked: "));
    Ok(seen.context("the program did not say why")?.to_owned())
}

/// May this packet of the sniffer's log leave the host? Questions for names that a rule allows may,
/// and connections to the shared address without a byte in them.
fn may_leave(line: &str, attempt: &Attempt) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let [protocol, from, to, rest] = words[..] else { return false };
    // The host's refusals of what comes to a port that is not published.
    if protocol == "tcp" && from == "10.77.0.2,2121" && to.starts_with("10.78.0.2,") {
        return rest == "+0";
    }
    let is_name =
        ["web.example", "alias.example"].contains(&rest) || rest.ends_with(".rebind.example");
    let is_question = ["8.8.4.53,53", "2001:4860::53,53"].contains(&to);
    if is_question && protocol == "udp" {
        return is_name;
    }
    let is_shared = ["8.8.4.80,443", "2001:4860::80,443"].contains(&to);
    attempt.sends && protocol == "tcp" && is_shared && rest == "+0"
}

/// Does the log have a refusal of `protocol destination-or-name`?
fn is_logged(log: &str, wanted: &str) -> Result<()> {
    let (protocol, what) = wanted.split_once(' ').context("a protocol and what")?;
    let is_it = |line: &str| -> Result<bool> {
        let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let names = line["names"].as_array().cloned().unwrap_or_default();
        let is_named = names.iter().any(|name| name == what);
        Ok(line["verdict"] == "deny"
            && line["protocol"] == protocol
            && !line["rule"].as_str().unwrap_or_default().is_empty()
            && (line["destination"] == what || is_named))
    };
    for line in log.lines() {
        if is_it(line)? {
            return Ok(());
        }
    }
    anyhow::bail!("the log has no refusal of {wanted}: {}", tail(log))
}

/// The path of the user's sockets is in the table.
const _: () = assert!(USER == 61_999);
