//! The checksum implementation that a stack takes: the best one or the configured one, and how
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
    let stack = Stack::new(StackConfig::new([1, 2]));
    assert_eq!(stack.checksums(), Ladder::choice().to_string());
    let switches = Switches::default().with(Switch::SimdSum, false);
    let stack = Stack::new(StackConfig { switches, ..StackConfig::new([1, 2]) });
    assert_eq!(stack.checksums(), "word64");
}
