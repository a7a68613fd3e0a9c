//! Programs with name services and event loops of their own, packages, published ports, sight, and
//! a bad network.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::scene::Site;
use crate::interop::Workbench;
use crate::interop::outside::shown;
use crate::interop::router::scene::tail;

/// Two hundred connections at once, by name.
const ASYNCIO: &str = "\
import asyncio
async def one():
    reader, writer = await asyncio.open_connection('web.example', 80)
    writer.write(b'GET / HTTP/1.0\\r\\nHost: web.example\\r\\n\\r\\n')
    text = await reader.read()
    writer.close()
    return b'hello from the server' in text
async def all():
    found = await asyncio.wait_for(asyncio.gather(*[one() for _ in range(200)]), 50)
    print('whole:', sum(found))
asyncio.run(all())
";

pub(super) fn asyncio(bench: &Workbench) -> Result<()> {
    std::fs::write(bench.path("many.py"), ASYNCIO)?;
    let site = Site::new(bench)?;
    for options in ["", "--allow web.example:80"] {
        let text = site.prints(options, "/usr/bin/python3 $F/many.py", "whole: 200")?;
        println!("  asyncio {options}: {}", text.trim());
    }
    Ok(())
}

const GO: &str = "\
package main
import (\"context\"; \"fmt\"; \"io\"; \"net\"; \"os\")
func main() {
	found, err := (&net.Resolver{PreferGo: true}).LookupHost(context.Background(), \"web.example\")
	if err != nil { fmt.Println(err); os.Exit(1) }
	to, err := net.Dial(\"tcp\", \"web.example:80\")
	if err != nil { fmt.Println(err); os.Exit(1) }
	fmt.Fprintf(to, \"GET / HTTP/1.0\\r\\nHost: web.example\\r\\n\\r\\n\")
	text, _ := io.ReadAll(to)
	fmt.Println(found, string(text))
}
";

/// Go's own resolver, which reads /etc/resolv.conf.
pub(super) fn go(bench: &Workbench) -> Result<()> {
    std::fs::create_dir(bench.path("go"))?;
    std::fs::write(bench.path("go/main.go"), GO)?;
    let mut build = std::process::Command::new("go");
    build.current_dir(bench.path("go")).env("CGO_ENABLED", "0").env("GO111MODULE", "off");
    bench.run(build.args(["build", "-o", "../lookup", "main.go"]), Duration::from_secs(300))?;
    let site = Site::new(bench)?;
    for options in ["", "--allow web.example:80"] {
        let text = site.prints(options, "$F/lookup", "hello from the server")?;
        ensure!(text.contains("8.8.4.80") && text.contains("2001:4860::80"), "{text}");
        println!("  go {options}: {}", text.lines().next().unwrap_or_default());
    }
    Ok(())
}

const JAVA: &str = "\
import java.net.*; import java.io.*;
class Main {
  public static void main(String[] a) throws Exception {
    System.out.println(java.util.Arrays.toString(InetAddress.getAllByName(\"web.example\")));
    System.out.write(new URL(\"http://web.example/\").openStream().readAllBytes());
    System.out.flush();
  }
}
";

pub(super) fn java(bench: &Workbench) -> Result<()> {
    std::fs::create_dir(bench.path("java"))?;
    std::fs::write(bench.path("java/Main.java"), JAVA)?;
    let mut build = std::process::Command::new("javac");
    let file = bench.path("java/Main.java");
    bench.run(build.args(["-d", shown(&bench.path("java"))?, shown(&file)?]), LONG)?;
    let site = Site::new(bench)?;
    let text = site.prints("", "java -cp $F/java Main", "hello from the server")?;
    println!("  java: {}", text.lines().next().unwrap_or_default());
    Ok(())
}

const LONG: Duration = Duration::from_secs(120);

/// A package and its list, at the server.
const REPOSITORY: &str = "\
set -e
cd $F; mkdir -p package/DEBIAN package/usr/share/interop
printf 'Package: interop\\nVersion: 1.0\\nArchitecture: all\\nDescription: for a test\\n\
Maintainer: Interop <interop@web.example>\\n' > package/DEBIAN/control
head -c 100000 /dev/urandom > package/usr/share/interop/data
mkdir -p www/apt; dpkg-deb -b package www/apt/interop_1.0_all.deb > /dev/null
cd www/apt; dpkg-scanpackages . 2> /dev/null | tee Packages | gzip > Packages.gz
";

/// apt with folders of the user's.
const APT: &str = "\
set -e
mkdir -p apt/etc/apt.conf.d apt/etc/preferences.d apt/lists/partial apt/cache/archives/partial
: > apt/status
echo 'deb [trusted=yes] http://web.example/apt ./' > apt/etc/sources.list
apt='apt-get -o Dir::Etc=apt/etc -o Dir::State=apt -o Dir::State::lists=lists \
  -o Dir::Cache=apt/cache -o Dir::State::status=apt/status \
  -o Acquire::Languages=none -o Acquire::Retries=2'
apt=$(echo \"$apt\" | sed \"s|=apt|=$HOME/apt|g\")
$apt update
$apt download interop
cmp interop_1.0_all.deb $F/www/apt/interop_1.0_all.deb && echo same
";

pub(super) fn apt(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench)?;
    let (code, text) = site.on_server(REPOSITORY)?;
    ensure!(code == 0, "no repository: {text}");
    for options in ["", "--allow web.example:80"] {
        let text = site.prints(options, APT, "same")?;
        ensure!(!text.contains("W:"), "{text}");
        println!("  apt-get update, download {options}: ok");
    }
    Ok(())
}

const PUBLISHED: &str = "\
daemon off; master_process off; error_log stderr; pid HOME/inner.pid;
events {}
http {
  log_format who '$remote_addr'; access_log HOME/clients.log who;
  client_body_temp_path HOME/t1; proxy_temp_path HOME/t2; fastcgi_temp_path HOME/t3;
  uwsgi_temp_path HOME/t4; scgi_temp_path HOME/t5;
  server { listen 80; listen [::]:80; root FOLDER/www; }
}
";

/// Published ports with the client's address, ports of the host, the host's address.
pub(super) fn ports(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    let folder = shown(&bench.path("home"))?.trim_end_matches("/home").to_owned();
    let text = PUBLISHED.replace("HOME", &format!("{folder}/home")).replace("FOLDER", &folder);
    std::fs::write(bench.path("inner.conf"), text)?;
    let nginx = "$WS netns -p 8081:80 -- nginx -c $F/inner.conf";
    site.keep("nginx-inside", nginx)?;
    let get = "for i in $(seq 100); do curl -gsS -m 5 URL && break; sleep 0.1; done";
    for (to, client) in [("10.77.0.2", "10.78.0.2"), ("[fd77::2]", "fd78::2")] {
        let line = get.replace("URL", &format!("http://{to}:8081/"));
        let (_, text) = site.on_server(&line)?;
        ensure!(text.contains("hello from the server"), "{to}: {}", tail(&text));
        let clients = site.read("home/clients.log");
        ensure!(clients.lines().last() == Some(client), "the log has {clients}, not {client}");
        println!("  published nginx saw {client}");
    }
    site.host_serves("")?;
    for to in ["127.0.0.1", "::1"] {
        site.prints("--to-host 8080", &format!("$PROBE tcp {to} 8080"), "reached")?;
        let (code, text) = site.inside("", &format!("$PROBE tcp {to} 8080"))?;
        ensure!(code == 9, "without --to-host: {text}");
    }
    println!("  --to-host: ok");
    let stands = "--host-address 10.0.2.77";
    site.prints(&format!("{stands} --allow host"), "$PROBE tcp 10.0.2.77 8080", "reached")?;
    site.prints("--allow host", "$PROBE tcp 10.0.2.2 8080", "reached")?;
    site.prints("--allow host", "$PROBE tcp host.wirespeed.internal 8080", "reached")?;
    for options in [stands, "--host-address 10.0.2.77 --allow public"] {
        let (code, text) = site.inside(options, "$PROBE tcp 10.0.2.77 8080")?;
        ensure!(code == 9, "{options}: {text}");
    }
    println!("  --host-address: ok");
    Ok(())
}

/// What is seen of a run from outside, while it runs and afterwards.
pub(super) fn sight(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    std::fs::File::create(bench.path("www/large"))?.set_len(1 << 30)?;
    let line = "$WS netns --capture $F/home/c.pcapng --log $F/home/flows.jsonl -- sh -c \
                'curl -sS -m 5 http://web.example/ -o first; exec curl -sS -m 9 --limit-rate 2M -o \
                /dev/null http://web.example/large'";
    site.keep("watched", line)?;
    site.wait_for("names.log", " 8.8.4.53 53")?;
    std::thread::sleep(Duration::from_secs(1));
    for (command, texts) in [
        ("show tcp", &["8.8.4.80:80", "10.0.2.100:"][..]),
        ("show", &["netns", "8.8.4.80:80"]),
        ("show --json counters", &["foreign_in"]),
        ("show limits", &["gateway_flows"]),
        ("explain --seconds 2", &["8.8.4.80:80"]),
        ("dump -c 6", &["8.8.4.80", "10.0.2.100"]),
        ("top -n 1 -b", &["8.8.4.80"]),
    ] {
        let (code, text) = site.on_host(&format!("timeout 20 $WS {command}"))?;
        let lacks = texts.iter().find(|expected| !text.contains(**expected));
        ensure!(code == 0 && lacks.is_none(), "{command}: {code}: no {lacks:?} in {text}");
        println!("  wirespeed {command}: {} lines", text.lines().count());
        if command.starts_with("explain") {
            text.lines().for_each(|line| println!("    {line}"));
        }
    }
    site.wait_for("home/flows.jsonl", "\"bytes_in\"")?;
    let ended = || Ok(!site.on_host("$WS show 2>&1")?.1.contains("8.8.4.80"));
    crate::interop::ip::until("the run ends", Duration::from_secs(20), ended)?;
    let mut complete = 0;
    for line in site.read("home/flows.jsonl").lines() {
        let line: serde_json::Value = serde_json::from_str(line).context("a line of the log")?;
        let is_large = line["bytes_in"].as_u64().is_some_and(|bytes| bytes > 2_000_000);
        if line["destination"] == "8.8.4.80:80" && is_large && line["names"][0] == "web.example" {
            complete += 1;
        }
    }
    ensure!(complete == 1, "the log: {}", site.read("home/flows.jsonl"));
    let read = "tcpdump -nr $F/home/c.pcapng 'tcp[tcpflags] & tcp-syn != 0' 2> /dev/null";
    let (_, text) = site.on_server(read)?;
    let is_there = text.contains("10.0.2.100.") && text.contains("8.8.4.80.80: Flags [S]");
    ensure!(is_there, "tcpdump reads of the capture: {}", tail(&text));
    let (_, text) = site.on_server("stat -c %a $F/home/c.pcapng $F/home/flows.jsonl")?;
    ensure!(text == "600\n600\n", "modes of capture and log: {text}");
    println!("  --capture and --log: ok");
    Ok(())
}

/// The round trip within 2 ms, and the goodput within 10 % of the rate less headers.
pub(super) fn link(bench: &Workbench) -> Result<()> {
    let mut site = Site::new(bench)?;
    site.serve("iperf", "iperf3 -s")?;
    site.server_listens(5201)?;
    let ping = "ping -c8 -i0.2 -W5 8.8.4.80";
    for (spec, rtt_ms) in [("rtt=50ms", 50.0), ("up:delay=80ms,down:delay=20ms", 100.0)] {
        let text = site.prints(&format!("--link {spec}"), ping, "rtt min/avg/max")?;
        let line = text.lines().last().unwrap_or_default();
        let least: f64 = line.split(['=', '/']).nth(4).context("no rtt")?.trim().parse()?;
        ensure!((rtt_ms..rtt_ms + 2.0).contains(&least), "{spec}: {line}");
        println!("  --link {spec}: {line}");
    }
    for (words, rate) in [("-R", 20.0), ("", 20.0)] {
        let line = format!("iperf3 -J -c 10.78.0.2 -t 4 -O 2 {words}");
        let text = site.prints("--link rate=20mbit,rtt=20ms", &line, "sum_received")?;
        let report: serde_json::Value = serde_json::from_str(&text).context("iperf3 -J")?;
        let seen = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6;
        let model = rate * 1448.0 / 1514.0;
        ensure!((model * 0.9..model * 1.1).contains(&seen), "iperf3 {words}: {seen} of {model}");
        println!("  --link rate=20mbit,rtt=20ms, iperf3 {words}: {seen:.2} of {model:.2} Mb/s");
        std::thread::sleep(Duration::from_millis(300));
    }
    let lost = "ping -c60 -i0.05 -W1 8.8.4.80";
    let (_, text) = site.inside("--link loss=30%,seed=7", lost)?;
    let (before, _) = text.split_once("% packet loss").context("no loss")?;
    let share: f64 = before.rsplit(' ').next().unwrap_or_default().parse()?;
    // Either way of an echo: 1 - 0.7 * 0.7.
    ensure!((25.0..75.0).contains(&share), "--link loss=30%: {share} %");
    println!("  --link loss=30%: {share} % of echoes both ways");
    site.prints("--link satellite", "curl -sS -m 20 https://web.example/", "hello")?;
    Ok(())
}
