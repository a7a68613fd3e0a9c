//! Two copies of one stack with the same input; their visible state is compared after every step.

use base::{Counter, Instant, Owner, Switch};

use crate::pair::PairConfig;
use crate::tests::craft::Bench;
use crate::{Event, ListenConfig, ListenerHandle, Stack, TcpHandle};

/// Counters of the path (fast or slow) that segments took: only these may differ.
const HOW_FOUND: [Counter; 5] = [
    Counter::TcpPredicted,
    Counter::TcpFollowed,
    Counter::TcpStamped,
    Counter::DemuxHit,
    Counter::DemuxMiss,
];

pub(super) struct Twins {
    pub(super) on: Bench,
    pub(super) off: Bench,
    pub(super) listener: ListenerHandle,
    pub(super) now: Instant,
    /// The steps so far, printed if the copies differ.
    pub(super) log: Vec<String>,
    pub(super) seed: u64,
}

impl Twins {
    pub(super) fn new(config: &PairConfig, listen: &ListenConfig, now: Instant) -> Twins {
        let bench = |on: bool| {
            let mut config = config.clone();
            let switches = config.stack.switches.with(Switch::Predict, on);
            config.stack.switches =
                switches.with(Switch::Stamp, on).with(Switch::OutputFastPath, on);
            let mut bench = Bench::new(&config);
            let local = bench.listen_at(80);
            let listener = bench.stack.tcp_listen(local, listen.clone()).expect("free");
            bench.stack.poll(now);
            (bench, listener)
        };
        let ((on, listener), (off, same)) = (bench(true), bench(false));
        assert_eq!(listener, same);
        Twins { on, off, listener, now, log: Vec::new(), seed: 0 }
    }

    /// Makes the same call on both stacks; the results must be equal.
    pub(super) fn call<R: PartialEq + core::fmt::Debug>(
        &mut self,
        what: &str,
        mut call: impl FnMut(&mut Stack) -> R,
    ) -> R {
        self.log.push(what.to_owned());
        let (on, off) = (call(&mut self.on.stack), call(&mut self.off.stack));
        if on != off {
            self.differ(what, &on, &off);
        }
        on
    }

    pub(super) fn connect(&mut self, config: &tcp::Config) -> Option<TcpHandle> {
        let (remote, now) = (core::net::SocketAddr::new(self.on.theirs, 7), self.now);
        let connect =
            |s: &mut Stack| s.tcp_connect(remote, None, config, Owner::program(), now).ok();
        self.call("connect", connect)
    }

    /// Gives both stacks the same frame; returns `false` if the wire was full.
    pub(super) fn inject(&mut self, frame: &[u8]) -> bool {
        let (on, off) = (self.on.inject(frame), self.off.inject(frame));
        assert_eq!(on, off);
        on
    }

    /// Polls both stacks; in every fourth traffic ACKs wait for the calls that follow.
    pub(super) fn poll(&mut self) {
        let (now, holds_acks) = (self.now, self.seed % 4 == 3);
        self.call("", |stack| match holds_acks {
            true => stack.poll_before_flush(now),
            false => stack.poll(now),
        });
    }

    /// Compares the visible state of both stacks; returns the events. With `drain`, also takes the
    /// sent frames from the wires.
    pub(super) fn compare(&mut self, handles: &[TcpHandle], drain: bool) -> Vec<Event> {
        if drain {
            let (on, off) = (self.on.sent(), self.off.sent());
            if on != off {
                self.differ("frames", &on, &off);
            }
        }
        let counters = |stack: &mut Stack| {
            let drops: Vec<_> = stack.drops().nonzero().collect();
            let counters: Vec<_> = stack
                .counters()
                .iter()
                .filter(|(c, _)| !HOW_FOUND.contains(c))
                .map(|(_, n)| n)
                .collect();
            (drops, counters, stack.next_deadline(), stack.connection_count())
        };
        self.call("", counters);
        for &handle in handles {
            self.call("", |stack| (stack.tcp_info(handle), stack.tcp_readable(handle)));
            self.call("", |stack| {
                stack.connections.get(handle).map(|p| (p.tcb.marks, p.tcb.next_deadline()))
            });
        }
        self.call("", |stack| core::iter::from_fn(|| stack.next_event()).collect::<Vec<_>>())
    }

    fn differ(&self, what: &str, on: &dyn core::fmt::Debug, off: &dyn core::fmt::Debug) -> ! {
        let steps: Vec<_> = self.log.iter().filter(|l| !l.is_empty()).collect();
        let last = &steps[steps.len().saturating_sub(12)..];
        panic!("seed {}: {what}\n on {on:x?}\noff {off:x?}\nafter {last:#?}", self.seed);
    }
}
