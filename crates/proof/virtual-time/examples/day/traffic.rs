//! The clients, their bad networks, and the hand that cuts links.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use wirespeed_virtual_time::{Link, Loss, Network, Path};

use crate::services::{Caller, Kind, serve};

const CLIENTS: usize = 3;

/// What a run counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
}

/// Random numbers of the program itself (splitmix64), so that a seed replays them too.
struct Draw(u64);

impl Draw {
    /// A time between these two.
    fn time(&mut self, from: Duration, to: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        from + (to - from).mul_f64(share)
    }
}

fn bad_path() -> Path {
    Path {
        rate_bps: Some(10_000_000),
        delay: Duration::from_millis(40).into(),
        jitter: Duration::from_millis(5).into(),
        loss: Loss::Random(0.02),
        late: 0.005,
        late_by: Duration::from_millis(30).into(),
        duplicate: 0.002,
        queue_bytes: 100_000,
        ..Path::default()
    }
}

/// Serve `CLIENTS` clients for this long.
pub(crate) async fn run(
    network: &Network,
    kind: Kind,
    seed: u64,
    length: Duration,
) -> io::Result<Tally> {
    let server = network.host("server")?;
    serve(kind, &server).await?;
    let end = Instant::now() + length;
    let (mut links, mut clients) = (Vec::new(), Vec::new());
    for number in 0..CLIENTS {
        let host = network.host(&format!("client{number}"))?;
        links.push(network.link(&host, &server, bad_path())?);
        let caller = Caller::new(kind, &host, &server);
        clients.push(host.spawn(ask(caller, Draw(seed ^ number as u64), end)));
    }
    let cutter = tokio::spawn(cut(links.clone(), Draw(!seed)));
    let mut tally = Tally::default();
    for client in clients {
        let of_client = client.await?;
        tally.answered += of_client.answered;
        tally.failed += of_client.failed;
    }
    cutter.abort();
    tally.lost = links.iter().flat_map(Link::counts).map(|count| count.lost + count.cut).sum();
    Ok(tally)
}

/// A request every 5 to 15 seconds.
async fn ask(mut caller: Caller, mut draw: Draw, end: Instant) -> Tally {
    let mut tally = Tally::default();
    for number in 0.. {
        sleep(draw.time(Duration::from_secs(5), Duration::from_secs(15))).await;
        if Instant::now() >= end {
            break;
        }
        match caller.call(number).await {
            Ok(()) => tally.answered += 1,
            Err(_) => tally.failed += 1,
        }
    }
    tally
}

/// Each hour one of the links is cut for 30 to 90 seconds.
async fn cut(links: Vec<Link>, mut draw: Draw) {
    let began = Instant::now();
    for hour in 0_u32.. {
        let at = draw.time(Duration::ZERO, Duration::from_secs(3000));
        sleep_until(began + Duration::from_secs(3600) * hour + at).await;
        let link = &links[hour as usize % links.len()];
        link.partition();
        sleep(draw.time(Duration::from_secs(30), Duration::from_secs(90))).await;
        link.repair();
    }
}
