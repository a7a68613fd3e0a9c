//! Forwarding in bursts and packet by packet give equal results: two copies of one router get the
//! same frames and the same table changes. The frames that leave, their order, and the counters are
//! compared.

mod frames;
mod traffic;
mod twins;

use base::Counter;

use traffic::Traffic;

const TRAFFICS: u64 = 160;
const STEPS: usize = 160;

#[test]
fn forwarding_in_bursts_equals_forwarding_one_by_one() {
    // A run under a sanitizer is ten times slower and may ask for fewer rounds; the totals below
    // are asserted only in a full run.
    let fewer = std::env::var("WIRESPEED_TRAFFICS").ok().and_then(|n| n.parse().ok());
    let of = |router: &twins::Router, counter| router.stack.counters().of(counter);
    let (mut forwarded, mut in_bursts, mut whole, mut cut) = (0, 0, 0, 0);
    for seed in 0..fewer.unwrap_or(TRAFFICS) {
        let mut traffic = Traffic::new(seed);
        for _ in 0..STEPS {
            traffic.step();
        }
        let twins = traffic.finish();
        forwarded += of(&twins.on, Counter::Forwarded);
        in_bursts += of(&twins.on, Counter::ForwardedInBursts);
        whole += of(&twins.on, Counter::SuperSegmentsForwarded);
        cut += of(&twins.on, Counter::SuperSegmentsCut);
        assert_eq!(of(&twins.off, Counter::ForwardedInBursts), 0);
    }
    println!("{forwarded} forwarded, {in_bursts} of them in bursts");
    println!("{whole} super-segments forwarded whole, {cut} cut");
    if fewer.is_none() {
        assert!(forwarded > 200_000, "only {forwarded} packets were forwarded");
        assert!(in_bursts > 40_000, "only {in_bursts} of {forwarded} in bursts");
        assert!(whole > 1_000 && cut > 1_000, "{whole} super-segments whole, {cut} cut");
    }
}
