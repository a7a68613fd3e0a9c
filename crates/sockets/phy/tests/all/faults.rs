//! smoltcp's fault injector around either side's device: losses and flipped bits do not reach the
//! programs.

use device::mem;
use smoltcp::phy::{FaultInjector, Medium};
use wirespeed_phy::{AsPhy, FromPhy};

use crate::wire::pair;
use crate::world::World;

#[test]
fn on_the_port() {
    for seed in 1..4 {
        let (a, b) = pair(Medium::Ethernet, 1_514, 64);
        let mut faulty = FaultInjector::new(a, seed);
        faulty.set_drop_chance(5);
        faulty.set_corrupt_chance(5);
        World::new(FromPhy::new(faulty).unwrap(), b).echo_tcp(0, 100_000);
    }
}

#[test]
fn on_the_device_for_smoltcp() {
    for seed in 1..4 {
        let (a, b) = mem::pair(&mem::Config::default());
        let mut faulty = FaultInjector::new(AsPhy::new(b, 1 << 20), seed);
        faulty.set_drop_chance(5);
        faulty.set_corrupt_chance(5);
        World::new(a, faulty).echo_tcp(0, 100_000);
    }
}
