//! The loop: one turn takes what came from the guests and from the host, and passes it on.
//!
//! Called by: whoever began the gateway. An idle gateway does not wake up.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::Waker;

use ::gateway::{Around, Outside, Ready};
use ::link::SwitchNews;
use anyhow::{Context, Result};
use base::{Duration, Instant};
use device::Device;
use device::packet::PacketError;
use outside::{Accepted, Outlet, Wake};
use policy::HostAddresses;
use policy::log::{Line, rfc3339};
use stack::{Armed, Awaited};

use super::Machine;
use super::since_1970;
use crate::beyond::Beside;
use crate::ends::End;
use crate::publish::Published;
use crate::settings::EndsWith;
use crate::wakes::{ADDRESSES, ASKING, LINK, ORDERS, OWNER, RELAY, ROUTES, SERVERS, TOOLS};

/// The interval at which a device is polled that can neither wake us nor be waited for.
const LOOK: Duration = Duration::from_millis(10);

/// For whom a gateway runs, and until when.
pub struct Owner<'a> {
    /// Readable once it has ended; `None` if that never happens.
    pub fd: Option<BorrowedFd<'a>>,
    /// Has it ended?
    pub has_ended: &'a dyn Fn() -> bool,
    /// How long data may take to leave after the end.
    pub last: Duration,
}

/// The ones that wait for an answer.
struct Asked {
    /// A tool.
    is_asked: bool,
    /// A flow for which a question was answered.
    has_answers: bool,
}

impl Machine {
    /// Pass packets on until the owner has ended, and what was sent has left.
    ///
    /// # Errors
    /// The system refuses something without which the gateway cannot go on.
    pub fn run(&mut self, owner: &Owner<'_>) -> Result<()> {
        if let Some(fd) = owner.fd {
            self.host.watch(fd, OWNER, Ready::READABLE).context("epoll refuses the owner")?;
        }
        for end in &self.ends {
            self.host.watch(end, OWNER, Ready::READABLE).context("epoll refuses an end")?;
        }
        self.orders.iter().try_for_each(|orders| orders.wait_for(&self.host))?;
        let relay = self.relay.epoll_fd();
        self.host.watch(relay, RELAY, Ready::READABLE).context("epoll refuses another epoll")?;
        let news = self.addresses.as_fd();
        self.host.watch(news, ADDRESSES, Ready::READABLE).context("epoll refuses rtnetlink")?;
        if let Some(routes) = &self.default_routes {
            self.host
                .watch(routes.as_fd(), ROUTES, Ready::READABLE)
                .context("epoll refuses rtnetlink")?;
        }
        self.watch.wait_for(&self.host)?;
        self.asking.iter().try_for_each(|asking| asking.wait_for(&self.host))?;
        if let Some(servers) = &self.servers {
            let news = servers.as_fd();
            self.host.watch(news, SERVERS, Ready::READABLE).context("epoll refuses a pipe")?;
        }
        let mut last = Instant::NEVER;
        loop {
            let now = self.now();
            self.turn(now)?;
            if self.is_cut_off() || last <= now {
                return self.end();
            }
            let is_called = std::mem::take(&mut self.owner_calls);
            if is_called && self.ends.iter().any(End::has_come) {
                return self.end();
            }
            if is_called && (owner.has_ended)() {
                if let Some(fd) = owner.fd {
                    self.host.unwatch(fd).context("epoll does not know the owner")?;
                }
                last = now + owner.last;
            }
            if last != Instant::NEVER && self.engine.flow_count() == 0 {
                return self.end();
            }
            let until = self.until(now)?.min(last);
            self.host.wait(now, until).context("epoll failed")?;
        }
    }

    /// All guests have gone, and the gateway with them.
    fn is_cut_off(&mut self) -> bool {
        let all = || self.ports_of_stack.iter().map(|&port| self.stack.device(port));
        match self.ends_with {
            EndsWith::Nothing => false,
            EndsWith::Links => all().all(|device| device.is_none_or(is_gone)),
            EndsWith::UsedLinks => {
                let is_up = all().flatten().any(Device::link_up);
                self.was_up |= is_up;
                self.was_up && !is_up
            }
        }
    }

    fn turn(&mut self, now: Instant) -> Result<()> {
        self.stack.poll_before_flush(now);
        self.policy.rules.set_now(now, since_1970().into());
        while let Some(event) = self.stack.next_event() {
            outside::event(&mut self.engine, event);
        }
        let Asked { is_asked, has_answers } = self.wake(now)?;
        if self.listening.next_deadline() <= now {
            self.follow_listeners(now);
        }
        if let Some(guests) = &mut self.guests {
            guests.turn(&mut self.stack, now);
        }
        self.routers.turn(&mut self.stack, now);
        self.accept(now);
        let (outside, policy) = (&mut self.host, &mut self.policy);
        let mut around = Around { stack: &mut self.stack, outside, policy, now };
        outside::turn(&mut self.engine, &mut around);
        if let Some(asking) = &mut self.asking
            && (has_answers || !around.policy.rules.questions().open().is_empty())
        {
            for (ends, verdict) in asking.turn(&mut around.policy.rules, now) {
                self.engine.decide(&ends, verdict, &mut around);
            }
            asking.wait_for(around.outside)?;
        }
        self.stack.flush();
        self.say();
        self.log();
        self.watch.look_at_capture();
        if is_asked {
            let (sockets, log) = ((&*self.host, &self.relay), self.watch.log_counts());
            let beyond = Beside::of(&self.engine, sockets, &self.policy.rules, log, now);
            self.watch.answer(&mut self.stack, &self.host, &beyond, now)?;
        }
        Ok(())
    }

    /// Take what woke us.
    fn wake(&mut self, now: Instant) -> Result<Asked> {
        let (mut is_asked, mut has_answers) = (self.watch.is_due(now), false);
        let mut has_orders = false;
        while let Some(wake) = self.host.next_wake() {
            match wake {
                Wake::Outside(token, ready) => outside::ready(&mut self.engine, token, ready),
                Wake::Own(OWNER, _) => self.owner_calls = true,
                Wake::Own(TOOLS, _) => is_asked = true,
                Wake::Own(SERVERS, _) => self.servers_changed(now)?,
                Wake::Own(ASKING, _) => has_answers = true,
                Wake::Own(ORDERS, _) => has_orders = true,
                Wake::Own(ADDRESSES, _) => self.addresses_changed(),
                Wake::Own(ROUTES, _) => self.routes_changed(now),
                Wake::Own(RELAY, _) => drop(self.relay.turn()),
                Wake::Own(LINK, ready) if ready.has(Ready::ERROR) => self.stack.check_links(),
                // The stack's poll took the frames; the caller asks the owner.
                Wake::Own(..) => {}
            }
        }
        if has_orders {
            self.obey()?;
        }
        Ok(Asked { is_asked, has_answers })
    }

    /// Lead clients of published ports to the guests, and those of a proxy to the engine.
    fn accept(&mut self, now: Instant) {
        let (outside, policy) = (&mut self.host, &mut self.policy);
        let mut around = Around { stack: &mut self.stack, outside, policy, now };
        while let Some(accepted) = around.outside.accept() {
            if self.proxies.contains(&accepted.listener) {
                let tcp = Outlet::Host(accepted.tcp);
                self.engine.accept_client(tcp, accepted.client, &mut around);
                continue;
            }
            let first = self.guests.as_ref().and_then(|guests| guests.first(now));
            let guests = first.as_ref().map_or(&self.program[..], std::slice::from_ref);
            match published_to(self.ports.of(accepted.listener), guests, &accepted) {
                Some(to) => {
                    let tcp = Outlet::Host(accepted.tcp);
                    self.engine.accept_published(tcp, accepted.client, to, &mut around);
                }
                None => {
                    let budget = self.engine.budget_mut();
                    self.watch.line(&not_admitted(accepted.client), budget);
                    around.outside.tcp_abort(Outlet::Host(accepted.tcp));
                }
            }
        }
    }

    /// Tell the user what is new.
    fn say(&mut self) {
        if let Some(notice) = self.host.take_notice() {
            self.messages.say(notice);
        }
        if let Some(mac) = self.switch.as_ref().and_then(SwitchNews::twice) {
            self.switch = None;
            self.messages.say(&format!(
                "two machines have the hardware address {mac}: give each its own (QEMU: -device \
                 virtio-net-pci,netdev=n,mac=52:54:00:00:00:02)"
            ));
        }
    }

    /// Log what the rules refused, and the flows that ended.
    fn log(&mut self) {
        let rules = &mut self.policy.rules;
        let counts = self.engine.counts();
        rules.set_used(
            counts.bytes_up + counts.datagram_bytes_up,
            counts.bytes_down + counts.datagram_bytes_down,
        );
        while let Some(report) = self.engine.next_report() {
            rules.ended(&report);
        }
        if rules.has_lost(self.engine.lost_reports()) {
            let left = self.engine.unreported();
            rules.forget_others(|protocol, ends| left.contains(&(protocol, *ends)));
        }
        while let Some(line) = rules.next_line() {
            self.watch.line(&line, self.engine.budget_mut());
        }
    }

    /// The rules' `host` is another set of addresses now.
    fn addresses_changed(&mut self) {
        if self.addresses.take_news() {
            let own = self.addresses.known().to_vec();
            let host = HostAddresses { own, stand_ins: self.stand_ins.clone() };
            if let Err(why) = self.policy.rules.set_host(host) {
                self.messages.say(&format!("the host's addresses do not fit: {why}"));
            }
        }
    }

    /// The host has a way out by IPv6 now, or none any more.
    fn routes_changed(&mut self, now: Instant) {
        if let Some(routes) = &mut self.default_routes
            && routes.take_news()
        {
            self.routers.set_routed(routes.is_there(), now);
        }
    }

    /// The host has other name servers, or there will be no news of them any more.
    fn servers_changed(&mut self, now: Instant) -> Result<()> {
        let Some(servers) = &mut self.servers else { return Ok(()) };
        match servers.take_news() {
            Some(newest) => drop(self.engine.set_name_servers(newest, now)),
            None => {
                self.host.unwatch(servers.as_fd()).context("epoll does not know a pipe")?;
                self.servers = None;
            }
        }
        Ok(())
    }

    /// Until when the next turn may wait, with the links' descriptors armed.
    fn until(&mut self, now: Instant) -> Result<Instant> {
        if self.engine.has_work() || self.stack.has_input() || self.host.has_work() {
            return Ok(now);
        }
        self.stack.settle();
        let own = self.stack.next_deadline().min(self.engine.next_deadline());
        let own = own.min(self.watch.next_deadline(now)).min(self.listening.next_deadline());
        let own = own.min(self.routers.next_deadline());
        let armed = self.stack.arm(Waker::noop());
        for (port, fd, awaited) in self.stack.descriptors() {
            let known = self.awaited.iter().position(|&(known, _)| known == port);
            if known.is_some_and(|at| self.awaited[at].1 == awaited) {
                continue;
            }
            let ready = match awaited {
                Awaited::Nothing => Ready::default(),
                Awaited::Frames => Ready::READABLE,
                Awaited::FramesAndRoom => Ready::READABLE.and(Ready::WRITABLE),
            };
            self.host.watch(fd.as_fd(), LINK, ready).context("epoll refuses the link")?;
            match known {
                Some(at) => self.awaited[at].1 = awaited,
                None => self.awaited.push((port, awaited)),
            }
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

/// Is the interface deleted? One without a carrier may come back.
fn is_gone(device: &dyn Device) -> bool {
    let packet = device.failure().and_then(|why| why.downcast_ref::<PacketError>());
    device.is_gone()
        || matches!(packet, Some(PacketError::Vanished { .. } | PacketError::Gone { .. }))
}

/// The line of the log about a client that may not connect.
fn not_admitted(client: SocketAddr) -> String {
    let line = Line {
        time: rfc3339(since_1970().into()),
        protocol: "tcp".to_owned(),
        source: Some(client),
        verdict: "deny".to_owned(),
        rule: "published".to_owned(),
        error: Some("the port is not published for this client".to_owned()),
        ..Line::default()
    };
    serde_json::to_string(&line).unwrap_or_default()
}

/// Where a client of a published port is led; `None` if it may not connect.
fn published_to(
    port: Option<&Published>,
    guests: &[IpAddr],
    accepted: &Accepted,
) -> Option<SocketAddr> {
    let port = port?;
    let client = accepted.client.ip().to_canonical();
    if !port.admits(client) {
        return None;
    }
    if let Some(guest) = port.guest {
        return Some(SocketAddr::new(guest, port.to));
    }
    let same = |ip: &&IpAddr| ip.is_ipv4() == client.is_ipv4();
    let ip = guests.iter().find(same).or(guests.first())?;
    Some(SocketAddr::new(*ip, port.to))
}
