//! The rows about 100,000 routes of zebra. Called by `mod.rs`.
//!
//! The time of ours is taken by its metrics, which count routes without listing them; that of the
//! kernel by its own messages. Each is looked at every few milliseconds.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::daemons::{Bird, Frr};
use super::feed;
use super::monitor::{Event, LOOK, Monitor};
use super::router::{Metrics, Router};
use super::scene::{Control, Ground, WITHOUT_FPM, daemons, until_established, until_installed};
use super::space::{Space, until};
use super::world;
use crate::harness::{Bench, Figure, paired};
use crate::measure::median;

const ROUTES: usize = 100_000;
/// How long all of them may take.
const LIMIT: Duration = Duration::from_secs(120);
/// zebra has sent all when nothing has come for this time: it waits a second where a peer is slow.
const SILENCE: Duration = Duration::from_secs(4);
/// The least bytes of a route in a frame.
const LEAST: usize = 44;

/// Pairs of a row whose samples take seconds.
fn pairs(b: &Bench) -> usize {
    if b.is_quick { 3 } else { 7 }
}

/// zebra is told to connect at an address, to which it then sends all its routes.
fn connect(frr: &Frr<'_>, port: u16) -> Result<()> {
    frr.vtysh(&["conf t", &format!("fpm address 127.0.0.1 port {port}")]).map(drop)
}

fn disconnect(frr: &Frr<'_>) -> Result<()> {
    frr.vtysh(&["conf t", "no fpm address"]).map(drop)
}

/// A router of ours without routes takes all that zebra sends; the seconds from the first byte
/// until the last route is in its FIB.
fn taken(
    world: &super::world::World,
    ground: &Ground,
    control: &Control,
    frr: &Frr<'_>,
) -> Result<f64> {
    let config = ground.config(&control.space);
    let router = Router::start(world, &ground.space, "replayed", &config)?;
    let seconds = router.beside(|| {
        let before = Metrics::read()?.value("routes")?;
        connect(frr, 2620)?;
        let has_begun = || Ok(Metrics::read()?.value("fpm_bytes_total")? > 0);
        until("zebra sends", LIMIT, LOOK / 4, has_begun)?;
        let begun = Instant::now();
        let is_done = || {
            let now = Metrics::read()?;
            let has_all = now.value("routes")? >= before + ROUTES as u64;
            Ok(has_all && now.value("fpm_pending")? == 0)
        };
        until("the FIB has all routes", LIMIT, LOOK, is_done)?;
        Ok(begun.elapsed().as_secs_f64())
    });
    disconnect(frr)?;
    seconds
}

/// A reader that keeps nothing takes all that zebra sends; the seconds from the first byte to the
/// last.
fn discarded(control: &Control, frr: &Frr<'_>) -> Result<f64> {
    control.space.within(|| {
        let listener = TcpListener::bind(("127.0.0.1", 2621)).context("listening for zebra")?;
        listener.set_nonblocking(true)?;
        connect(frr, 2621)?;
        let mut stream = None::<TcpStream>;
        until("zebra connects", LIMIT, LOOK, || {
            stream = listener.accept().map(|(stream, _)| stream).ok();
            Ok(stream.is_some())
        })?;
        let mut stream = stream.context("nobody connected")?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(SILENCE))?;
        let (mut buffer, mut bytes, mut times) = (vec![0; 64 << 10], 0, None);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    bytes += count;
                    let now = Instant::now();
                    times = Some((times.map_or(now, |(first, _)| first), now));
                }
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    break;
                }
                Err(why) => return Err(why).context("reading from zebra"),
            }
        }
        disconnect(frr)?;
        ensure!(bytes >= ROUTES * LEAST, "zebra sent only {bytes} bytes");
        let (first, last) = times.context("zebra sent nothing")?;
        Ok((last - first).as_secs_f64())
    })
}

pub(super) fn replayed(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let (control, ground) = (Control::new()?, Ground::new()?);
    let prefixes = feed::v4(ROUTES);
    let bird = Bird::start(world, &control.provider, "replayed-bird", &feed::bird(&prefixes, &[]))?;
    let frr = daemons(world, &control.space, "")?;
    until_established(&bird)?;
    bird.ask(&["enable", "feed"])?;
    until_installed(&frr, ROUTES, 0)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let samples = paired(
        pairs(b),
        || taken(world, &ground, &control, &frr).inspect(|s| ours.push(*s)),
        || discarded(&control, &frr).inspect(|s| theirs.push(*s)),
    )?;
    let note = format!(
        "{:.2} s into our FIB, {:.2} s to a reader that keeps nothing, medians; {}; zebra connects \
         anew each time and sends the routes that bgpd gave it",
        median(&ours),
        median(&theirs),
        world.versions
    );
    Ok(Figure { value: median(&samples), samples, note })
}

/// A router with its BGP, to which BIRD announces the routes again and again.
struct Fed<'a> {
    bird: Bird<'a>,
    _frr: Frr<'a>,
}

impl<'a> Fed<'a> {
    fn start(
        world: &super::world::World,
        (space, zebra): (&'a Space, &str),
        provider: &'a Space,
        config: &str,
    ) -> Result<Fed<'a>> {
        let bird = Bird::start(world, provider, provider.name(), config)?;
        let frr = daemons(world, space, zebra)?;
        until_established(&bird)?;
        Ok(Fed { bird, _frr: frr })
    }

    fn set(&self, word: &str) -> Result<()> {
        self.bird.ask(&[word, "feed"]).map(drop)
    }
}

/// The seconds in which the routes come to a kernel, which has none of them before and after.
fn to_kernel(fed: &Fed<'_>, space: &Space) -> Result<f64> {
    space.within(|| {
        let monitor = Monitor::new()?;
        fed.set("enable")?;
        let seconds = monitor.watch(Event::Added, ROUTES, LIMIT)?;
        fed.set("disable")?;
        monitor.watch(Event::Removed, ROUTES, LIMIT)?;
        Ok(seconds)
    })
}

/// The same for our router.
fn to_ours(fed: &Fed<'_>, router: &Router<'_>) -> Result<f64> {
    router.beside(|| {
        let before = Metrics::read()?.value("routes")?;
        let count = || anyhow::Ok(Metrics::read()?.value("routes")?.saturating_sub(before));
        fed.set("enable")?;
        until("the first route comes", LIMIT, LOOK, || Ok(count()? > 0))?;
        let begun = Instant::now();
        until("all routes come", LIMIT, LOOK, || Ok(count()? >= ROUTES as u64))?;
        let seconds = begun.elapsed().as_secs_f64();
        fed.set("disable")?;
        until("all routes go", LIMIT, LOOK, || Ok(count()? == 0))?;
        Ok(seconds)
    })
}

pub(super) fn by_bgp(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let config = feed::bird(&feed::v4(ROUTES), &[]);
    let (kernel, ground, control) = (Control::new()?, Ground::new()?, Space::new("mirrors")?);
    let theirs = Fed::start(world, (&kernel.space, WITHOUT_FPM), &kernel.provider, &config)?;
    let router = ground.config_with_mirrors(&control);
    let router = Router::start(world, &ground.space, "by-bgp", &router)?;
    let fpm = "fpm address 127.0.0.1 port 2620\n";
    let ours =
        Fed::start(world, (&control, fpm), &ground.wan, &config).with_context(|| router.said())?;
    let (mut our_s, mut their_s) = (Vec::new(), Vec::new());
    let samples = paired(
        pairs(b),
        || to_ours(&ours, &router).inspect(|s| our_s.push(*s)),
        || to_kernel(&theirs, &kernel.space).inspect(|s| their_s.push(*s)),
    )?;
    let note = format!(
        "{:.2} s into our FIB, {:.2} s into the kernel's, medians; {}; our zebra writes them into \
         its kernel as well",
        median(&our_s),
        median(&their_s),
        world.versions
    );
    Ok(Figure { value: median(&samples), samples, note })
}
