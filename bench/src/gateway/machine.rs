//! Virtual machines of QEMU as clients: the same load runs inside a machine, and is told what to do
//! by the machine's second serial port. Ours serves the machine at a stream socket, as passt does.
//! Called by `contestant.rs` and `mod.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use testbed::GuestKernel;

use super::contestant::Kind;
use super::traffic::{Load, ratios, rounds, spread};
use super::world;
use super::world::World;
use crate::harness::{Bench, Figure};
use crate::measure::median;

/// What the machine does with the load, whose name is `bench`: commands and answers are lines of
/// the second serial port.
const SCRIPT: &str = "stty -F /dev/ttyS1 raw -echo
exec /bench load < /dev/ttyS1 > /dev/ttyS1
";

/// Runs a program until the end of standard input, which it gets, too.
const UNTIL_END: [&str; 4] = ["sh", "-c", "{ cat; kill 0; } | \"$@\"", "sh"];

/// Kernel and files of the machines.
pub(super) struct Image {
    kernel: GuestKernel,
    files: PathBuf,
}

impl Image {
    /// Makes the files, with `program` as the load.
    ///
    /// # Errors
    /// There is no kernel, no busybox or no `strip`.
    pub(super) fn new(program: &Path, folder: &Path) -> Result<Image> {
        let kernel = GuestKernel::find().map_err(|why| anyhow!(why))?;
        let small = folder.join("load");
        let stripped = Command::new("strip").arg("-o").arg(&small).arg(program).status();
        ensure!(stripped.context("starting strip")?.success(), "the load cannot be stripped");
        let files = kernel.files(&folder.join("machine"), SCRIPT, &[("bench", &small)]);
        Ok(Image { kernel, files: files.context("making the files of a machine")? })
    }
}

/// The command line of what serves a machine at `socket`.
pub(super) fn gateway(world: &World, kind: Kind, socket: &Path) -> Result<Vec<String>> {
    let socket = socket.display().to_string();
    let mut command = UNTIL_END.map(str::to_owned).to_vec();
    if kind == Kind::OursAtQemu {
        command.push(world.wirespeed.display().to_string());
        command.extend(["gateway".to_owned(), "--vm".to_owned(), format!("qemu:{socket}")]);
    } else {
        command.extend(world.peers()?.passt());
        command.extend(["--foreground", "--quiet", "--mtu", "65520"].map(str::to_owned));
        command.extend(["--no-map-gw", "--socket", &socket].map(str::to_owned));
    }
    Ok(command)
}

/// The command line of a machine at `socket`.
pub(super) fn client(world: &World, socket: &Path) -> Result<Vec<String>> {
    let image = world.image()?;
    let netdev = format!("stream,id=n,server=off,addr.type=unix,addr.path={}", socket.display());
    let own = ["-chardev", "stdio,id=load,signal=off", "-serial", "null", "-serial"];
    let own = own.into_iter().chain(["chardev:load", "-monitor", "none", "-netdev", &netdev]);
    let mut command = UNTIL_END.map(str::to_owned).to_vec();
    command.extend(image.kernel.qemu(&image.files));
    command.extend(own.map(str::to_owned));
    Ok(command)
}

/// Megabits a second that a machine sends and receives, ours over passt's.
pub(super) fn against_passt(b: &Bench) -> Result<Figure> {
    let kinds = &[Kind::OursAtQemu, Kind::Passt];
    let mut notes = Vec::new();
    let mut lesser: Option<Vec<f64>> = None;
    for kind in ["up", "down"] {
        let sides = rounds(b, world(b)?, kinds, Load { kind, flows: 1 })?;
        let mbps = |at: usize| sides[at].figures(|window| window.gbit_per_s() * 1e3);
        let (ours, theirs) = (mbps(0)?, mbps(1)?);
        notes.push(format!("{kind} ours {}, passt {}", spread(&ours), spread(&theirs)));
        let samples = ratios(&ours, &theirs);
        if lesser.as_ref().is_none_or(|other| median(&samples) < median(other)) {
            lesser = Some(samples);
        }
    }
    let samples = lesser.context("nothing was measured")?;
    let note = format!("Mb/s of a machine without KVM: {}", notes.join("; "));
    Ok(Figure { value: median(&samples), samples, note })
}
