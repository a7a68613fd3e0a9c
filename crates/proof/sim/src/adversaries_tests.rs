//! One test for each misbehaviour: every law holds on a good path and on a bad one, and every byte
//! arrives that can arrive. The last tests show that the laws about adversaries can be broken.

use base::{Duration, Instant};
use device::mitigation::Threshold;
use link::{Loss, Settings};
use stack::StackConfig;

use crate::adversaries::AdversaryFlow;
use crate::adversary::AdversarySettings;
use crate::app::{Finish, Read, Script, Write};
use crate::host::{Cost, HostSettings};
use crate::misbehaviour::Misbehaviour;
use crate::scripts;
use crate::violation::Violation;
use crate::world::{ScheduledEvent, World};

const BYTES: u64 = 400_000;
const RECOVERY: Instant = Instant::from_nanos(20_000_000_000);

fn world(misbehaviour: Misbehaviour, seed: u64, path: &Settings) -> World {
    let mut world = World::new(seed, true, None);
    let host = world.add_host(HostSettings {
        stack: StackConfig::new([seed, 1]),
        clock: Duration::from_secs(1),
        own_buffers: true,
        interrupt: Threshold::EACH,
        cost: Cost::default(),
    });
    let mut config = tcp::Config::default();
    if !misbehaviour.is_survived() {
        scripts::keep_alive(&mut config);
        config.user_timeout = Some(Duration::from_secs(60));
    }
    let bytes = if misbehaviour == Misbehaviour::TinyMss { 3_000 } else { BYTES };
    let script = Script {
        writes: vec![Write::Bytes(bytes), Write::Finish],
        reads: vec![Read::ToEnd],
        finish: Finish::Close,
    };
    let adversary = AdversarySettings { misbehaviour, honest_from: RECOVERY, bytes: 5_000, seed };
    let links = (path.clone(), path.clone());
    let at = Instant::ZERO;
    world.add_adversary(AdversaryFlow { host, network: 1, links, adversary, config, script, at });
    world.schedule(RECOVERY, ScheduledEvent::Recover(Loss::Never));
    world.expect_progress(RECOVERY, Duration::from_secs(260));
    world
}

fn paths() -> [Settings; 2] {
    let good = Settings {
        rate_bps: Some(10_000_000),
        delay: Duration::from_millis(10),
        queue_bytes: 60_000,
        ..Settings::default()
    };
    let bad = Settings {
        loss: Loss::Random(0.02),
        late: 0.05,
        late_by: Duration::from_millis(15),
        duplicate: 0.02,
        ..good.clone()
    };
    [good, bad]
}

fn end(world: &mut World) -> Result<(), Violation> {
    world.run_to_end(Instant::ZERO + Duration::from_secs(3600))
}

fn holds(misbehaviour: Misbehaviour) {
    let mut misbehaved = 0;
    for path in paths() {
        for seed in 1..=8 {
            let mut world = world(misbehaviour, seed, &path);
            if let Err(violation) = end(&mut world) {
                panic!("{misbehaviour:?}, seed {seed}, {path:?}: {violation}");
            }
            misbehaved += world.misbehaviours();
        }
    }
    assert_eq!(
        misbehaved > 0,
        misbehaviour != Misbehaviour::Nothing,
        "misbehaved {misbehaved} times"
    );
}

macro_rules! misbehaviours {
    ($($test:ident $misbehaviour:ident;)*) => {
        $(#[test] fn $test() { holds(Misbehaviour::$misbehaviour); })*

        #[test]
        fn every_lie_has_its_test() {
            assert_eq!(Misbehaviour::ALL, [$(Misbehaviour::$misbehaviour),*]);
        }
    };
}

misbehaviours! {
    an_honest_peer_made_by_hand_gets_everything Nothing;
    divided_acks_gain_nothing DividedAcks;
    optimistic_acks_end OptimisticAcks;
    sack_blocks_outside_the_window_are_nothing SackOutside;
    sack_blocks_that_overlap_are_survived SackOverlapping;
    sack_blocks_inside_out_are_nothing SackInverted;
    sack_blocks_of_what_was_never_sent_are_nothing SackNeverSent;
    reneging_is_survived Reneging;
    windows_that_come_and_go_are_survived Windows;
    segments_of_one_byte_arrive TinyMss;
    timestamps_that_jump_are_survived Timestamps;
    false_dsacks_are_survived Dsack;
    silence_ends Silence;
}

#[test]
fn who_misses_bytes_is_found() {
    let [good, _] = paths();
    let mut world = world(Misbehaviour::Nothing, 1, &good);
    world.run_until(Instant::from_nanos(200_000_000)).expect("it has begun");
    world.ends[0].written += 1;
    let violation = end(&mut world).expect_err("a byte is missing");
    assert_eq!(violation.oracle, "stream", "{violation}");
}
