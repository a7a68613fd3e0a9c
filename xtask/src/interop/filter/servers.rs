//! Transfers through states and translation: iperf3; curl and nginx, also behind `dest` and by a
//! hairpin; FTP in passive mode, without a helper.
//!
//! Called by: the suite `filter`. RFC 4787 and RFC 5382 (hairpin), RFC 959 and RFC 2428 (FTP).

use anyhow::{Context, Result, ensure};

use super::scene::{NAT, OUTSIDE_PREFIX, Site, VERSIONS, Version, config, has};
use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use crate::interop::outside::shown;
use crate::interop::router::scene::tail;

/// Bytes of the file that moves.
const FILE: usize = 5_000_000;

const OUT: &str = "pass in lan out wan label out\n";

/// TCP both ways and UDP, by iperf3: the other end sees the translated source.
pub(super) fn iperf(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench, &config(OUT, NAT))?;
    site.is_up()?;
    let _server = site.scene.server()?;
    for version in &VERSIONS {
        for (words, way) in [("", "out"), (" -R", "in"), (" -u -b 50M", "out, UDP")] {
            let to = version.outside;
            let gbit_per_s = site.scene.transfer(&format!("-c {to} -t 1{words}"))?;
            println!("  iperf3, {}, {way}: {gbit_per_s:.2} Gb/s", version.name);
        }
        let rows = site.states(&format!("proto tcp dport 5001 dst {}", version.outside))?;
        ensure!(!rows.is_empty(), "no state of {}", version.outside);
        for row in rows {
            let seen = row["reply_dst"].as_str().unwrap_or_default();
            ensure!(seen.starts_with(&outside_of(version)), "the source was seen as {row}");
        }
    }
    site.end()
}

/// The beginning of the address that a host inside has outside, as `show` writes it.
fn outside_of(version: &Version) -> String {
    match version.outside.contains(':') {
        true => format!("[{OUTSIDE_PREFIX}"),
        false => version.router.to_owned(),
    }
}

/// nginx in the foreground on port 80 of a host, with the file; returns the path of its log of
/// clients.
fn nginx(site: &Site<'_>, host: &Host<'_>, name: &str) -> Result<(Running, std::path::PathBuf)> {
    let bench = site.scene.bench;
    let (log, file) = (bench.path(&format!("{name}.log")), bench.path(&format!("{name}.conf")));
    let text = format!(
        "daemon off; master_process off; user root; error_log stderr; pid {pid};\n\
         events {{}}\n\
         http {{\n  log_format who $remote_addr;\n  access_log {log} who;\n\
         \x20 server {{ listen 80; listen [::]:80; root {root}; }}\n}}\n",
        pid = shown(&bench.path(&format!("{name}.pid")))?,
        log = shown(&log)?,
        root = shown(&bench.path("www"))?,
    );
    std::fs::write(&file, text)?;
    let running = site.start(host, name, &format!("nginx -c {}", shown(&file)?))?;
    site.listens(host, 80)?;
    Ok((running, log))
}

/// curl gets the file from this address, whole; returns the client that nginx saw.
fn fetched(site: &Site<'_>, host: &Host<'_>, url: &str, log: &std::path::Path) -> Result<String> {
    let file = shown(&site.scene.bench.path("www/file"))?.to_owned();
    let command = format!("curl -gsS -m 20 {url}/file | cmp - {file} && echo whole");
    let printed = site.said(host, &command)?;
    ensure!(printed == "whole\n", "curl {url}: {}", tail(&printed));
    let clients = std::fs::read_to_string(log)?;
    clients.lines().last().map(str::to_owned).context("nginx saw no client")
}

/// curl through NAT to nginx outside, from outside to nginx behind `dest`, and to that from inside
/// by the outside address.
pub(super) fn web(bench: &Workbench) -> Result<()> {
    std::fs::create_dir_all(bench.path("www"))?;
    bench.file("www/file", FILE)?;
    let rules = "pass in {lan, wan} to {10.0.0.2, fd00:1::2} tcp 80 label web\n".to_owned() + OUT;
    let site = Site::new(bench, &config(&rules, NAT))?;
    site.is_up()?;
    let (_outside, seen_outside) = nginx(&site, &site.scene.right, "nginx-outside")?;
    let (_inside, seen_inside) = nginx(&site, &site.server, "nginx-inside")?;
    let (client, outside) = (&site.scene.left, &site.scene.right);
    for version in &VERSIONS {
        let name = version.name;
        let url = format!("http://{}", version.url(version.outside));
        let saw = fetched(&site, client, &url, &seen_outside)?;
        let expected = outside_of(version).replace('[', "");
        ensure!(saw.starts_with(&expected), "{name}: the server outside saw {saw}");
        // Behind `dest` the server sees the client as it is.
        let url = format!("http://{}:8080", version.url(version.router));
        let saw = fetched(&site, outside, &url, &seen_inside)?;
        ensure!(saw == version.outside, "{name}: behind `dest` the server saw {saw}");
        // Answers of a hairpin have to come back through the router.
        let saw = fetched(&site, client, &url, &seen_inside)?;
        ensure!(saw != version.client, "{name}: by a hairpin the server saw {saw}");
        println!("  {name}: curl through NAT, behind `dest`, and by a hairpin from {saw}");
    }
    site.end()
}

/// Rules for FTP in passive mode: the ports of the control connection and of the server's range.
const FTP: &str = "\
pass in lan out wan to {198.51.100.2, 2001:db8:2::2} tcp {21, 50000-50009} label ftp-out
pass in wan to {10.0.0.2, fd00:1::2} tcp {21, 50000-50009} label ftp-in
pass in lan out wan icmp echo-request
pass in lan out wan icmpv6 echo-request
";
const FTP_NAT: &str = "
[nat]
rules = '''
source out wan from 10.0.0.0/8 to port
prefix out wan fd00:1::/48 to 2001:db8:f::/48
dest in wan to 198.51.100.1 tcp {21, 50000-50009} to 10.0.0.2
dest in wan to 2001:db8:2::1 tcp {21, 50000-50009} to fd00:1::2
'''
";

/// vsftpd on a host, which says `address` in answers to PASV.
fn vsftpd(site: &Site<'_>, host: &Host<'_>, name: &str, address: &str) -> Result<Running> {
    let bench = site.scene.bench;
    let (file, empty) = (bench.path(&format!("{name}.conf")), bench.path("empty"));
    std::fs::create_dir_all(&empty)?;
    let text = format!(
        "listen=NO\nlisten_ipv6=YES\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\n\
         anon_root={root}\nno_anon_password=YES\nseccomp_sandbox=NO\nisolate_network=NO\n\
         secure_chroot_dir={empty}\npasv_min_port=50000\npasv_max_port=50009\n\
         pasv_address={address}\nxferlog_enable=NO\n",
        root = shown(&bench.path("www"))?,
        empty = shown(&empty)?,
    );
    std::fs::write(&file, text)?;
    let running = site.start(host, name, &format!("vsftpd {}", shown(&file)?))?;
    site.listens(host, 21)?;
    Ok(running)
}

/// FTP in passive mode out and in, with EPSV (RFC 2428) and PASV: a range of ports in rules.
pub(super) fn ftp(bench: &Workbench) -> Result<()> {
    std::fs::create_dir_all(bench.path("www"))?;
    bench.file("www/file", FILE)?;
    let site = Site::new(bench, &config(FTP, FTP_NAT))?;
    site.is_up()?;
    let _outside = vsftpd(&site, &site.scene.right, "ftp-outside", "198.51.100.2")?;
    let _inside = vsftpd(&site, &site.server, "ftp-inside", "198.51.100.1")?;
    let file = shown(&bench.path("www/file"))?.to_owned();
    for version in &VERSIONS {
        let ways = [(&site.scene.left, version.outside), (&site.scene.right, version.router)];
        for (host, to) in ways {
            // PASV knows IPv4 alone.
            let passive = if to.contains(':') { &[""][..] } else { &["", "--disable-epsv"][..] };
            for words in passive {
                let url = format!("ftp://{}/file", version.url(to));
                let get = format!("curl -gsS -m 20 {words} {url} | cmp - {file} && echo whole");
                has(&site.said(host, &get)?, "whole")?;
            }
        }
    }
    // A port beside the range is closed by the rules.
    let beside = site.said(&site.scene.right, "curl -sS -m 1 telnet://198.51.100.1:50010")?;
    has(&beside, "timed out")?;
    site.end()
}
