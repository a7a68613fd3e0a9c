//! Real programs behind the gateway, without a fence: transfers by name, logins, names, pings.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::scene::Site;
use crate::interop::Workbench;
use crate::interop::outside::shown;
use crate::interop::router::scene::tail;

/// Bytes of a file that moves.
const FILE: usize = 3_000_000;

pub(super) fn web(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench)?;
    for (words, version) in [
        ("http://web.example/", "1.1"),
        ("-4 https://web.example/", "2"),
        ("-6 https://web.example/", "2"),
        ("--http1.1 https://web.example/", "1.1"),
        ("https://only6.example/", "2"),
    ] {
        let line = format!("curl -sS -m 20 -w '%{{http_version}} %{{remote_ip}}' {words}");
        let text = site.prints("", &line, "hello from the server")?;
        println!("  curl {words}: {}", text.lines().last().unwrap_or_default());
        ensure!(text.contains(&format!("\n{version} ")), "{words}: {text}");
    }
    // What is refused outside is refused inside, at once.
    let (code, text) = site.inside("", "curl -sS -m 20 http://web.example:81/")?;
    ensure!(code == 7, "exit {code}: {text}");
    let (code, text) = site.inside("", "curl -sS -m 20 http://nowhere.example/")?;
    ensure!(code == 6, "exit {code}: {text}");
    Ok(())
}

/// A shell's script for the user: a key to log in by, and a repository.
const PREPARE_GIT: &str = "\
set -e
ssh-keygen -q -t ed25519 -N '' -f id
cp id.pub authorized_keys; chmod 600 authorized_keys
printf 'Host *\\nStrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\nLogLevel ERROR\\n\
IdentityFile %s/id\\nUser wsuser\\n' $HOME > config
git config --global user.name Interop; git config --global user.email interop@example
git config --global init.defaultBranch main
git config --global core.sshCommand \"ssh -F $HOME/config\"
git init -q work; cp $F/file work/file; git -C work add file; git -C work commit -qm first
git clone -q --bare work repo.git; git -C repo.git update-server-info
";

const SSHD: &str = "\
Port 22\nHostKey FOLDER/host_key\nAuthorizedKeysFile FOLDER/home/authorized_keys\nStrictModes no\n\
UsePAM no\nPidFile none\nAllowTcpForwarding yes\nGatewayPorts yes\nSubsystem sftp internal-sftp\n";

/// A repository and a login at the server; returns the file in the repository.
pub(super) fn logins(site: &mut Site<'_>) -> Result<PathBuf> {
    let bench = site.bench;
    let file = bench.file("file", FILE)?;
    let (code, text) = site.on_host(PREPARE_GIT)?;
    ensure!(code == 0, "no repository: {text}");
    let folder = shown(&bench.path("etc"))?.trim_end_matches("/etc").to_owned();
    std::fs::write(bench.path("sshd.conf"), SSHD.replace("FOLDER", &folder))?;
    site.on_server(&format!("ssh-keygen -q -t ed25519 -N '' -f {folder}/host_key"))?;
    let sshd = format!(
        "mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f \
                        {folder}/sshd.conf"
    );
    site.serve("sshd", &format!("sh -c '{sshd}'"))?;
    site.server_listens(22)?;
    Ok(file)
}

/// git and ssh, with a repository and a login at the server.
pub(super) fn git(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    let file = logins(&mut site)?;
    std::os::unix::fs::symlink(bench.path("home/repo.git"), bench.path("www/repo.git"))?;
    let same = format!("cmp {} ", shown(&file)?);
    let repository = "ssh.example:repo.git";
    for (what, line) in [
        (
            "git clone https",
            format!("git clone -q https://web.example/repo.git a && {same} a/file"),
        ),
        ("git clone ssh", format!("git clone -q {repository} b && {same} b/file")),
        ("git push ssh", "cd b && git commit -q --allow-empty -m two && git push -q".to_owned()),
        ("scp there", "scp -q -F config $F/file ssh.example:there".to_owned()),
        ("scp back", format!("scp -q -F config ssh.example:there back && {same} back")),
        ("ssh runs", "test $(ssh -F config ssh.example echo yes) = yes".to_owned()),
        (
            "ssh -tt",
            "test $(ssh -F config -tt ssh.example 'tty >/dev/null && echo tty') = tty\r".to_owned(),
        ),
    ] {
        site.prints("", &line, "").with_context(|| what.to_owned())?;
        println!("  {what}: ok");
    }
    // A port at the server that leads to one of the program.
    let line =
        "/usr/bin/python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 7000)); \
                c = s.accept()[0]; c.sendall(b\"from inside\\n\")' &
                ssh -F config -N -R 7070:127.0.0.1:7000 -o ExitOnForwardFailure=yes ssh.example &
                wait $!";
    std::fs::write(bench.path("forward.sh"), line)?;
    let _forward = site.start("forward", "$WS netns -- sh $F/forward.sh")?;
    site.server_listens(7070)?;
    let (_, text) = site.on_server("bash -c 'cat < /dev/tcp/127.0.0.1/7070'")?;
    ensure!(text.contains("from inside"), "ssh -R: {text}");
    println!("  ssh -R: ok");
    Ok(())
}

/// dig by UDP and TCP, with EDNS and without, and what the program's resolver is.
pub(super) fn names(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench)?;
    for (words, expected) in [
        ("+noedns web.example A", "8.8.4.80"),
        ("web.example AAAA", "2001:4860::80"),
        ("+tcp web.example", "8.8.4.80"),
        ("alias.example", "cdn.denied.example."),
        // 3,000 bytes: in one datagram, and by TCP because the answer is cut off.
        ("+bufsize=4096 big.example TXT", "MSG SIZE  rcvd: 3"),
        ("+noedns big.example TXT", "MSG SIZE  rcvd: 3"),
        ("nowhere.example", "NXDOMAIN"),
        // Another server: port 53 is our resolver's, wherever it leads.
        ("@8.8.8.8 web.example", "8.8.4.80"),
        ("@2001:4860::8888 +tcp web.example", "8.8.4.80"),
    ] {
        let text = site.prints("", &format!("dig +time=5 +tries=1 {words}"), expected)?;
        let via = text.lines().find(|line| line.contains("SERVER:")).unwrap_or_default();
        println!("  dig {words}: {}", via.trim_start_matches(";; "));
    }
    let by_v6 = "dig +time=5 +tries=1 @fd01:2:3:4::3 web.example";
    site.prints("--net6 fd01:2:3:4::/64", by_v6, "8.8.4.80")?;
    site.prints("", "getent ahosts web.example", "2001:4860::80")?;
    site.prints("--dns 8.8.4.99", "dig +time=5 web.example", "8.8.4.80")?;
    let (code, text) = site.inside("--dns off", "dig +time=1 +tries=1 @10.0.2.3 web.example")?;
    ensure!(code != 0 || text.contains("REFUSED"), "--dns off: exit {code}: {text}");
    Ok(())
}

/// ping and traceroute.
pub(super) fn pings(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench)?;
    for to in ["8.8.4.80", "2001:4860::80", "web.example", "10.0.2.2", "-s 1200 8.8.4.80"] {
        let text = site.prints("", &format!("ping -c2 -i0.2 -W5 {to}"), " 0% packet loss")?;
        println!("  ping {to}: {}", text.lines().last().unwrap_or_default());
    }
    // Nobody has this address: the router says so.
    let (code, text) = site.inside("", "ping -c1 -W5 10.77.0.99")?;
    ensure!(code != 0, "{text}");
    for (words, router) in [("-4 8.8.4.80", "10.77.0.1"), ("-6 2001:4860::80", "fd77::1")] {
        let text = site.prints("", &format!("traceroute -n -q1 -w3 {words}"), router)?;
        let to = words.rsplit(' ').next().unwrap_or_default();
        let reaches = text.lines().skip(1).any(|line| line.contains(to));
        ensure!(reaches, "traceroute {words} does not reach: {text}");
        println!("  traceroute {words}: {}", text.lines().count() - 1);
    }
    Ok(())
}

/// iperf3 in all directions, by TCP and UDP, both versions.
pub(super) fn iperf(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    site.serve("iperf", "iperf3 -s")?;
    site.server_listens(5201)?;
    for words in ["", "-6", "-R", "--bidir", "-P 4", "-u -b 50M", "-u -b 50M -R", "-6 -u -b 20M"] {
        let to = if words.contains("-6") { "fd78::2" } else { "10.78.0.2" };
        let mut tries = 0;
        let text = loop {
            let (code, text) = site.inside("", &format!("iperf3 -c {to} -t 1 {words} 2>&1"))?;
            if code == 0 {
                break text;
            }
            // Between two tests the server closes its listening socket for a moment.
            tries += 1;
            ensure!(tries < 5, "iperf3 {words}: exit {code}: {}", tail(&text));
            std::thread::sleep(std::time::Duration::from_millis(200));
        };
        let of = |end: &str| text.lines().rfind(|line| line.trim_end().ends_with(end));
        let line = of("receiver").with_context(|| format!("no receiver in {text}"))?;
        println!("  iperf3 {words}: {}", line.trim());
        let rate = line.split_whitespace().skip_while(|word| !word.ends_with("ytes")).nth(1);
        let rate: f64 = rate.context("no rate")?.parse()?;
        ensure!(rate > 0.0, "iperf3 {words}: {}", tail(&text));
    }
    Ok(())
}
