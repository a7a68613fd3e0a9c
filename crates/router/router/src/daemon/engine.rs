//! The router in the worker: the stack with its driver's thread, the control socket, the metrics.
//!
//! Called by: `worker.rs`; everything here runs on its thread, except for the driver.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration as Span, Instant as Monotone};

use anyhow::{Context, Result};
use base::{Duration, Instant, Limit};
use device::Alarm;
use live::texts::{self, Texts};
use live::{Live, Whose};
use net::{DriverThread, Net, Shards};
use observe::Service;
use rustix::event::PollFlags;
use stack::shard::Shard;
use stack::{Stack, StackConfig};

use super::beyond::Daemons;
use super::notices::Notices;
use super::pauses::Pauses;
use super::report;
use crate::applied::Applied;
use crate::config::Config;
use crate::fpm::{Feed, Figures};
use crate::metrics::{self, Program};
use crate::mirror::{Mirrors, OfProgram};
use crate::orders::Report;
use crate::{devices, links};

/// How often the control socket is polled while it has something to do.
const TICK: Duration = Duration::from_millis(50);
/// The interval at which the engine checks whether the last frames have left.
const DRAIN_TICK: Span = Span::from_millis(5);

/// The time of one turn for the routes of zebra; TCP pushes back while it is not enough.
const FPM_TURN: Span = Span::from_millis(2);

/// The interval at which drops are read, and links if the kernel sends no news.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Descriptors of devices that were granted, by port.
pub(super) type Granted = BTreeMap<String, Vec<devices::Granted>>;

/// A control socket that was made for the worker, or the reason why there is none.
pub(super) struct ControlSocket {
    pub(super) listener: Option<OwnedFd>,
    pub(super) path: PathBuf,
    pub(super) for_users: bool,
    pub(super) why: Option<String>,
}

/// A running router.
pub(super) struct Engine {
    shards: Shards,
    drivers: Vec<DriverThread>,
    /// The names of the stacks for `show`.
    names: Vec<String>,
    applied: Applied,
    control: Service,
    /// Rung when there is news of the clients' sockets, or of the DHCP sockets.
    alarm: Alarm,
    /// Rung when the kernel has news of links; without it, the stacks poll their links.
    link_news: Option<OwnedFd>,
    /// Metrics and the state, for the system's sockets.
    texts: Texts,
    program: Program,
    notices: Notices,
    /// The routes of zebra.
    feed: Feed,
    /// How long they kept packets waiting.
    pauses: Pauses,
    /// Interfaces in which other programs see our ports.
    mirrors: Mirrors,
    /// Why other users cannot connect, if the configuration lets them.
    closed: Option<String>,
    /// When to look again although no descriptor is ready.
    due: Instant,
}

impl Engine {
    /// Begin without ports; `config` decides the settings that cannot change later. `page` is the
    /// live page, if it is to be served; `sockets` are for control.
    pub(super) fn begin(
        config: &Config,
        page: Option<Live>,
        sockets: Vec<ControlSocket>,
        version: &str,
    ) -> Result<Engine> {
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).context("the system gives no random seed")?;
        let half = |at| u64::from_le_bytes(core::array::from_fn(|i| seed[at + i]));
        let of =
            StackConfig { budget: config.process.budget(), ..StackConfig::new([half(0), half(8)]) };
        let mut control = Service::new("up").allow_changes();
        control.open_sockets();
        let mut closed = None;
        for ControlSocket { listener, path, for_users, why } in sockets {
            match listener {
                Some(listener) => control.serve_at(listener, &path, for_users),
                None => closed = why,
            }
        }
        if config.process.shards > 1 {
            control.have_shards();
        }
        let started = match config.process.shards {
            1 => Net::spawn_thread(Stack::new(of)).map(|(net, driver)| (net.into(), vec![driver])),
            count => Shards::spawn_threads(Shard::group(&of, count), &[]),
        };
        let (shards, drivers): (Shards, _) = started.context("cannot start the driver's thread")?;
        if let Some(page) = page {
            let locks_down = config.process.separate;
            let whose = Whose {
                command: "up".to_owned(),
                version: version.to_owned(),
                complain: report::warning,
                locks_down,
            };
            control.feed(page.serve(whose, Some(&shards))?);
        }
        let alarm = Alarm::new().context("cannot make an event descriptor")?;
        shards.nets().iter().try_for_each(|net| net.wake_for_polled(alarm.waker().clone()))?;
        let name = |number| match number {
            0 => "router".to_owned(),
            number => format!("router.{number}"),
        };
        let names = (0..shards.nets().len()).map(name).collect();
        let program = Program { version: version.to_owned(), ..Program::default() };
        let applied = Applied::default();
        let (link_news, due) = (None, Instant::ZERO);
        let texts = Texts::start()?;
        Ok(Engine {
            shards,
            drivers,
            names,
            applied,
            control,
            alarm,
            link_news,
            texts,
            notices: Notices::default(),
            feed: Feed::new(config.process.limit(Limit::Routes)),
            pauses: Pauses::default(),
            mirrors: Mirrors::default(),
            program,
            closed,
            due,
        })
    }

    /// Let a configuration take effect. The devices of the `lost` ports cannot be used any more.
    pub(super) fn apply(
        &mut self,
        config: &Config,
        mut granted: Granted,
        lost: &[String],
    ) -> Result<Report> {
        let applied = &mut self.applied;
        lost.iter().for_each(|port| applied.lose_device(port));
        let generation = |stack: &mut Stack| stack.filter().map(|has| has.published().generation);
        let generation = self.shards.nets()[0].with_stack(generation)?;
        applied.prepare(config, generation.unwrap_or(0));
        let done = self.shards.with_stacks(|stacks| {
            let count = stacks.len();
            applied.apply(stacks, config, |name, port| {
                devices::adopt(port, granted.remove(name).unwrap_or_default(), count)
            })
        })?;
        self.applied.free();
        self.feed.ports_changed();
        let (mirrors, applied) = (&mut self.mirrors, &self.applied);
        mirrors.set(config.mirrors.as_ref());
        // The first process hears of the ports before the report.
        self.shards.with_stacks(|stacks| mirrors.exchange(stacks, applied))?;
        let users = self.applied.users();
        let admitted = config.process.control.iter().flat_map(|control| &control.groups);
        self.control.set_users(users, admitted.filter_map(|name| users.number(name)));
        let mut failed = report::operations(&done);
        let carried_out = done.len() - failed.len();
        failed.extend(self.closed.clone());
        self.program.applied += 1;
        self.program.failed += u64::from(!failed.is_empty());
        self.program.failures.clone_from(&failed);
        self.due = Instant::ZERO;
        let absent = self.applied.absent(config);
        Ok(Report { carried_out, failed, absent }.cut())
    }

    /// Serve metrics at this socket, or no longer.
    pub(super) fn serve_metrics(&self, listener: Option<OwnedFd>) {
        self.texts.serve_at(listener);
    }

    /// Check the links whenever this is rung.
    pub(super) fn hear_of_links(&mut self, news: OwnedFd, hears_all: bool) -> Result<()> {
        self.link_news = Some(news);
        self.shards.with_stacks(|stacks| {
            // This also checks for changes before now.
            stacks[0].set_link_news(hears_all);
        })?;
        Ok(())
    }

    /// The first process hears of ports with mirrors at this socket.
    pub(super) fn mirrors_are_heard_at(&mut self, listener: OwnedFd) {
        self.mirrors.heard_at(listener);
    }

    /// A port has this mirror from now on, or none.
    pub(super) fn has_mirror(&mut self, port: &str, device: Option<OwnedFd>) {
        self.mirrors.has(port, device);
        self.due = Instant::ZERO;
    }

    /// Programs have given the mirror of a port these addresses, and no others.
    pub(super) fn has_addresses(&mut self, port: &str, addresses: &[OfProgram]) {
        self.mirrors.has_addresses(port, addresses);
        self.due = Instant::ZERO;
    }

    /// Are the drivers there, and do they give us the stacks?
    pub(super) fn is_alive(&self) -> bool {
        self.shards.with_stacks(|_| ()).is_ok()
    }

    fn now(&self) -> Result<Instant> {
        Ok(self.shards.nets()[0].with_stack(|stack| stack.now())?)
    }

    /// For poll(2).
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let texts = (self.texts.descriptor(), PollFlags::IN);
        // Frames for mirrors ring the alarm, too.
        let gathers =
            self.mirrors.has_gathered() && self.now().is_ok_and(|now| self.mirrors.gathers(now));
        let alarm = (!gathers).then(|| (self.alarm.as_fd(), PollFlags::IN));
        let news = self.link_news.iter().map(|news| (news.as_fd(), PollFlags::IN));
        let zebra = self.feed.descriptors().map(|socket| (socket, PollFlags::IN));
        let mirrors = self.mirrors.descriptors().filter(move |_| !gathers);
        let mirrors = mirrors.map(|device| (device, PollFlags::IN));
        let others = news.chain([texts]).chain(alarm).chain(zebra).chain(mirrors);
        self.control.descriptors().chain(others)
    }

    /// How long to wait for a descriptor.
    pub(super) fn patience(&self) -> Result<Option<Span>> {
        let now = self.now()?;
        Ok((self.due != Instant::NEVER).then(|| self.due.since(now).into()))
    }

    /// zebra has connected, unless it is connected already.
    pub(super) fn begin_fpm(&mut self, from: SocketAddr, socket: OwnedFd) -> Result<()> {
        let now = self.now()?;
        self.feed.begin(from, socket, now);
        Ok(())
    }

    /// The kernel's routes come by this socket, or not any more.
    pub(super) fn set_kernel(&mut self, socket: Option<OwnedFd>, with_fpm: bool) -> Result<()> {
        let now = self.now()?;
        self.feed.set_kernel(socket, with_fpm, now);
        Ok(())
    }

    /// The ports of the interfaces that zebra names by number.
    pub(super) fn set_interfaces(&mut self, ports: BTreeMap<u32, String>) {
        self.feed.set_interfaces(ports);
    }

    /// Take what zebra has sent, and program the stack: a few routes each time that it is locked.
    fn turn_fpm(&mut self) -> Result<Instant> {
        if self.feed.is_idle() {
            return Ok(Instant::NEVER);
        }
        let now = self.now()?;
        self.feed.read(now);
        let (feed, ports, pauses) = (&mut self.feed, self.applied.ports(), &mut self.pauses);
        let (began, nets) = (Monotone::now(), self.shards.nets());
        let waits = || nets.iter().any(Net::driver_waits);
        while feed.has_work() && began.elapsed() < FPM_TURN {
            feed.prepare();
            let batch = pauses.begin();
            let since =
                self.shards.with_stacks(|stacks| feed.program(&mut *stacks[0], ports, waits))?;
            pauses.end(batch, since, waits);
        }
        Ok(if feed.has_work() { Instant::ZERO } else { feed.due() })
    }

    /// Do all work that is due, and answer clients.
    pub(super) fn turn(&mut self) -> Result<()> {
        let fpm = self.turn_fpm()?;
        self.alarm.silence();
        self.mirrors.read();
        let has_link_news =
            self.link_news.as_ref().is_some_and(|news| links::was_rung(news.as_fd()));
        let Engine { applied, control, texts, notices, program, names, feed, mirrors, .. } = self;
        let (longest, hears_of_links) = (&self.pauses.longest, self.link_news.is_some());
        self.due = self.shards.with_stacks(|stacks| {
            let now = stacks[0].now();
            if has_link_news {
                stacks[0].look_at_links();
            }
            let dhcp = applied.turn_dhcp(stacks[0], |port, change| {
                report::info(&format!("port {port}: {change}"));
            });
            while let Some(refused) = stacks[0].take_refused_route() {
                report::warning(&refused.to_string());
            }
            let has_feed = applied.running().frr.is_some();
            let daemons = Daemons { feed: feed.at(now), mirrors, has_feed };
            control.poll_with(now, &mut named(names, stacks), &daemons);
            program.refused = texts.refused();
            texts.turn(|path| {
                let metrics::Page { status, kind, text } = match path {
                    texts::Path::Metrics => {
                        let figures = || Figures { pause: *longest, ..feed.figures() };
                        program.frr = applied.running().frr.as_ref().map(|_| figures());
                        metrics::page(stacks, applied, program, mirrors)
                    }
                    texts::Path::Health => metrics::health(stacks, applied, program),
                };
                texts::Text { status, kind, text }
            });
            let mut again = notices.look(now, stacks, applied);
            again = again.min(applied.turn_export(stacks)).min(applied.turn_pair(stacks));
            again = again.min(mirrors.exchange(stacks, applied));
            if !hears_of_links {
                again = again.min(now + LOOK_AGAIN);
            }
            // While a client is being answered or watches, waiting for descriptors is not enough.
            let within = control.look_within(TICK);
            let control = if within < TICK { now + within } else { control.next_deadline() };
            dhcp.min(control).min(again).min(fpm)
        })?;
        self.mirrors.write();
        let has_records = self.applied.encode_export();
        if self.applied.work_pair() || has_records {
            self.due = Instant::ZERO;
        }
        Ok(())
    }

    /// Stop forwarding, let queued output leave for at most `patience`, and end.
    pub(super) fn end(mut self, patience: Duration) -> Result<()> {
        self.texts.serve_at(None);
        self.control.end_feed();
        let applied = &mut self.applied;
        // Events that wait are encoded by the first turn and sent by the second.
        for _ in 0..2 {
            self.shards.with_stacks(|stacks| applied.turn_export(stacks))?;
            applied.encode_export();
        }
        self.shards.with_stacks(|stacks| applied.stop(stacks[0]))?;
        let until = Monotone::now() + Span::from(patience);
        let waits = |stack: &mut Stack| {
            stack.flush();
            stack.is_pushed_back() || stack.has_output() || stack.connection_count() > 0
        };
        let waiting = |stacks: &mut [&mut Stack]| {
            stacks.iter_mut().map(|stack| usize::from(waits(stack))).sum::<usize>()
        };
        while self.shards.with_stacks(waiting)? > 0 && Monotone::now() < until {
            std::thread::sleep(DRAIN_TICK);
        }
        let began = self.now()?;
        let (names, control) = (&self.names, &mut self.control);
        let started = Monotone::now();
        self.shards.with_stacks(|stacks| {
            let now = || began + Duration::from_nanos(started.elapsed().as_nanos() as u64);
            control.finish(now, &mut named(names, stacks));
        })?;
        let stop = |driver: DriverThread| driver.stop();
        self.drivers.into_iter().try_for_each(stop).context("the driver's thread failed")
    }
}

/// The stacks of the shards with the names that `show` has for them.
fn named<'a>(names: &'a [String], stacks: &'a mut [&mut Stack]) -> Vec<(&'a str, &'a mut Stack)> {
    let names = names.iter().map(String::as_str);
    names.zip(stacks.iter_mut().map(|stack| &mut **stack)).collect()
}
