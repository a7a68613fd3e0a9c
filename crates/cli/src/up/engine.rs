//! The router in the worker: the stack with its driver's thread, the control socket, the metrics.
//!
//! Called by: `worker.rs`, whose thread everything here runs on but the driver.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration as Span, Instant as Monotone};

use anyhow::{Context, Result};
use router::config::Config;
use router::devices;
use router::http;
use router::links;
use router::live::{self, Live};
use router::metrics::{self, Program};
use router::orders::Report;
use rustix::event::PollFlags;
use wirespeed::device::Alarm;
use wirespeed::net::{DriverThread, Net, Shards};
use wirespeed::shard::Shard;
use wirespeed::{Duration, Instant, Stack, StackConfig};

use super::report;
use crate::control_service::ControlService;

/// How often the control socket is looked at while it has something to do.
const TICK: Duration = Duration::from_millis(50);
/// How often it is looked whether the last frames have left.
const DRAIN_TICK: Span = Span::from_millis(5);

/// Descriptors of devices that were granted, by port.
pub(super) type Granted = BTreeMap<String, Vec<devices::Granted>>;

/// A running router.
pub(super) struct Engine {
    shards: Shards,
    drivers: Vec<DriverThread>,
    /// As `show` has them.
    names: Vec<String>,
    live: Live,
    control: ControlService,
    /// Rung when there is news of the sockets of clients, or of DHCP's.
    alarm: Alarm,
    /// The kernel's news of links; without it the stacks look for themselves.
    link_news: Option<OwnedFd>,
    pages: Option<http::Server>,
    program: Program,
    /// Why other users cannot connect, if they were to.
    closed: Option<String>,
    /// When to look again although no descriptor is ready.
    due: Instant,
}

impl Engine {
    /// Begin without ports; `config` decides what cannot change later. `page` is the live page, if
    /// it is to be served.
    pub(super) fn begin(config: &Config, page: Option<::live::Live>) -> Result<Engine> {
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).context("the system gives no random seed")?;
        let half = |at| u64::from_le_bytes(core::array::from_fn(|i| seed[at + i]));
        let of = StackConfig { budget: config.budget(), ..StackConfig::new([half(0), half(8)]) };
        let mut control = ControlService::open("up");
        control.open_sockets();
        let closed = config.control.as_ref().and_then(|for_users| {
            let opened = control.open_for_users(Path::new(&for_users.socket));
            let why = format!("control: {}", opened.err()?);
            report::error(&why);
            Some(why)
        });
        if config.shards > 1 {
            control.have_shards();
        }
        let started = match config.shards {
            1 => Net::spawn_thread(Stack::new(of)).map(|(net, driver)| (net.into(), vec![driver])),
            count => Shards::spawn_threads(Shard::group(&of, count), &[]),
        };
        let (shards, drivers): (Shards, _) = started.context("cannot start the driver's thread")?;
        if let Some(page) = page {
            let locks_down = config.separate;
            let program = ::live::Program { locks_down, ..crate::http::program("up") };
            control.feed(page.serve(program, Some(&shards))?);
        }
        let alarm = Alarm::new().context("cannot make an event descriptor")?;
        shards.nets().iter().try_for_each(|net| net.wake_for_polled(alarm.waker().clone()))?;
        let name = |number| match number {
            0 => "router".to_owned(),
            number => format!("router.{number}"),
        };
        let names = (0..shards.nets().len()).map(name).collect();
        let version = env!("WIRESPEED_VERSION").to_owned();
        let program = Program { version, ..Program::default() };
        let live = Live::default();
        let (link_news, pages, due) = (None, None, Instant::ZERO);
        Ok(Engine {
            shards,
            drivers,
            names,
            live,
            control,
            alarm,
            link_news,
            pages,
            program,
            closed,
            due,
        })
    }

    /// Let a configuration take effect.
    pub(super) fn apply(&mut self, config: &Config, mut granted: Granted) -> Result<Report> {
        let live = &mut self.live;
        let done = self.shards.with_stacks(|stacks| {
            let count = stacks.len();
            live.apply(stacks, config, |name, port| {
                devices::adopt(port, granted.remove(name).unwrap_or_default(), count)
            })
        })?;
        let users = self.live.users();
        let admitted = config.control.iter().flat_map(|control| &control.groups);
        self.control.set_users(users, admitted.filter_map(|name| users.number(name)));
        let mut failed = report::operations(&done);
        let carried_out = done.len() - failed.len();
        failed.extend(self.closed.clone());
        self.program.applied += 1;
        self.program.failed += u64::from(!failed.is_empty());
        self.program.failures.clone_from(&failed);
        self.due = Instant::ZERO;
        let absent = self.live.absent(config);
        Ok(Report { carried_out, failed, absent }.cut())
    }

    /// Serve metrics at this socket, or no longer.
    pub(super) fn serve_metrics(&mut self, listener: Option<OwnedFd>) -> Result<()> {
        self.pages = listener.map(http::Server::new).transpose()?;
        Ok(())
    }

    /// Look at the links whenever the kernel has news of them at this socket.
    pub(super) fn hear_of_links(&mut self, news: OwnedFd, hears_all: bool) -> Result<()> {
        self.link_news = Some(news);
        self.shards.with_stacks(|stacks| {
            // This looks at what changed before, too.
            stacks[0].set_link_news(hears_all);
        })?;
        Ok(())
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
        let pages = self.pages.iter().flat_map(http::Server::descriptors);
        let alarm = (self.alarm.as_fd(), PollFlags::IN);
        let news = self.link_news.iter().map(|news| (news.as_fd(), PollFlags::IN));
        self.control.descriptors().chain(pages).chain(news).chain([alarm])
    }

    /// How long to wait for a descriptor.
    pub(super) fn patience(&self) -> Result<Option<Span>> {
        let now = self.now()?;
        let stack = (self.due != Instant::NEVER).then(|| self.due.since(now).into());
        let pages = self.pages.as_ref().and_then(http::Server::deadline);
        let pages = pages.map(|at| at.saturating_duration_since(Monotone::now()));
        Ok(stack.into_iter().chain(pages).min())
    }

    /// Do what is due, and answer who asks.
    pub(super) fn turn(&mut self) -> Result<()> {
        self.alarm.silence();
        let has_link_news = self.link_news.as_ref().is_some_and(|news| links::hear(news.as_fd()));
        let Engine { live, control, pages, program, names, .. } = self;
        self.due = self.shards.with_stacks(|stacks| {
            let now = stacks[0].now();
            if has_link_news {
                stacks[0].look_at_links();
            }
            let dhcp = live.turn_dhcp(stacks[0], |port, change| {
                report::info(&format!("port {port}: {}", live::dhcp_news(change)));
            });
            while let Some(refused) = stacks[0].take_refused_route() {
                report::warning(&refused.to_string());
            }
            control.poll(now, &mut named(names, stacks));
            if let Some(pages) = pages {
                program.refused = pages.refused();
                pages.turn(|path| match path {
                    http::Path::Metrics => metrics::page(stacks, live, program),
                    http::Path::Health => metrics::health(stacks, live, program),
                });
            }
            // While a client is being answered or watches, descriptors do not say all.
            let within = control.look_within(TICK);
            let control = if within < TICK { now + within } else { control.next_deadline() };
            dhcp.min(control)
        })?;
        Ok(())
    }

    /// Stop forwarding, let queued output leave for at most `patience`, and end.
    pub(super) fn end(mut self, patience: Duration) -> Result<()> {
        self.pages = None;
        self.control.end_feed();
        let live = &mut self.live;
        self.shards.with_stacks(|stacks| live.stop(stacks[0]))?;
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
