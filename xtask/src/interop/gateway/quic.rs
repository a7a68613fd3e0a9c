//! QUIC by quinn (`xtask/quic`): bytes both ways, and a fence that reads the name in a connection's
//! first packets.
//!
//! Called by: suite `gateway-programs`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::scene::Site;
use crate::interop::Workbench;

/// QUIC's hellos have to name what the resolver said.
const FENCE: &str = "\
[[rule]]
allow = [\"web.example\"]
ports = [\"8443/udp\"]
sni = \"match\"
";

pub(super) fn quinn(bench: &Workbench) -> Result<()> {
    let folder = bench.root().join("xtask/quic");
    let target = bench.root().join("target/quic");
    let mut build = Command::new("cargo");
    build.current_dir(&folder).args(["build", "--quiet", "--locked", "--target-dir"]).arg(&target);
    bench.run(&mut build, Duration::from_secs(600))?;
    std::fs::copy(target.join("debug/quic"), bench.path("quic")).context("the program")?;
    std::fs::write(bench.path("quic.toml"), FENCE)?;
    let mut site = Site::new(bench)?;
    for (name, at) in [("quic4", "8.8.4.80"), ("quic6", "[2001:4860::80]")] {
        site.serve(name, &format!("$F/quic serve {at}:8443 $F/server.pem $F/server.key"))?;
        let ready = site.wait_for(&format!("{name}.out"), "ready");
        ready.with_context(|| site.read(&format!("{name}.err")))?;
    }
    let echo = |at: &str, name: &str| {
        format!("timeout 20 $F/quic echo {at}:8443 {name} $F/ca.pem 3000000")
    };
    for (options, at) in
        [("", "8.8.4.80"), ("", "[2001:4860::80]"), ("--link rtt=40ms,loss=1%", "8.8.4.80")]
    {
        let text = site.prints(options, &echo(at, "web.example"), "echoed 3000000 bytes")?;
        println!("  quinn {options}: {}", text.lines().last().unwrap_or_default());
    }
    // The rule needs the name of the address, and the same name in the hello.
    let ask = "dig +short web.example";
    let line = format!("{ask}; {}", echo("8.8.4.80", "web.example"));
    site.prints("--policy $F/quic.toml", &line, "echoed 3000000 bytes")?;
    let line = format!("{ask}; {}", echo("8.8.4.80", "other.example"));
    let (code, text) = site.inside("--policy $F/quic.toml", &line)?;
    ensure!(code != 0 && !text.contains("echoed"), "exit {code}: {text}");
    println!("  quinn behind a rule with its name passes, and with another name does not");
    Ok(())
}
