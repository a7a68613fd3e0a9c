//! Rules on trial, which are removed automatically unless they are confirmed.
//!
//! Called by: `service.rs`, which keeps the trial of the first stack; the other shards follow that
//! stack. Rules that are published meanwhile end the trial, for example when the router reads its
//! file again. docs/decisions/0134-the-firewall.md.

use std::sync::Arc;

use ::filter::Published;
use ::filter::states::Timeouts;
use ::filter::text::{self, Most, Source};
use base::{Duration, Instant, Limit};
use stack::Stack;

use super::{Refused, answer, named};
use control::protocol::{Answer, FilterCall, OnTrial, Refusal, RuleText};

/// The longest trial.
const TRIAL_MAX_S: u32 = 86_400;

/// The trial, if there is one.
#[derive(Default)]
pub(in super::super) struct Trial(Option<Trying>);

struct Trying {
    before: Option<Arc<Published>>,
    tried: Arc<Published>,
    until: Instant,
}

impl Trying {
    /// Does the stack still have the rules on trial? Other rules that were published meanwhile end
    /// the trial.
    fn runs(&self, stack: &Stack) -> bool {
        stack.filter().is_some_and(|firewall| Arc::ptr_eq(firewall.published(), &self.tried))
    }

    fn on_trial(&self) -> OnTrial {
        let rules = &self.tried.rules;
        OnTrial { rules: rules.filter.len() as u64, nat: rules.nat.len() as u64 }
    }
}

impl Trial {
    pub(in super::super) fn next_deadline(&self) -> Instant {
        self.0.as_ref().map_or(Instant::NEVER, |trying| trying.until)
    }

    /// Go back to the rules before the trial, if its time is over.
    pub(in super::super) fn end_if_due(&mut self, stack: &mut Stack, now: Instant) {
        if let Some(trying) = self.0.take_if(|trying| trying.until <= now)
            && trying.runs(stack)
        {
            stack.set_filter(trying.before);
        }
    }

    pub(in super::super) fn answer(
        &mut self,
        stack: &mut Stack,
        call: &FilterCall,
        now: Instant,
    ) -> Answer {
        match call {
            FilterCall::Apply { text, confirm_s } => match self.apply(stack, text, *confirm_s, now)
            {
                Ok(on_trial) => Answer::of(on_trial),
                Err((refusal, why)) => Answer::refusal(refusal, why),
            },
            FilterCall::Confirm => match self.0.take().filter(|trying| trying.runs(stack)) {
                Some(trying) => Answer::of(trying.on_trial()),
                None => {
                    let why = "No such file or directory: no rules are on trial: the time is over, \
                               or the configuration was read again";
                    Answer::refusal(Refusal::Missing, why.to_owned())
                }
            },
            _ => answer(stack, call),
        }
    }

    fn apply(
        &mut self,
        stack: &mut Stack,
        text: &RuleText,
        confirm_s: u32,
        now: Instant,
    ) -> Result<OnTrial, Refused> {
        let wrong = |why: String| (Refusal::Wrong, format!("Invalid argument: {why}"));
        if !(1..=TRIAL_MAX_S).contains(&confirm_s) {
            return Err(wrong(format!("a trial takes 1 to {TRIAL_MAX_S} seconds")));
        }
        let names = named(stack);
        let ports: Vec<(&str, u16)> = names.iter().map(|(name, at)| (name.as_str(), *at)).collect();
        let RuleText { default, rules, nat, sets, files } = text;
        let file = |name: &str| files.get(name).cloned().ok_or("the file was not sent".to_owned());
        let most = Most {
            rules: stack.budget().of(Limit::FilterRules),
            networks: stack.budget().of(Limit::FilterSetNetworks),
        };
        let source = Source { rules, nat, default, sets };
        let mistakes = |mistakes: Vec<text::Mistake>| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            wrong(lines.join("\n"))
        };
        let rules = text::parse_within(most, &source, &ports, &file).map_err(mistakes)?;
        let misfits = ::filter::homes::misfits(&rules, stack.steering().count());
        if !misfits.is_empty() {
            return Err(mistakes(misfits));
        }
        if !stack.forwarding() {
            return Err(wrong("rules are used only while packets are forwarded".to_owned()));
        }
        let has = stack.filter().map(|firewall| Arc::clone(firewall.published()));
        let generation = has.as_ref().map_or(0, |has| has.generation).saturating_add(1);
        let tried = Published::compile(rules, Timeouts::default(), generation);
        let tried = tried.map_err(|why| wrong(why.to_string()))?;
        stack.set_filter(Some(Arc::clone(&tried)));
        // A second trial goes back to the rules before the first trial.
        let first = self
            .0
            .take()
            .filter(|trying| has.as_ref().is_some_and(|has| Arc::ptr_eq(has, &trying.tried)));
        let before = first.map_or(has, |first| first.before);
        let until = now + Duration::from_secs(confirm_s.into());
        let trying = Trying { before, tried, until };
        let on_trial = trying.on_trial();
        self.0 = Some(trying);
        Ok(on_trial)
    }
}
