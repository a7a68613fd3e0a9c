//! Switches forwarding on and off, and watches the links of a router's ports. While packets are
//! forwarded each port is asked whether its link is up, a few times a second or when the program
//! reports a change. Routes over a port that is down carry no packet: other next hops of the prefix
//! take its share, or a route of a higher metric or of a shorter prefix takes over.
//!
//! Called by: programs, also to report changes; `poll.rs` when a look is due. A host's ports are
//! not asked. RFC 1812 section 5.2.4.3 (of routes that can be used). Counter: `link_changes`.

use base::{Counter, Duration, Instant};

use super::Bursts;
use crate::handles::PortId;
use crate::port::{Forwarded, Port};
use crate::stack::Stack;

/// How often ports are asked. A cut link is noticed within this time.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The same while the program reports link changes, in case it misses one.
pub(crate) const LOOK_WITH_NEWS: Duration = Duration::from_secs(5);

/// Start or stop watching links; links that are not watched count as up.
#[cold]
fn watch(stack: &mut Stack, on: bool) {
    // The first shard's routes are those of all.
    if stack.is_follower() {
        return;
    }
    if on {
        look(stack);
        stack.rare_timers.note(stack.forwarding.links.due);
    } else {
        stack.forwarding.links.due = Instant::NEVER;
        update(stack, |_| true);
    }
}

/// Ask all ports. The caller then sets the rare timers anew.
#[cold]
pub(crate) fn look(stack: &mut Stack) {
    let links = &mut stack.forwarding.links;
    let every = if links.has_news { LOOK_WITH_NEWS } else { LOOK_EVERY };
    links.due = stack.core.cx.now + every;
    update(stack, |port| port.device.check_link());
}

fn update(stack: &mut Stack, mut is_up: impl FnMut(&mut Port) -> bool) {
    let Stack { ports, routes, .. } = stack;
    let changes = ports.iter_mut().filter_map(|port| {
        let id = port.id.0;
        let is_up = is_up(port);
        routes.set_link(id, is_up).then_some(id)
    });
    let count = changes.count() as u64;
    if count > 0 {
        stack.core.cx.counters.add(Counter::LinkChanges, count);
        // Connections and forwarding look up their egress again.
        stack.addresses_changed();
    }
}

impl Stack {
    /// Forward packets that are not for this host to their next hop, or stop doing so. Off by
    /// default: a host drops them as `ip_not_for_us`. Programs that take connections to any address
    /// ([`Stack::tcp_listen`] of a forwarder) have precedence.
    ///
    /// While it is on, each port is asked a few times a second whether its link is up (less often
    /// with [`Stack::set_link_news`]), and no packet goes by the routes of one that is down
    /// (`inet::Routes::set_link`).
    pub fn set_forwarding(&mut self, on: bool) {
        if on != self.forwarding.on {
            watch(self, on);
        }
        self.forwarding.on = on;
        if on && self.forwarding.bursts.is_none() {
            self.forwarding.bursts = Some(Box::new(Bursts::new()));
        }
    }

    /// Are packets forwarded?
    pub fn forwarding(&self) -> bool {
        self.forwarding.on
    }

    /// Forward directed broadcasts, which are for all hosts of another port's network. Off by
    /// default (RFC 2644): attackers make floods of packets that reach a thousand hosts each.
    pub fn set_directed_broadcasts(&mut self, on: bool) {
        self.forwarding.directed_broadcasts = on;
    }

    /// Tell a host whose packet leaves by the port that it came by, to another neighbour of the
    /// host, that there is a better first hop (a redirect). On by default, while packets are
    /// forwarded.
    pub fn set_redirects(&mut self, on: bool) {
        self.forwarding.no_redirects = !on;
    }

    /// How much was forwarded by a port; `None` if there is no such port.
    pub fn forwarded(&self, port: PortId) -> Option<Forwarded> {
        self.ports.get(port.0).map(|port| port.forwarded)
    }

    /// Ask all ports at once whether their links are up, while packets are forwarded: the caller
    /// has heard that one has changed.
    pub fn look_at_links(&mut self) {
        if self.forwarding.on && !self.is_follower() {
            look(self);
            self.renew_rare_timers();
        }
    }

    /// The caller hears of all links that change, and calls [`Stack::look_at_links`] then: ports
    /// are asked every five seconds only, not four times a second. With several shards, to be
    /// called on the first.
    pub fn set_link_news(&mut self, has_news: bool) {
        self.forwarding.links.has_news = has_news;
        self.look_at_links();
    }
}
