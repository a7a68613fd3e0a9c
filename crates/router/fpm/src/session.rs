//! Bytes in, changes out.
//!
//! Called by: the router's listener. A frame is applied as one: of several messages about a route
//! the last one counts, so the pair of deletion and addition by which zebra changes a route is one
//! replacement, and the RIB sees whether it differs at all.

use crate::attributes::{Message, Messages};
use crate::change::{Change, Key, NextHops, Reachable};
use crate::counts::Counts;
use crate::frame::{Partial, Violation};
use crate::nexthop::{self, Nexthop};
use crate::route::{self, Leads, Parsed, Speaker};
use crate::table::Table;

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;

/// What zebra said, over one connection after the other.
///
/// ```
/// # use wirespeed_fpm as fpm;
/// let mut fpm = fpm::Fpm::default();
/// fpm.begin();
/// // A connection that sends something else ends, with the reason.
/// let ended = fpm.receive(b"GET / HTTP/1.1\r\n", &mut |_| ());
/// assert_eq!(ended, Err(fpm::Violation::Version(b'G')));
/// ```
#[derive(Debug, Default)]
pub struct Fpm {
    partial: Partial,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    counts: Counts,
    /// Routes of the frame at hand.
    routes: Vec<(Key, Option<Content>)>,
}

#[derive(Debug)]
struct Content {
    next_hops: NextHops,
    metric: u32,
    protocol: u8,
}

impl Fpm {
    /// A connection begins.
    pub fn begin(&mut self) {
        self.partial.clear();
        self.state.table.begin();
    }

    /// Take the next bytes of the connection, and give their changes to `out`, in order.
    ///
    /// # Errors
    /// The peer does not keep to the protocol: the connection has to be closed. The changes of
    /// whole frames before that have been given.
    pub fn receive(&mut self, bytes: &[u8], out: &mut impl FnMut(Change)) -> Result<(), Violation> {
        let Fpm { partial, state } = self;
        state.counts.bytes += bytes.len() as u64;
        partial.frames(bytes, |frame| state.frame(frame, out))
    }

    /// The replay after a reconnect is over: numbers of nexthops that this connection has not sent
    /// are not in use any more. Returns how many they are.
    pub fn sweep(&mut self, out: &mut impl FnMut(Change)) -> usize {
        let swept = self.state.table.sweep();
        self.state.table.flush(out);
        swept
    }

    /// The next hops of a number; `None`: it is unknown.
    pub fn next_hops(&self, id: u32) -> Option<Reachable> {
        self.state.table.reachable(id)
    }

    /// The number of nexthops and groups.
    pub fn nexthops(&self) -> usize {
        self.state.table.len()
    }

    /// What was received.
    pub fn counts(&self) -> &Counts {
        &self.state.counts
    }
}

impl State {
    fn frame(&mut self, frame: &[u8], out: &mut impl FnMut(Change)) -> Result<(), Violation> {
        self.counts.frames += 1;
        self.routes.clear();
        let read = Messages(frame).try_for_each(|message| self.message(&message?));
        self.table.flush(out);
        read?;
        if self.routes.len() > 1 {
            // Stable: of the messages about a route, the last stays last.
            self.routes.sort_by_key(|(key, _)| *key);
        }
        let mut routes = self.routes.drain(..).peekable();
        while let Some((key, content)) = routes.next() {
            if routes.peek().is_some_and(|(next, _)| *next == key) {
                continue;
            }
            out(match content {
                Some(Content { next_hops, metric, protocol }) => {
                    Change::Replace { key, next_hops, metric, protocol }
                }
                None => Change::Delete { key },
            });
        }
        Ok(())
    }

    fn message(&mut self, message: &Message<'_>) -> Result<(), Violation> {
        match message.kind {
            RTM_NEWROUTE => self.route(message, true),
            RTM_DELROUTE => self.route(message, false),
            RTM_NEWNEXTHOP => self.new_nexthop(message),
            RTM_DELNEXTHOP => {
                self.counts.deleted_nexthops += 1;
                let (id, _) = nexthop::parse(message)?;
                self.table.remove(id);
                Ok(())
            }
            _ => {
                self.counts.other_messages += 1;
                Ok(())
            }
        }
    }

    fn route(&mut self, message: &Message<'_>, is_new: bool) -> Result<(), Violation> {
        if is_new {
            self.counts.new_routes += 1;
        } else {
            self.counts.deleted_routes += 1;
        }
        let route = match route::parse(message, Speaker::Zebra)? {
            Parsed::Route(route) => route,
            Parsed::Encapsulated(which) => {
                self.counts.note_encapsulation(which);
                return Ok(());
            }
            Parsed::Unsupported => {
                self.counts.unsupported_routes += 1;
                return Ok(());
            }
        };
        // A route that cannot be used takes the place of one that could: zebra keeps one for each
        // prefix, so the earlier one is not in force any more.
        let content = match route.leads {
            _ if !is_new => None,
            Leads::To(next_hops) => {
                Some(Content { next_hops, metric: route.metric, protocol: route.protocol })
            }
            Leads::Kernel => {
                self.counts.kernel_routes += 1;
                None
            }
            Leads::Encapsulated(which) => {
                self.counts.note_encapsulation(which);
                None
            }
            Leads::Limited(limit) => {
                self.counts.note_limit(limit);
                None
            }
            Leads::Unsupported => {
                self.counts.unsupported_routes += 1;
                None
            }
        };
        self.routes.push((route.key, content));
        Ok(())
    }

    fn new_nexthop(&mut self, message: &Message<'_>) -> Result<(), Violation> {
        self.counts.new_nexthops += 1;
        let (id, nexthop) = nexthop::parse(message)?;
        match nexthop {
            Nexthop::Encapsulated(which) => self.counts.note_encapsulation(which),
            Nexthop::Limited(limit) => self.counts.note_limit(limit),
            Nexthop::Unsupported => self.counts.unsupported_routes += 1,
            Nexthop::One(_) | Nexthop::Group(_) => {}
        }
        if let Err(limit) = self.table.set(id, nexthop) {
            // What it stood for before is not what zebra means.
            self.table.remove(id);
            self.counts.note_limit(limit);
        }
        Ok(())
    }
}
