//! The command line of the benchmarks: `core`, `outside`, `tcp`, `proof`, `devices`, `peers`, `ip`,
//! `router`, `filter`, `gateway`, `frr`, `rpc`, `lab`, `programs`, `build`, and `peer` for one side
//! alone. Called by `cargo xtask bench NAME`. Figures go to standard output, progress to standard
//! error. Exit status: 0 if rows were measured; 1 if nothing could be measured, or with `--check`
//! if a row missed its `must`; 2 for a usage error; 130 after Ctrl-C in `build`, `gateway` and
//! `frr`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use wirespeed_bench::build;
use wirespeed_bench::command_line::Programs;
use wirespeed_bench::core::{ROWS, gvisor_program, veth};
use wirespeed_bench::devices;
use wirespeed_bench::drive::Bulk;
use wirespeed_bench::filter;
use wirespeed_bench::frr;
use wirespeed_bench::gateway;
use wirespeed_bench::harness::{Bench, Spec};
use wirespeed_bench::ip;
use wirespeed_bench::lab;
use wirespeed_bench::measure::{Measurement, pin};
use wirespeed_bench::memory;
use wirespeed_bench::ours;
use wirespeed_bench::outside;
use wirespeed_bench::peers::kernel::{self, Placement, Settings as Kernel};
use wirespeed_bench::peers::latency::{Waiting, ping_pong};
use wirespeed_bench::peers::{gvisor, smoltcp};
use wirespeed_bench::programs;
use wirespeed_bench::proof;
use wirespeed_bench::readme;
use wirespeed_bench::recorded::{self, Kind};
use wirespeed_bench::report::{Machine, Report};
use wirespeed_bench::router;
use wirespeed_bench::rpc;
use wirespeed_bench::strangers;
use wirespeed_bench::tcp;

/// Measures wirespeed and its peers side by side in one run.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The main job: TCP between two stacks, against smoltcp, gVisor and the kernel.
    Core(Options),
    /// Against the outside world: TAP and the kernel, sockets for programs, connections.
    Outside(Options),
    /// Bad networks in virtual time: goodput, recovery, windows, the cost of an ACK.
    Tcp(Options),
    /// Against Linux: over our emulated link, on bad networks, under floods.
    Proof(Options),
    /// Devices: filters against libpcap's, taps, rings, interrupt mitigation, overload.
    Devices(Options),
    /// IP and UDP: both versions, fragments, gaps, broadcasts.
    Ip(Options),
    /// Forwarding: packets a second, compared with Linux, under overload and while routes change.
    Router(Options),
    /// The firewall: packets of known and of new flows, compared with nft; NAT, reloads, floods.
    Filter(Options),
    /// Gateways of namespaces: `wirespeed netns` beside pasta and slirp4netns.
    Gateway(GatewayOptions),
    /// Beside FRR and BIRD: routes by FPM and BGP, compared with a kernel's; cuts, pairs, punting.
    Frr(FrrOptions),
    /// ONC RPC: calls by the bytes of their argument, compared with libtirpc, and on a shared
    /// cable.
    Rpc(Options),
    /// The lab: the cost of sampling a stack, and whether the samples add up.
    Lab(Options),
    /// Programs in C and Python, programs written for smoltcp, and hyper in virtual time.
    Programs(Options),
    /// The build: seconds from nothing, size, and speed compared with fat LTO.
    Build(Options),
    /// Foreign peers: Linux's traffic on the fast path, bottlenecks shared with Linux, byte passes.
    Peers(Options),
    /// Runs every setting of one peer in one case and prints a line of JSON for each.
    #[command(hide = true)]
    Peer(PeerOptions),
    /// Makes traffic as standard input says: the client behind a gateway, in bench gateway.
    #[command(hide = true)]
    Load,
    /// Runs our side of a case by itself: bulk-1500, bulk-1500-v6, bulk-65535, super, flows,
    /// small-writes, ping-pong, udp-whole, udp-fragments, udp-single, udp-segments, udp-supers,
    /// udp-receive, tokio-bulk, tap-receive or tap-send (also with -loaned).
    #[command(hide = true)]
    Ours {
        case: String,
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Bytes of one write, in cases that have no fixed size.
        #[arg(long)]
        write: Option<usize>,
    },
    /// Records bulk data of Linux for `icount`: v4, v6, or flows (16 of them, IPv4).
    #[command(hide = true)]
    Record {
        what: String,
        file: PathBuf,
        #[arg(long, default_value_t = 1536)]
        segments: usize,
    },
    /// Prints the bytes an idle endpoint takes, with this many connections.
    #[command(hide = true)]
    Idle {
        connections: usize,
        /// IPv6 instead of IPv4.
        #[arg(long)]
        v6: bool,
    },
    /// Prints the bytes an idle async endpoint takes, and the percent of a core that all use.
    #[command(hide = true)]
    IdleAsync { connections: usize },
}

#[derive(Args)]
struct Options {
    /// One JSON document on standard output; the table goes to standard error.
    #[arg(long)]
    json: bool,
    /// Seven short pairs a row instead of 25; in `tcp` fewer seeds; in `build` no test suites.
    #[arg(long)]
    quick: bool,
    /// Exit with status 1 if a row misses the value that it must reach.
    #[arg(long)]
    check: bool,
    /// Put the figures of bench core into the table of this README.md.
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    readme: Option<PathBuf>,
    /// Only rows whose case contains this.
    #[arg(long, visible_alias = "case", value_name = "SUBSTRING")]
    only: Option<String>,
}

#[derive(Args)]
struct GatewayOptions {
    #[command(flatten)]
    options: Options,
    /// The `wirespeed` that is measured; `cargo xtask bench` builds it.
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// A tree of Debian sid with passt and slirp4netns; without it, debootstrap makes one, once.
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

#[derive(Args)]
struct FrrOptions {
    #[command(flatten)]
    options: Options,
    /// The `wirespeed` that is measured; `cargo xtask bench` builds it, by the profile dist.
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
}

#[derive(Args)]
struct PeerOptions {
    /// smoltcp, gvisor or kernel.
    name: String,
    /// bulk-1500, bulk-65535; for kernel: loopback, veth-gso, small-writes, blocking, spinning.
    case: String,
    /// How long each run transfers, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Core(options) => bench("core", ROWS, &options),
        Command::Outside(options) => bench("outside", outside::ROWS, &options),
        Command::Tcp(options) => bench("tcp", tcp::ROWS, &options),
        Command::Proof(options) => bench("proof", proof::ROWS, &options),
        Command::Devices(options) => bench("devices", devices::ROWS, &options),
        Command::Ip(options) => bench("ip", ip::ROWS, &options),
        Command::Router(options) => bench("router", router::ROWS, &options),
        Command::Filter(options) => bench("filter", filter::ROWS, &options),
        Command::Gateway(GatewayOptions { options, program, peers }) => {
            let programs = Programs { wirespeed: Some(program), peers };
            interruptible("gateway", gateway::ROWS, &options, programs)
        }
        Command::Frr(FrrOptions { options, program }) => {
            let programs = Programs { wirespeed: Some(program), peers: None };
            interruptible("frr", frr::ROWS, &options, programs)
        }
        Command::Load => gateway::load::run().map(|()| ExitCode::SUCCESS),
        Command::Rpc(options) => bench("rpc", rpc::ROWS, &options),
        Command::Lab(options) => bench("lab", lab::ROWS, &options),
        Command::Programs(options) => bench("programs", programs::ROWS, &options),
        Command::Build(options) => {
            interruptible("build", build::ROWS, &options, Programs::default())
        }
        Command::Peers(options) => bench("peers", &strangers::rows(), &options),
        Command::Peer(options) => peer(&options).map(|()| ExitCode::SUCCESS),
        Command::Ours { case, seconds, write } => {
            ours(&case, seconds, write).map(|()| ExitCode::SUCCESS)
        }
        Command::Record { what, file, segments } => {
            record(&what, &file, segments).map(|()| ExitCode::SUCCESS)
        }
        Command::Idle { connections, v6 } => {
            memory::measure_idle_endpoints(connections, v6).map(|bytes| {
                println!("{bytes}");
                ExitCode::SUCCESS
            })
        }
        Command::IdleAsync { connections } => {
            outside::measure_idle(connections).map(|(bytes, percent)| {
                println!("{bytes} {percent}");
                ExitCode::SUCCESS
            })
        }
    };
    outcome.unwrap_or_else(|why| {
        eprintln!("wirespeed-bench: {why:#}");
        ExitCode::FAILURE
    })
}

/// Like [`bench`], for rows that have to tidy up after Ctrl-C.
fn interruptible(
    name: &'static str,
    rows: &[Spec],
    options: &Options,
    programs: Programs,
) -> Result<ExitCode> {
    build::catch_interrupts()?;
    let code = bench_with(name, rows, options, programs)?;
    Ok(if build::interrupted() { ExitCode::from(130) } else { code })
}

/// Runs the rows that were asked for, and reports them.
fn bench(name: &'static str, rows: &[Spec], options: &Options) -> Result<ExitCode> {
    bench_with(name, rows, options, Programs::default())
}

/// The same, with programs that rows start.
fn bench_with(
    name: &'static str,
    rows: &[Spec],
    options: &Options,
    programs: Programs,
) -> Result<ExitCode> {
    if options.readme.is_some() && name != "core" {
        bail!("--readme is for bench core, whose figures the table shows");
    }
    let wanted = |spec: &&Spec| options.only.as_ref().is_none_or(|part| spec.case.contains(part));
    let specs: Vec<&Spec> = rows.iter().filter(wanted).collect();
    if specs.is_empty() {
        eprintln!("wirespeed-bench: --only matches none of these cases:");
        for spec in rows {
            eprintln!("  {}", spec.case);
        }
        return Ok(ExitCode::from(2));
    }
    let machine = Machine::now();
    let mut bench = Bench::new(options.quick)?;
    bench.programs = programs;
    let mut rows = Vec::with_capacity(specs.len());
    for (at, spec) in specs.iter().enumerate() {
        eprintln!("[{}/{}] {}", at + 1, specs.len(), spec.case);
        rows.push(bench.row(spec));
    }
    let report = Report { bench: name, version: env!("CARGO_PKG_VERSION"), machine, rows };
    if options.json {
        report.json(&mut io::stdout().lock())?;
        report.table(&mut io::stderr().lock())?;
    } else {
        report.table(&mut io::stdout().lock())?;
    }
    if let Some(file) = &options.readme {
        readme::update(file, &report)?;
    }
    let measured = report.rows.iter().any(|row| row.value.is_some());
    let missed = options.check && report.rows.iter().any(|row| row.missed());
    Ok(if measured && !missed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes a recording for `icount`, and prints a summary of it.
fn record(what: &str, file: &Path, segments: usize) -> Result<()> {
    let kind = match what {
        "v4" => Kind { v6: false, flows: 1 },
        "v6" => Kind { v6: true, flows: 1 },
        "flows" => Kind { v6: false, flows: 16 },
        other => bail!("no recording '{other}'; there are: v4, v6, flows"),
    };
    let recording = recorded::record(kind, segments)?;
    eprintln!("{}", recording.summary());
    std::fs::write(file, recording.bytes())?;
    Ok(())
}

/// Runs our side of one case without the other side.
fn ours(case: &str, seconds: f64, write: Option<usize>) -> Result<()> {
    let bench = Bench::new(false)?;
    pin(&[bench.cores.first])?;
    let default = Bulk::default();
    let base = Bulk { write: write.unwrap_or(default.write), ..default };
    let measured = match case {
        "bulk-1500" => ours::bulk(base, seconds),
        "bulk-1500-v6" => ours::bulk(Bulk { v6: true, ..base }, seconds),
        "bulk-65535" => ours::bulk(Bulk { mtu: 65_535, write: 64 << 10, ..base }, seconds),
        "super" => {
            let shape = Bulk { super_segments: true, link_checksums: true, ..base };
            ours::bulk(shape, seconds)
        }
        "flows" => ours::bulk(Bulk { flows: 1000, ..base }, seconds),
        "small-writes" => ours::small_writes(64, seconds),
        "ping-pong" => ours::ping_pong(64, seconds),
        other => match ip::ours(other, seconds) {
            Some(measured) => measured,
            None => outside::ours(&bench, other, seconds),
        },
    }?;
    println!("{}", serde_json::to_string(&measured)?);
    eprintln!(
        "{:.2} Gb/CPU-s, {:.1} ns a unit",
        measured.bytes as f64 * 8e-9 / measured.cpu_s,
        measured.cpu_s * 1e9 / measured.units as f64
    );
    Ok(())
}

/// Runs one case with every setting of one peer.
fn peer(options: &PeerOptions) -> Result<()> {
    let bench = Bench::new(false)?;
    let (cores, seconds) = (bench.cores, options.seconds);
    if !(0.05..=600.0).contains(&seconds) {
        bail!("--seconds {seconds}: use 0.05 to 600");
    }
    pin(&[cores.first])?;
    let mtu = if options.case == "bulk-65535" { 65535 } else { 1500 };
    match (options.name.as_str(), options.case.as_str()) {
        ("smoltcp", "bulk-1500" | "bulk-65535") => {
            each(smoltcp::candidates(mtu), |s| smoltcp::bulk(s, seconds))
        }
        ("gvisor", "bulk-1500" | "bulk-65535") => {
            let program = gvisor_program(&bench)?;
            each(gvisor::candidates(mtu, cores), |s| gvisor::bulk(program, cores, s, seconds))
        }
        ("kernel", "loopback") => {
            let settings = Placement::all(cores).into_iter().map(Kernel::bulk).collect();
            each(settings, |s| kernel::loopback(cores, s, seconds))
        }
        ("kernel", "veth-gso") => {
            let veth = veth(&bench)?;
            let settings = Placement::all(cores).into_iter().map(Kernel::bulk).collect();
            each(settings, |s| veth.bulk(cores, s, seconds))
        }
        ("kernel", "small-writes") => {
            let settings = kernel::small_write_candidates(cores);
            each(settings, |s| kernel::loopback(cores, s, seconds))
        }
        ("kernel", "blocking") => each(Waiting::blocking(cores), |w| ping_pong(cores, w, seconds)),
        ("kernel", "spinning") => each(Waiting::spinning(cores), |w| ping_pong(cores, w, seconds)),
        (name, case) => bail!(
            "no case {case} of peer {name}: use smoltcp or gvisor with bulk-1500 or bulk-65535, \
             or kernel with loopback, veth-gso, small-writes, blocking or spinning"
        ),
    }
}

/// Runs each setting and prints its line; a summary goes to standard error.
fn each<T: Copy>(settings: Vec<T>, mut run: impl FnMut(T) -> Result<Measurement>) -> Result<()> {
    for setting in settings {
        let measured = run(setting)?;
        println!("{}", serde_json::to_string(&measured)?);
        io::stdout().flush()?;
        let (gbit, units) = (measured.gbit_per_cpu_s()?, measured.units as f64 / measured.cpu_s);
        eprintln!("  {gbit:.2} Gb and {units:.0} units a CPU-second: {}", measured.settings);
    }
    Ok(())
}
