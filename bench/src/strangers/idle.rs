//! Wake-ups of an idle program: `wirespeed services` over a TAP in a namespace. Called by `mod.rs`.
//! The kernel counts the voluntary context switches of all threads of the process (proc(5)); each
//! of them is one sleep.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::namespace::{enter_new_namespace, ip};

/// Rows of the table.
pub(super) const ROWS: &[Spec] =
    &[spec("wake-ups a second of idle services", Better::Lower, 1.0, 0.1, "/s", wakeups)];

const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 0, 2));

/// The time until there is no more traffic: five seconds after the kernel has used a neighbour, it
/// probes the neighbour once more.
const SETTLE: Duration = Duration::from_secs(8);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The running program; it is killed on drop.
struct Services(Child);

impl Drop for Services {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wakeups(b: &Bench) -> Result<Figure> {
    let (rounds, seconds) = if b.is_quick { (1, 10) } else { (3, 20) };
    let program = built()?;
    let measured = std::thread::spawn(move || measure(&program, rounds, seconds)).join();
    let samples = measured.map_err(|_| anyhow!("the measuring thread panicked"))??;
    Ok(Figure {
        value: samples.iter().copied().fold(0.0, f64::max),
        note: format!(
            "the highest of {rounds} measurements of {seconds} s, after an answer over TCP and one \
             over UDP; all threads; no IPv6 at the kernel's end; the program answers again after \
             each"
        ),
        samples,
    })
}

/// Measures in a thread of its own, with whose end its namespace ends.
fn measure(program: &PathBuf, rounds: usize, seconds: u64) -> Result<Vec<f64>> {
    let _namespace = enter_new_namespace()?;
    // The kernel's own IPv6 packets would wake the program, so IPv6 is turned off.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").context("disable_ipv6")?;
    let mut command = Command::new(program);
    command.args(["services", "--dev", "tap:idle0", "--addr", "10.97.0.2/24"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let services = Services(command.spawn().context("starting wirespeed services")?);
    let begun = Instant::now();
    while ip("addr add 10.97.0.1/24 dev idle0").is_err() {
        ensure!(begun.elapsed() < PATIENCE, "services made no device");
        sleep(Duration::from_millis(50));
    }
    let mut samples = Vec::new();
    for _ in 0..rounds {
        answers()?;
        sleep(SETTLE);
        let (before, begun) = (switches(services.0.id())?, Instant::now());
        sleep(Duration::from_secs(seconds));
        let woken = switches(services.0.id())?.saturating_sub(before);
        samples.push(woken as f64 / begun.elapsed().as_secs_f64());
    }
    answers()?;
    Ok(samples)
}

/// Checks that the program answers daytime over TCP and echo over UDP.
fn answers() -> Result<()> {
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect_timeout(&SocketAddr::new(OURS, 13), PATIENCE) {
            Ok(stream) => break stream,
            Err(e) if begun.elapsed() > PATIENCE => return Err(e).context("daytime over TCP"),
            Err(_) => sleep(Duration::from_millis(50)),
        }
    };
    let time = std::io::read_to_string(&mut stream).context("daytime over TCP")?;
    ensure!(time.ends_with("-UTC\r\n"), "daytime says {time:?}");
    let socket = UdpSocket::bind("10.97.0.1:0").context("a UDP socket")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send_to(b"idle", SocketAddr::new(OURS, 7))?;
    let mut room = [0; 16];
    let n = socket.recv(&mut room).context("echo over UDP")?;
    ensure!(&room[..n] == b"idle", "echo says {:?}", &room[..n]);
    Ok(())
}

/// How often the threads of a process have slept.
fn switches(pid: u32) -> Result<u64> {
    let mut all = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).context("services have ended")? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        all += line
            .context("the kernel reports no count of context switches")?
            .trim()
            .parse::<u64>()?;
    }
    Ok(all)
}

/// Builds the program `wirespeed` with this program's profile, if needed. Returns its path.
pub(crate) fn built() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let folder = own.parent().context("finding this program's folder")?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "wirespeed-cli", "--profile", profile]);
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    ensure!(status.context("starting cargo")?.success(), "wirespeed cannot be built");
    Ok(folder.join("wirespeed"))
}
