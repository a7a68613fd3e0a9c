use proptest::prelude::*;

use super::{NOW, account, established, nothing_is_left};
use crate::pair::PairConfig;
use crate::tests::craft::Rng;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random bytes, most of them after an Ethernet header that is addressed to the stack.
    #[test]
    fn any_bytes_are_survived_and_counted(seed in any::<u64>(), kind in 0u8..4) {
        let mut rng = Rng(seed);
        let (mut bench, handle, _) = established(&PairConfig::new([1, 2]), tcp::Config::default());
        for _ in 0..20 {
            let len = rng.below(200) as usize;
            let mut frame: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
            if kind > 0 {
                let ethertype = rng.pick(&[[8, 0], [0x86, 0xdd], [8, 6], [0x81, 0]]);
                let head = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, ethertype[0], ethertype[1]];
                frame.splice(0..0, head);
                if kind > 1 && frame.len() > 15 {
                    frame[14] = rng.pick(&[0x45, 0x60, 0x46, 0x4f]);
                }
            }
            account(&mut bench, &frame, NOW);
        }
        nothing_is_left(&mut bench, &[handle], NOW);
    }
}
