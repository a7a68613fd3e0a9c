//! A day of requests over TCP on bad networks, in virtual time: `day http1|http2|grpc SEED HOURS`.
//! hyper or tonic serves three clients. Packets are lost, late and doubled, and every hour a link
//! is cut for up to 90 seconds. The last line has the digest of all frames: the same seed prints
//! the same line.

mod services;
mod traffic;

use std::time::{Duration, Instant};

use services::Kind;
use wirespeed_virtual_time::World;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: day http1|http2|grpc SEED HOURS";
    let [kind, seed, hours] = &arguments[..] else { return Err(usage.into()) };
    let kind = match kind.as_str() {
        "http1" => Kind::Http1,
        "http2" => Kind::Http2,
        "grpc" => Kind::Grpc,
        _ => return Err(usage.into()),
    };
    let (seed, hours): (u64, u64) = (seed.parse()?, hours.parse()?);

    let length = Duration::from_secs(hours * 3600);
    let began = Instant::now();
    let world = World::new(seed).digest(true);
    let run = world.run(async |network| traffic::run(&network, kind, seed, length).await)?;
    let tally = run.output?;
    eprintln!("{hours} hours took {:.1} s", began.elapsed().as_secs_f64());
    println!(
        "{} answered, {} failed, {} packets lost, {} frames, digest {:016x}",
        tally.answered, tally.failed, tally.lost, run.frames, run.digest
    );
    Ok(())
}
