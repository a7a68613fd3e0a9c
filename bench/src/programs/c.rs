//! Bulk over memory from C, through the library, beside the same in Rust: `bench/c/bulk.c` and
//! [`rust`]. Called by `mod.rs`. Both have two stacks with a driver thread each, a thread that
//! sends and one that receives by blocking calls of 128 KiB, and count the CPU time of the whole
//! process.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use net::Net;
use net::blocking::{TcpListener, TcpStream};
use nix::time::{ClockId, clock_gettime};
use stack::pair::{PairConfig, pair};

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::{Measurement, pin};

/// Bytes of a call, in both programs.
const CALL: usize = 128 * 1024;
/// What runs before the measurement begins, in both programs.
const WARM: Duration = Duration::from_millis(50);

pub(super) const ROW: Spec = spec(
    "bulk over memory from C through the library / from Rust, Gb per CPU-second",
    Better::Higher,
    0.9,
    0.98,
    "x",
    bulk,
);

/// The ratio of C to Rust.
fn bulk(b: &Bench) -> Result<Figure> {
    let program = program()?;
    pin(&b.cores.both())?;
    let c = |seconds: f64| from_c(&program, seconds);
    b.ratio(Measurement::gbit_per_cpu_s, c, rust)
}

/// The program in C, built once against the static library, which is built for it.
fn program() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|why| format!("{why:#}")));
    built.clone().map_err(|why| anyhow!(why))
}

fn build() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let capi = root.join("crates/top/capi");
    let place = root.join("target/c");
    // `make` prints what cargo prints, and standard output is the report's.
    let library = Command::new("make").args(["-s", "-C"]).arg(&capi).output();
    let library = library.context("running make (Debian package make)")?;
    ensure!(library.status.success(), "make: {}", String::from_utf8_lossy(&library.stderr));
    let program = place.join("bench-bulk");
    let mut compile = Command::new("cc");
    compile.args(["-std=c99", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-I"]);
    compile.arg(capi.join("include")).arg(root.join("bench/c/bulk.c"));
    compile.arg(place.join("libwirespeed.a"));
    compile.args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-o"]).arg(&program);
    let compiled = compile.output().context("running cc (Debian package gcc)")?;
    ensure!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
    Ok(program)
}

fn from_c(program: &Path, seconds: f64) -> Result<Measurement> {
    let output = Command::new(program).arg(seconds.to_string()).output()?;
    ensure!(output.status.success(), "bulk: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The CPU time of this process. Its other threads sleep.
fn process_cpu_s() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9)
}

/// The same in Rust.
fn rust(seconds: f64) -> Result<Measurement> {
    let (here, there) = pair(&PairConfig::new([1, 2]));
    let at = SocketAddr::new(there.addr, 5001);
    let (a, thread_a) = Net::spawn_thread(here.stack)?;
    let (b, thread_b) = Net::spawn_thread(there.stack)?;
    let listener = TcpListener::bind(&b, at)?;
    let mut client = TcpStream::connect(&a, at)?;
    let (mut server, _from) = listener.accept()?;
    let sender = thread::spawn(move || {
        let bytes = vec![0; CALL];
        while client.write(&bytes).is_ok_and(|sent| sent > 0) {}
    });

    let mut room = vec![0; CALL];
    let began = Instant::now();
    while began.elapsed() < WARM {
        let _ = server.read(&mut room)?;
    }
    let cpu_s = process_cpu_s()?;
    let (began, mut bytes) = (Instant::now(), 0);
    while began.elapsed().as_secs_f64() < seconds {
        bytes += server.read(&mut room)? as u64;
    }
    let cpu_s = process_cpu_s()? - cpu_s;
    let wall_s = began.elapsed().as_secs_f64();
    drop(server); // the sender's call fails
    sender.join().map_err(|_| anyhow!("the sending thread panicked"))?;
    thread_a.stop()?;
    thread_b.stop()?;
    Ok(Measurement { bytes, wall_s, cpu_s, ..Measurement::default() })
}
