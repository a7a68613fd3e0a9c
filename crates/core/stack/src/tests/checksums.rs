//! The checksum implementation that a stack uses: the best one or the configured one, and how
//! switches change it.

use base::{Switch, Switches};
use wire::checksum::Ladder;

use crate::{Stack, StackConfig};

fn told(stack: &Stack) -> &'static str {
    stack.core.cx.ladder.name()
}

#[test]
fn switches_take_the_place_of_the_rung_and_give_it_back() {
    for asked in [None, Some(Ladder::Avx512), Some(Ladder::Avx2), Some(Ladder::Byte)] {
        let best = asked.unwrap_or_else(Ladder::best);
        let mut stack = Stack::new(StackConfig { ladder: asked, ..StackConfig::new([1, 2]) });
        assert_eq!(told(&stack), best.name());
        stack.set_switch(Switch::WideSum, false);
        assert_eq!(told(&stack), best.narrow().name());
        assert_ne!(told(&stack), "avx512");
        stack.set_switch(Switch::SimdSum, false);
        assert_eq!(told(&stack), "word64");
        stack.set_switch(Switch::SimdSum, true);
        stack.set_switch(Switch::WideSum, true);
        assert_eq!(told(&stack), best.name());
    }
}

#[test]
fn a_stack_says_which_rung_it_has_and_why() {
    let stack = |ladder, off: &[Switch]| {
        let switches = off.iter().fold(Switches::default(), |all, &s| all.with(s, false));
        Stack::new(StackConfig { ladder, switches, ..StackConfig::new([1, 2]) }).checksums()
    };
    assert_eq!(stack(None, &[]), Ladder::choice().to_string());
    assert_eq!(stack(Some(Ladder::Byte), &[]), "byte (as configured)");
    // On a machine without a better implementation the switch changes nothing.
    if Ladder::best() != Ladder::Word64 {
        assert_eq!(stack(None, &[Switch::SimdSum]), "word64 (switch simd-sum is off)");
        let both = [Switch::SimdSum, Switch::WideSum];
        assert_eq!(stack(Some(Ladder::Avx512), &both), "word64 (switch simd-sum is off)");
    }
    if Ladder::best() == Ladder::Avx512 {
        assert_eq!(stack(None, &[Switch::WideSum]), "avx2 (switch wide-sum is off)");
    }
}
