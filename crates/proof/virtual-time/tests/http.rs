//! hyper and tonic for two hours of requests, with the code of example `day`.

use std::time::Duration;

use wirespeed_virtual_time::{Run, World};

use crate::services::Kind;
use crate::traffic::{self, Tally};

fn hours(kind: Kind, seed: u64) -> Run<Tally> {
    let length = Duration::from_secs(2 * 3600);
    let world = World::new(seed).digest(true);
    let run = world.run(async |network| traffic::run(&network, kind, seed, length).await);
    let Run { output, elapsed, frames, digest } = run.expect("it ends");
    Run { output: output.expect("no error"), elapsed, frames, digest }
}

/// Most requests are answered; those during a cut fail; the seed replays all frames.
fn check(kind: Kind) {
    let (run, again, other) = (hours(kind, 5), hours(kind, 5), hours(kind, 6));
    let Tally { answered, failed, lost } = run.output;
    assert!(answered > 1_900 && failed > 0 && failed < 40 && lost > 100, "{run:?}");
    assert_eq!((run.output, run.frames, run.digest), (again.output, again.frames, again.digest));
    assert_ne!(run.digest, other.digest);
}

#[test]
fn hyper_over_http1() {
    check(Kind::Http1);
}

#[test]
fn hyper_over_http2() {
    check(Kind::Http2);
}

#[test]
fn tonic() {
    check(Kind::Grpc);
}
