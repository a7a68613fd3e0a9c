//! Tests of rules on trial and their end, of rows of rules, and of refused questions.

use std::sync::Arc;

use base::{Duration, Instant, MacAddr};
use control::protocol::RuleText;
use device::mem;
use stack::route::SourceCheck;
use stack::{PortConfig, StackConfig};

use super::*;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// A router with the ports `wan` and `lan`.
fn router() -> Stack {
    let mut stack = Stack::new(StackConfig::new([1, 2]));
    for (name, address) in [("wan", "192.0.2.2/24"), ("lan", "10.0.0.1/24")] {
        let (device, end) = mem::pair(&mem::Config::default());
        // If the other end of a wire is dropped, the link goes down; so it is kept for ever.
        core::mem::forget(end);
        let addresses = vec![address.parse().expect("a network")];
        let id = stack.add_port(
            Box::new(device),
            PortConfig { mac: MacAddr([2; 6]), addresses, ..PortConfig::default() },
        );
        assert!(stack.set_port_name(id, name));
        // There is no default route.
        assert!(stack.set_source_check(id, SourceCheck::Off));
    }
    stack.set_forwarding(true);
    stack
}

fn apply(rules: &str, confirm_s: u32) -> FilterCall {
    let text = RuleText { rules: rules.to_owned(), ..RuleText::default() };
    FilterCall::Apply { text: Box::new(text), confirm_s }
}

/// The rules that the stack runs, as text.
fn run(stack: &Stack) -> Vec<String> {
    rules(stack).into_iter().map(|row| row.text).collect()
}

fn refusal(answer: &Answer) -> Option<(Refusal, &str)> {
    Some((answer.refusal, answer.error.as_deref()?))
}

#[test]
fn rules_on_trial_go_by_themselves() {
    let (mut stack, mut trial) = (router(), Trial::default());
    assert_eq!(refusal(&trial.answer(&mut stack, &apply("pass in wan", 60), at(5))), None);
    assert_eq!(run(&stack), ["pass in wan", "default block"]);
    assert_eq!(trial.next_deadline(), at(65));
    // A second trial goes back to the rules before the first trial: to none.
    assert_eq!(refusal(&trial.answer(&mut stack, &apply("pass in lan", 10), at(6))), None);
    trial.end_if_due(&mut stack, at(15));
    assert_eq!(run(&stack), ["pass in lan", "default block"]);
    trial.end_if_due(&mut stack, at(16));
    assert!(stack.filter().is_none() && trial.next_deadline() == Instant::NEVER);
    let late = trial.answer(&mut stack, &FilterCall::Confirm, at(17));
    assert!(matches!(refusal(&late), Some((Refusal::Missing, _))));
}

#[test]
fn confirmed_rules_stay_and_those_of_a_reload_too() {
    let (mut stack, mut trial) = (router(), Trial::default());
    trial.answer(&mut stack, &apply("pass in wan", 60), at(0));
    let confirmed = trial.answer(&mut stack, &FilterCall::Confirm, at(1));
    assert_eq!(refusal(&confirmed), None);
    trial.end_if_due(&mut stack, at(100));
    assert_eq!(run(&stack), ["pass in wan", "default block"]);
    // If other rules are published meanwhile, the trial ends.
    let published = Arc::clone(stack.filter().expect("rules").published());
    trial.answer(&mut stack, &apply("pass in lan", 60), at(101));
    stack.set_filter(Some(published));
    let late = trial.answer(&mut stack, &FilterCall::Confirm, at(102));
    assert!(matches!(refusal(&late), Some((Refusal::Missing, _))));
    trial.answer(&mut stack, &apply("pass in lan", 60), at(103));
    stack.set_filter(None);
    trial.end_if_due(&mut stack, at(500));
    assert!(stack.filter().is_none(), "rules on trial stayed after their time");
}

#[test]
fn mistakes_change_nothing() {
    let (mut stack, mut trial) = (router(), Trial::default());
    for (rules, confirm_s, says) in [
        ("pass in lna", 60, "did you mean `lan`?"),
        ("block from @bad", 60, "`bad`"),
        ("pass", 0, "1 to 86400"),
        ("pass", 86_401, "1 to 86400"),
    ] {
        let answer = trial.answer(&mut stack, &apply(rules, confirm_s), at(0));
        let (kind, why) = refusal(&answer).expect("a mistake");
        assert!(kind == Refusal::Wrong && why.contains(says), "{why}");
        assert!(stack.filter().is_none());
    }
    stack.set_forwarding(false);
    let answer = trial.answer(&mut stack, &apply("pass", 60), at(0));
    assert!(refusal(&answer).is_some_and(|(_, why)| why.contains("forwarded")));
}

#[test]
fn a_packet_is_explained_by_the_routes_of_the_stack() {
    let (mut stack, mut trial) = (router(), Trial::default());
    let asked_of = |stack: &Stack, asked: &str| explain::of_stack(stack, asked);
    let asked = "in wan 198.51.100.7:999 > 10.0.0.5:443 tcp syn";
    assert!(matches!(asked_of(&stack, asked), Err((Refusal::Missing, _))), "no rules");
    let rules = "block in lan label inside\npass in wan out lan tcp 443";
    trial.answer(&mut stack, &apply(rules, 60), at(0));
    let explained = asked_of(&stack, asked).expect("an answer");
    assert_eq!((explained.out_dev.as_deref(), explained.rule), (Some("lan"), Some(2)));
    let why = |at: usize| explained.steps[at].why.as_deref();
    assert_eq!((why(0), why(1)), (Some("it came by another port"), None));
    let own = asked_of(&stack, "in lan 10.0.0.9 > 192.0.2.2 icmp echo-request").expect("an answer");
    assert_eq!((own.out_dev.as_deref(), own.action.as_str()), (Some("self"), "block"));
    let nowhere = asked_of(&stack, "in lan 10.0.0.9 > 203.0.113.1 icmp 8").expect("an answer");
    assert_eq!(nowhere.out_dev, None);
    assert!(matches!(asked_of(&stack, "nonsense"), Err((Refusal::Wrong, _))));
}

#[test]
fn what_is_asked_of_states_is_checked() {
    let (mut stack, mut trial) = (router(), Trial::default());
    trial.answer(&mut stack, &apply("pass label web\npass", 60), at(0));
    let asked = |of: Chosen| answer(&mut router(), &FilterCall::Kill { chosen: of, cursor: 0 });
    assert_eq!(
        refusal(&asked(Chosen::default())),
        None,
        "a question without any rules was refused"
    );
    let text = |text: &str| Some(text.to_owned());
    let wrong = asked(Chosen { src: text("10.0.0"), ..Chosen::default() });
    assert!(refusal(&wrong).is_some_and(|(_, why)| why.contains("not an address")));
    let wrong = asked(Chosen { in_dev: text("wna"), ..Chosen::default() });
    assert!(refusal(&wrong).is_some_and(|(kind, _)| kind == Refusal::Missing));
    assert_eq!(by_rule(&stack, "web").expect("a label").0, [0]);
    assert_eq!(by_rule(&stack, "2").expect("a number").0, [1]);
    assert!(by_rule(&stack, "3").is_err() && by_rule(&stack, "wbe").is_err());
    let cursor = u64::MAX;
    let chosen = Chosen::default();
    let beyond = answer(&mut stack, &FilterCall::States { chosen, cursor });
    assert_eq!((refusal(&beyond), beyond.next), (None, None));
    assert_eq!(mappings(&stack, u64::MAX).next, None);
}
