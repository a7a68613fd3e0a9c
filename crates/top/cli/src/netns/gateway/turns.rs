//! The loop: one turn takes what came from the program and from the host, and passes it on.
//!
//! Called by: `gateway.rs`. An idle gateway does not wake up.

use std::os::fd::AsFd;
use std::task::Waker;

use ::gateway::{Around, Ready};
use anyhow::{Context, Result};
use jail::Launcher;
use outside::Wake;
use policy::HostAddresses;
use wirespeed::{Armed, Awaited, Duration, Instant};

use super::Machine;
use crate::clock::since_1970;
use crate::output;

/// The numbers of our descriptors in the host's epoll.
const LINK: u32 = 0;
const LAUNCHER: u32 = 1;
pub(super) const TOOLS: u32 = 2;
const RELAY: u32 = 3;
const ADDRESSES: u32 = 4;

/// How long data that the program left behind may take to leave.
const LAST: Duration = Duration::from_secs(2);
/// The interval at which a device is polled that can neither wake us nor be waited for.
const LOOK: Duration = Duration::from_millis(10);

impl Machine {
    /// Pass packets on until the program has ended, and what it sent has left.
    pub(super) fn run(&mut self, launcher: &Launcher) -> Result<()> {
        if let Some(fd) = launcher.as_fd() {
            self.host.watch(fd, LAUNCHER, Ready::READABLE).context("epoll refuses the launcher")?;
        }
        let relay = self.relay.epoll_fd();
        self.host.watch(relay, RELAY, Ready::READABLE).context("epoll refuses another epoll")?;
        let news = self.addresses.as_fd();
        self.host.watch(news, ADDRESSES, Ready::READABLE).context("epoll refuses rtnetlink")?;
        self.watch.wait_for(&self.host)?;
        let mut last = Instant::NEVER;
        loop {
            let now = self.now();
            self.turn(now)?;
            if self.is_cut_off() || last <= now {
                return self.end();
            }
            if last == Instant::NEVER && launcher.has_ended() {
                if let Some(fd) = launcher.as_fd() {
                    self.host.unwatch(fd).context("epoll does not know the launcher")?;
                }
                last = now + LAST;
            }
            if last != Instant::NEVER && self.engine.flow_count() == 0 {
                return self.end();
            }
            let until = self.until(now)?.min(last);
            self.host.wait(now, until).context("epoll failed")?;
        }
    }

    /// The last process in the program's network has ended.
    fn is_cut_off(&self) -> bool {
        self.stack.device(self.port).is_none_or(|device| !device.link_up())
    }

    fn turn(&mut self, now: Instant) -> Result<()> {
        self.stack.poll_before_flush(now);
        self.policy.rules.set_now(now, since_1970().into());
        while let Some(event) = self.stack.next_event() {
            self.engine.event(event);
        }
        let mut is_asked = self.watch.is_due(now);
        while let Some(wake) = self.host.next_wake() {
            match wake {
                Wake::Outside(token, ready) => self.engine.ready(token, ready),
                Wake::Own(TOOLS, _) => is_asked = true,
                Wake::Own(ADDRESSES, _) => self.addresses_changed(),
                Wake::Own(RELAY, _) => drop(self.relay.turn()),
                Wake::Own(LINK, ready) if ready.has(Ready::ERROR) => self.stack.check_links(),
                // The stack's poll took the frames; the caller asks the launcher.
                Wake::Own(..) => {}
            }
        }
        while let Some(accepted) = self.host.accept() {
            let known = self.published.iter().find(|(id, _)| *id == accepted.listener);
            let to = known.and_then(|(_, port)| self.of_program(accepted.client.ip(), port.to));
            if let Some(to) = to {
                let (outside, policy) = (&mut self.host, &mut self.policy);
                let mut around = Around { stack: &mut self.stack, outside, policy, now };
                self.engine.accept_published(accepted.tcp, accepted.client, to, &mut around);
            }
        }
        let (outside, policy) = (&mut self.host, &mut self.policy);
        let mut around = Around { stack: &mut self.stack, outside, policy, now };
        self.engine.turn(&mut around);
        self.stack.flush();
        if let Some(notice) = self.host.take_notice() {
            output::err(&format!("wirespeed netns: {notice}"));
        }
        self.log();
        if is_asked {
            self.watch.answer(&mut self.stack, &self.host, now)?;
        }
        Ok(())
    }

    /// Log what the rules refused, and the flows that ended.
    fn log(&mut self) {
        let rules = &mut self.policy.rules;
        while let Some(report) = self.engine.next_report() {
            rules.ended(&report);
        }
        if rules.has_lost(self.engine.lost_reports()) {
            let left = self.engine.unreported();
            rules.forget_others(|protocol, ends| left.contains(&(protocol, *ends)));
        }
        while let Some(line) = rules.next_line() {
            self.watch.line(&line);
        }
    }

    /// The rules' `host` is another set of addresses now.
    fn addresses_changed(&mut self) {
        if self.addresses.take_news() {
            let own = self.addresses.known().to_vec();
            let host = HostAddresses { own, stand_ins: self.stand_ins.clone() };
            if let Err(why) = self.policy.rules.set_host(host) {
                output::err(&format!("wirespeed netns: the host's addresses do not fit: {why}"));
            }
        }
    }

    /// Until when the next turn may wait, with the link's descriptor armed.
    fn until(&mut self, now: Instant) -> Result<Instant> {
        if self.engine.has_work() || self.stack.has_input() || self.host.has_work() {
            return Ok(now);
        }
        self.stack.settle();
        let own = self.stack.next_deadline().min(self.engine.next_deadline());
        let own = own.min(self.watch.next_deadline(now));
        let armed = self.stack.arm(Waker::noop());
        let known = self.stack.descriptors().next();
        if let Some((_, fd, awaited)) = known
            && self.awaited != Some(awaited)
        {
            let ready = match awaited {
                Awaited::Nothing => Ready::default(),
                Awaited::Frames => Ready::READABLE,
                Awaited::FramesAndRoom => Ready::READABLE.and(Ready::WRITABLE),
            };
            self.host.watch(fd.as_fd(), LINK, ready).context("epoll refuses the link")?;
            self.awaited = Some(awaited);
        }
        Ok(match armed {
            Armed::Ready => now,
            Armed::Until(at) => own.min(at),
            Armed::NotAll => own.min(now + LOOK),
            Armed::All | Armed::Descriptors => own,
        })
    }

    fn end(&mut self) -> Result<()> {
        self.log();
        self.engine.report_rest();
        self.log();
        let began = self.began;
        self.watch.finish(&mut self.stack, move || super::clock(began));
        Ok(())
    }
}
