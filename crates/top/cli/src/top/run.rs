//! Counts packets until a screen is due, then collects the other figures.
//!
//! Called by: `top.rs`. `traffic` counts packets, `besides` has the rest.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bpf::{Filter, Insn, Program};
use wirespeed::control::protocol::Question;

use super::besides::{Before, Besides, OfProcess};
use super::interval::Interval;
use super::limits::{AT_A_TIME, Limits};
use super::port::{Interface, PortState};
use super::switches::{Counts, Of};
use super::traffic::Traffic;
use super::view::View;
use super::{Args, Keys, Pressed};
use crate::dump::{Next, Process, Source};
use crate::running::{Contact, find};

/// Bytes that include addresses and ports, behind two VLAN tags and with IPv6.
const SNAPLEN: u32 = 96;

/// The reason why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The user, or the number of screens asked for.
    User,
    /// The source has ended.
    Source,
}

/// Packets between two checks of the keyboard, while they come without a pause.
const KEYS_EVERY: u32 = 256;

pub(super) struct Top {
    besides: Besides,
    pub(super) what: String,
    of: Of,
    before: Option<Counts>,
    /// By port: frames that were lost before they reached `top`, so far.
    lost: Vec<u64>,
    traffic: Traffic,
    begun: Instant,
}

impl Top {
    /// Begin to watch the source that the command line names.
    pub(super) fn new(args: &Args) -> Result<(Top, Box<dyn Source>)> {
        let (source, mut besides, what, of) = watched(args)?;
        // Take the initial counts.
        besides.look();
        let before = of.counts();
        let (traffic, begun) = (Traffic::default(), Instant::now());
        let top = Top { besides, what, of, before, lost: Vec::new(), traffic, begun };
        Ok((top, source))
    }

    /// Show screens until `show`, Ctrl-C, a key or the source ends it.
    pub(super) fn run(
        &mut self,
        args: &Args,
        source: &mut dyn Source,
        stop: &AtomicBool,
        mut keys: Keys,
        mut show: impl FnMut(&Interval, &View) -> Result<bool>,
    ) -> Result<Ended> {
        let delay = Duration::from_secs_f64(args.delay);
        let (mut screens, mut looks) = (0, 0_u32);
        let mut view = View { order: args.sort, ..View::default() };
        let mut shown: Option<Interval> = None;
        while !stop.load(Ordering::Relaxed) {
            let (ended, waits) = match source.next()? {
                Next::Packet(packet) => {
                    self.traffic.add(&packet);
                    (false, false)
                }
                Next::Later => (false, true),
                Next::End => (true, true),
            };
            looks = looks.wrapping_add(1);
            if self.begun.elapsed() >= delay || ended {
                screens += 1;
                let enough = args.count.is_some_and(|most| screens >= most);
                let interval = shown.insert(self.interval(source, &view));
                let asked_to_end = show(interval, &view)?;
                if ended {
                    return Ok(Ended::Source);
                } else if asked_to_end || enough {
                    break;
                }
            } else if waits || looks.is_multiple_of(KEYS_EVERY) {
                // Keys take effect before the next screen.
                match keys.pressed() {
                    Pressed::End => break,
                    Pressed::Keys(pressed) => {
                        if let Some(interval) = &shown
                            && view.press(&pressed, &interval.in_order(&view))
                        {
                            show(interval, &view)?;
                        }
                    }
                }
            }
        }
        Ok(Ended::User)
    }

    /// The figures since the last interval.
    fn interval(&mut self, source: &mut dyn Source, view: &View) -> Interval {
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        self.begun = Instant::now();
        let mut traffic = std::mem::take(&mut self.traffic);
        let looked_at = traffic.frames();
        let counted = source.counted().unwrap_or_default();
        let lost: Vec<u64> = counted.iter().map(|c| c.dropped).collect();
        let before = std::mem::replace(&mut self.lost, lost);
        let lost = self.lost.iter().enumerate();
        traffic.stand_for(
            &lost.map(|(n, l)| l.saturating_sub(*before.get(n).unwrap_or(&0))).collect::<Vec<_>>(),
        );
        let (drops, connections) = self.besides.look();
        let link = self.besides.link();
        let now = self.of.counts();
        let passed = now.zip(self.before).map(|(now, before)| now.since(before));
        self.before = now;
        let ports = source.ports().into_iter().enumerate().map(|(number, port)| PortState {
            name: port.name,
            amounts: traffic.ports.get(number).copied().unwrap_or_default(),
            on_link: traffic.links.get(number).copied().unwrap_or_default(),
            link,
        });
        let mut interval = Interval {
            what: self.what.clone(),
            seconds,
            passed: traffic.frames(),
            looked_at,
            switches: passed.map(|passed| (self.of.woken_by(), passed)),
            ports: ports.collect(),
            traffic,
            drops,
            connections,
            limits: HashMap::new(),
        };
        let wanted = view.detail.into_iter().chain(interval.in_order(view));
        interval.limits = self.besides.limits(wanted.take(AT_A_TIME).collect());
        interval
    }
}

/// The source that the command line names: its packets, its other figures, its description, and
/// whose context switches count.
fn watched(args: &Args) -> Result<(Box<dyn Source>, Besides, String, Of)> {
    let everything = Insn::new(0x06, 0, 0, SNAPLEN);
    if let Some(name) = &args.interface {
        let filter = move |_: &str, _| Ok(Filter::new(Program::new(&[everything])?));
        let source = crate::dump::interface(name, filter)?;
        let besides = Besides::Interface(Interface::new(name));
        return Ok((source, besides, format!("interface {name}"), Of::Machine));
    }
    let path = find(args.socket.as_deref(), args.pid)?;
    let process = Process::attach(path.clone(), None, SNAPLEN, |_, _| Ok(vec![everything]))?;
    let mut contact = Contact::open(path.clone())?;
    let program = contact.ask(&Question::Program)?.program;
    let program = program.context("the program does not say what it is")?;
    let what = format!("wirespeed {}, process {}", program.command, program.pid);
    let stacks = program.stacks;
    let (before, limits) = (Before::default(), Limits::begin(path)?);
    let besides = Besides::Process(Box::new(OfProcess { contact, stacks, before, limits }));
    let source: Box<dyn Source> = Box::new(process);
    Ok((source, besides, what, Of::Process(program.pid)))
}
