//! Records what zebra sends for a million routes, once. Called by `stream.rs`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::daemons::Bird;
use super::super::feed;
use super::super::scene::{Control, daemons, until_established, until_installed};
use super::super::space::until;
use super::super::world::World;

pub(super) const ROUTES_V4: usize = 900_000;
pub(super) const ROUTES_V6: usize = 100_000;
/// zebra has sent all when it has all routes and nothing has come for this time.
const SILENCE: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(60);

/// A stream of frames.
pub(super) struct Recording {
    pub(super) bytes: Vec<u8>,
    /// What it is, for notes.
    pub(super) what: String,
}

impl Recording {
    /// The one below `target/`, which is made if it is missing.
    ///
    /// # Errors
    /// zebra, bgpd or BIRD fails.
    pub(super) fn find(world: &World) -> Result<Recording> {
        let own = std::env::current_exe().context("finding this program")?;
        let target = own.ancestors().nth(2).context("this program has no folder")?;
        let folder = target.join("frr-recordings");
        let file = folder.join(format!("zebra-{}-{ROUTES_V4}-{ROUTES_V6}", world.zebra));
        if !file.exists() {
            eprintln!("    recording a million routes of zebra in {}, once", file.display());
            fs::create_dir_all(&folder)?;
            let part = file.with_extension("part");
            record(world, &part)?;
            fs::rename(&part, &file)?;
        }
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let what = format!(
            "a stream of zebra {}, recorded from BGP, {:.0} MB",
            world.zebra,
            bytes.len() as f64 * 1e-6
        );
        Ok(Recording { bytes, what })
    }
}

fn record(world: &World, file: &PathBuf) -> Result<()> {
    let control = Control::new()?;
    let listener = control.space.within(|| Ok(TcpListener::bind(("127.0.0.1", 2621))?))?;
    let config = feed::bird(&feed::v4(ROUTES_V4), &feed::v6(ROUTES_V6));
    let bird = Bird::start(world, &control.provider, "recorded-bird", &config)?;
    let frr = daemons(world, &control.space, "fpm address 127.0.0.1 port 2621\n")?;
    listener.set_nonblocking(true)?;
    let mut stream = None::<TcpStream>;
    until("zebra connects", LIMIT, SILENCE / 50, || {
        stream = listener.accept().map(|(stream, _)| stream).ok();
        Ok(stream.is_some())
    })?;
    let stream = stream.context("nobody connected")?;
    let reader = std::thread::spawn({
        let mut out = File::create(file)?;
        move || copy(stream, &mut out)
    });
    until_established(&bird)?;
    bird.ask(&["enable", "feed"])?;
    bird.ask(&["enable", "feed6"])?;
    until_installed(&frr, ROUTES_V4, ROUTES_V6)?;
    std::thread::sleep(2 * SILENCE);
    // The end of zebra ends the stream.
    drop(frr);
    let bytes = reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    ensure!(bytes > 40 * (ROUTES_V4 + ROUTES_V6), "zebra sent only {bytes} bytes");
    Ok(())
}

fn copy(mut stream: TcpStream, out: &mut File) -> Result<usize> {
    stream.set_nonblocking(false)?;
    let (mut buffer, mut bytes) = (vec![0; 256 << 10], 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => {
                out.write_all(&buffer[..count])?;
                bytes += count;
            }
            Err(why) if why.kind() == ErrorKind::ConnectionReset => return Ok(bytes),
            Err(why) => return Err(why).context("reading from zebra"),
        }
    }
}
