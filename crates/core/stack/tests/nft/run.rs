//! Runs rule sets and flows through both sides, and counts what differs.
//!
//! Called by: `main.rs`.

use std::collections::{BTreeMap, BTreeSet};

use base::DropReason;
use filter::text;

use crate::compare::{DIFFERENCES, Differing, Outcome};
use crate::flows::{self, Flow, Step};
use crate::kernel::Kernel;
use crate::nat::{self, Published};
use crate::ours::Ours;
use crate::packets::{self, Content, Ends, Id};
use crate::random::Rng;
use crate::rules::{self, Texts};

const NFT: testbed::Need = testbed::Need::Program("nft", "nftables");

pub(crate) const CASES: &[testbed::Case] = &[
    ("rules_and_states_decide_as_those_of_nftables_do", &[NFT], filtering),
    ("addresses_are_translated_as_nftables_does", &[NFT], translation),
];

/// Flows of a rule set.
const FLOWS: u16 = 40;

fn number(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn filtering() {
    run(|rng, number| (rules::generate(rng, number), None));
}

fn translation() {
    run(|rng, number| {
        let (texts, published) = nat::generate(rng, number);
        (texts, Some(published))
    });
}

fn run(generate: impl Fn(&mut Rng, u32) -> (Texts, Option<Published>)) {
    let mut kernel = Kernel::new();
    let mut tally = Tally::default();
    let first = number("WIRESPEED_NFT_FIRST", 0);
    for number in first..first + number("WIRESPEED_NFT_SETS", 200) {
        let mut rng = Rng::new(number.into());
        let (texts, published) = generate(&mut rng, number);
        kernel.load(&texts.nft);
        let source = text::Source {
            rules: &texts.rules,
            nat: &texts.nat,
            default: &texts.default,
            sets: &texts.sets,
        };
        let mut ours = Ours::new(&source);
        let flow = |nth| flows::generate(&mut rng, number, nth, published.as_ref());
        let mut flows: Vec<Flow> = (0..FLOWS).map(flow).collect();
        // Flows without ports are alike at times, and are then one flow.
        let mut seen = BTreeSet::new();
        flows.retain(|flow| {
            flow.ends.src.port() == 0 || seen.insert((flow.ends.src, flow.ends.dst))
        });
        Exchange { kernel: &mut kernel, ours: &mut ours, number, texts: &texts, tally: &mut tally }
            .run(&mut rng, flows);
    }
    tally.finish();
}

/// What has been counted.
#[derive(Default)]
struct Tally {
    packets: u64,
    steps: u64,
    passed: u64,
    /// Steps of flows whose translated port is not the kernel's.
    chosen: u64,
    answered: u64,
    differences: BTreeMap<&'static str, u64>,
    /// How many of a kind, and the first one.
    unexplained: BTreeMap<String, (u64, String)>,
}

impl Tally {
    fn finish(&self) {
        println!(
            "{} packets in {} steps: {} passed, {} answered, {} with another port than nft's",
            self.packets, self.steps, self.passed, self.answered, self.chosen
        );
        for difference in DIFFERENCES {
            let count = self.differences.get(difference.name).copied().unwrap_or(0);
            println!("{count:6} {}: {}", difference.name, difference.reason);
        }
        for (kind, (count, first)) in &self.unexplained {
            println!("{count:6} without a reason: {kind}\n{first}");
        }
        assert!(self.unexplained.is_empty(), "differences without a reason");
    }
}

/// A flow as one side sees it: NAT makes it another one on the far side.
#[derive(Clone, Copy)]
struct View {
    near: Ends,
    far: Ends,
}

impl View {
    /// A packet of the side that began has passed: the other side knows it by these ends.
    fn learn(&mut self, outcome: &Outcome, step: &Step) {
        let is_error = matches!(step.content, Content::Error { .. });
        if let Outcome::Passed(parsed) = outcome
            && step.forth
            && !is_error
        {
            self.far = parsed.ends;
        }
    }
}

struct Exchange<'a> {
    kernel: &'a mut Kernel,
    ours: &'a mut Ours,
    number: u32,
    texts: &'a Texts,
    tally: &'a mut Tally,
}

impl Exchange<'_> {
    /// The flows take turns.
    fn run(&mut self, rng: &mut Rng, flows: Vec<Flow>) {
        let view = |flow: &Flow| View { near: flow.ends, far: flow.ends };
        let mut flows: Vec<(Flow, [View; 2])> =
            flows.into_iter().map(|flow| ([view(&flow); 2], flow)).map(|(v, f)| (f, v)).collect();
        let mut id: Id = 1;
        while !flows.is_empty() {
            // A few at a time, so that most end before others begin.
            let at = rng.below(flows.len().min(8) as u32) as usize;
            let (flow, views) = &mut flows[at];
            let Some(step) = flow.steps.pop_front() else {
                flows.remove(at);
                continue;
            };
            id = id.wrapping_add(1);
            if !self.step(flow, views, &step, id) {
                flows.remove(at);
            }
        }
    }

    /// Send a step to both sides; `false` if the flow ends here, because its states differ.
    fn step(&mut self, flow: &mut Flow, views: &mut [View; 2], step: &Step, id: Id) -> bool {
        let port = if step.forth { flow.port } else { 1 - flow.port };
        let [to_kernel, to_ours] = views.map(|view| {
            let ends = if step.forth { view.near } else { view.far.reversed() };
            packets::build(&step.content, ends, id)
        });
        let before: Vec<u64> = DropReason::ALL.iter().map(|&r| self.ours.drops(r)).collect();
        let sent = [self.kernel.send(port, &to_kernel), self.ours.send(port, &to_ours)];
        let drops: Vec<DropReason> = DropReason::ALL
            .iter()
            .zip(before)
            .filter(|&(&reason, before)| self.ours.drops(reason) > before)
            .map(|(&reason, _)| reason)
            .collect();
        self.tally.steps += 1;
        self.tally.packets += to_ours.len() as u64;
        let [kernel, ours] = [0, 1].map(|n| {
            let outcome = Outcome::of(&sent[n], step, port);
            views[n].learn(&outcome, step);
            let chosen = views[n].far.src.port();
            if step.forth { outcome.without(chosen) } else { outcome }
        });
        self.tally.chosen += u64::from(views[0].far.src.port() != views[1].far.src.port());
        flow.sent.push((step.clone(), format!("{} {drops:?}", ours.word())));
        if kernel == ours {
            let is_first = flow.sent.len() == 1 && matches!(step.content, Content::Tcp(_));
            if is_first && !matches!(ours, Outcome::Passed(_)) {
                // What follows a SYN that nobody has got would mean nothing.
                flow.steps.truncate(2);
            }
            self.tally.passed += u64::from(matches!(ours, Outcome::Passed(_)));
            self.tally.answered += u64::from(matches!(ours, Outcome::Reset(_) | Outcome::Error(_)));
            return true;
        }
        let differing =
            Differing { sent: &flow.sent, step, kernel: &kernel, ours: &ours, drops: &drops };
        if let Some(known) = DIFFERENCES.iter().find(|known| (known.is)(&differing)) {
            *self.tally.differences.entry(known.name).or_default() += 1;
            return false;
        }
        let kind = differing.kind();
        if let Some((count, _)) = self.tally.unexplained.get_mut(&kind) {
            *count += 1;
            return false;
        }
        let shown = format!(
            "set {} {:?} by port {}\n  {:?}\n  kernel {kernel:?}\n  ours   {ours:?}\n{}",
            self.number,
            flow.ends,
            flow.port,
            flow.sent,
            self.shown_rules()
        );
        self.tally.unexplained.insert(kind, (1, shown));
        false
    }

    fn shown_rules(&self) -> String {
        if std::env::var_os("WIRESPEED_NFT_SHOW").is_none() {
            return String::new();
        }
        let Texts { default, rules, nat, nft, .. } = self.texts;
        format!("default {default}\n{rules}{nat}{nft}")
    }
}
