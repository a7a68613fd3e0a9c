//! The routes that daemons such as BIRD write into the kernel's tables: dumped, then followed.
//!
//! Called by: `fpm.rs` in each turn. Whenever messages were lost, links or addresses changed, or
//! the table changed within a dump, another dump follows; what a whole one has not named is swept.
//! Of several routes to a prefix with different metrics the best one counts; when it goes, a dump
//! finds the next one.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant as Monotone;

use base::{Duration, Instant};
use fpm::{Kernel, KernelCounts, News, Reachable};
use rib::{Best, Dest, Next, Offer, Origin};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::{Feed, Once, PENDING_MOST, Pending, READ_MOST, leads_somewhere, seconds};
use crate::daemon::{info, warning};

/// Bytes of the longest datagram; the kernel sends dumps in pieces of 32 KB at most.
const DATAGRAM: usize = 64 << 10;
/// The least time between two dumps.
const BETWEEN: Duration = Duration::from_secs(2);
/// The most prefixes with several metrics that are remembered; a dump begins them anew.
const SHADOWED_MOST: usize = 65_536;

/// The socket, and how far the dump is.
pub(super) struct Socket {
    fd: OwnedFd,
    kernel: Kernel,
    /// zebra's routes are left out, because they come by FPM.
    with_fpm: bool,
    is_dumping: bool,
    /// Messages were lost within the dump.
    has_lost: bool,
    /// When the next dump may begin; [`Instant::NEVER`]: none is needed.
    dump_at: Instant,
    may_dump_at: Instant,
    /// Prefixes with another route, of a higher metric.
    shadowed: BTreeSet<(u32, String)>,
    lost: u64,
    buffer: Box<[u8]>,
    has_said: bool,
}

/// Numbers for metrics.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// What the kernel reported.
    pub counts: KernelCounts,
    /// How often messages were lost, because more came than the socket holds.
    pub lost: u64,
}

impl Socket {
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn due(&self) -> Instant {
        self.dump_at
    }

    pub(super) fn figures(&self) -> Figures {
        Figures { counts: self.kernel.counts().clone(), lost: self.lost }
    }

    /// Another dump is needed.
    fn ask(&mut self) {
        self.dump_at = self.dump_at.min(self.may_dump_at);
    }

    fn note_shadow(&mut self, dest: Dest) {
        if self.shadowed.len() < SHADOWED_MOST {
            self.shadowed.insert((dest.table, dest.prefix.to_string()));
        }
    }

    /// Is the route to a prefix one of those that zebra writes, and sends by FPM as well?
    fn is_of_zebra(&self, protocol: u8) -> bool {
        self.with_fpm && (protocol == 11 || (186..=198).contains(&protocol))
    }
}

impl Feed {
    /// The kernel's routes come by this socket, or not any more.
    pub(crate) fn set_kernel(&mut self, fd: Option<OwnedFd>, with_fpm: bool, now: Instant) {
        self.kernel = fd.map(|fd| Socket {
            fd,
            kernel: Kernel::default(),
            with_fpm,
            is_dumping: false,
            has_lost: false,
            dump_at: now,
            may_dump_at: now,
            shadowed: BTreeSet::new(),
            lost: 0,
            buffer: vec![0; DATAGRAM].into(),
            has_said: false,
        });
        if self.kernel.is_none() {
            // Nobody says any more which of them are there.
            self.rib.begin(Origin::Rtnetlink);
            self.rib.all_sent(Origin::Rtnetlink);
            self.sweeps.push_back(Origin::Rtnetlink);
        }
    }

    /// Read what the kernel reports, and begin a dump if one is needed.
    pub(super) fn read_kernel(&mut self, now: Instant) {
        let (began, mut bytes) = (Monotone::now(), 0);
        let (bytes_most, time_most) = READ_MOST;
        while self.pending.len() < PENDING_MOST && bytes < bytes_most && began.elapsed() < time_most
        {
            let Some(socket) = &mut self.kernel else { return };
            match rustix::io::read(&socket.fd, &mut *socket.buffer) {
                Ok(count) => {
                    bytes += count;
                    self.take_datagram(count, now);
                }
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => {
                    socket.lost += 1;
                    socket.has_lost = true;
                    socket.ask();
                }
                Err(Errno::AGAIN) => break,
                Err(why) => {
                    warning(&format!(
                        "frr: the kernel's routes are not followed any more ({why}); they stay as \
                         they are; SIGHUP after a change of [frr] begins anew"
                    ));
                    self.kernel = None;
                    return;
                }
            }
        }
        self.dump(now);
    }

    fn dump(&mut self, now: Instant) {
        let Some(socket) = &mut self.kernel else { return };
        if socket.is_dumping || socket.dump_at > now {
            return;
        }
        socket.may_dump_at = now + BETWEEN;
        let request = socket.kernel.begin();
        if send(&socket.fd, &request, SendFlags::NOSIGNAL).is_err() {
            socket.dump_at = socket.may_dump_at;
            return;
        }
        (socket.is_dumping, socket.has_lost, socket.dump_at) = (true, false, Instant::NEVER);
        socket.shadowed.clear();
        self.sweeps.retain(|origin| *origin != Origin::Rtnetlink);
        self.rib.begin(Origin::Rtnetlink);
    }

    /// Take a datagram of the buffer.
    fn take_datagram(&mut self, count: usize, now: Instant) {
        let Feed { kernel: Some(socket), rib, pending, .. } = self else { return };
        let (buffer, mut kernel) =
            (std::mem::take(&mut socket.buffer), std::mem::take(&mut socket.kernel));
        let (mut is_full, mut is_dumped) = (false, None);
        let read = kernel.receive(&buffer[..count], &mut |news| {
            let fib =
                &mut |dest, to: Option<Best<'_, _>>| pending.push_back(Pending::new(dest, to));
            let metric_of = |rib: &rib::Rib<Reachable>, dest| {
                let mut all = rib.candidates(dest);
                let ours = all.find(|known| known.origin == Origin::Rtnetlink);
                ours.map(|known| (known.metric, known.is_stale))
            };
            match news {
                News::Route { key, metric, protocol, to } if !socket.is_of_zebra(protocol) => {
                    let dest = Dest { table: key.table, prefix: key.prefix };
                    match metric_of(rib, dest) {
                        Some((known, false)) if known < metric => return socket.note_shadow(dest),
                        Some((known, false)) if known > metric => socket.note_shadow(dest),
                        _ => {}
                    }
                    if !leads_somewhere(&to) {
                        return;
                    }
                    let at_s = seconds(now);
                    let offer = Offer { next: Next::These(to), metric, protocol, at_s };
                    is_full |= rib.set(Origin::Rtnetlink, dest, offer, fib).is_err();
                }
                News::Gone { key, metric } => {
                    let dest = Dest { table: key.table, prefix: key.prefix };
                    if metric_of(rib, dest).is_some_and(|(known, _)| known == metric) {
                        rib.remove(Origin::Rtnetlink, dest, fib);
                        if socket.shadowed.remove(&(dest.table, dest.prefix.to_string())) {
                            socket.ask();
                        }
                    }
                }
                News::Route { .. } => {}
                News::Unsure => socket.ask(),
                News::Dumped { is_whole } => is_dumped = Some(is_whole),
            }
        });
        (socket.buffer, socket.kernel) = (buffer, kernel);
        if let Err(why) = read {
            socket.has_lost = true;
            socket.ask();
            warning(&format!("frr: a message of the kernel is not understood: {why}"));
        }
        if let Some(is_whole) = is_dumped {
            socket.is_dumping = false;
            if is_whole && !socket.has_lost {
                rib.all_sent(Origin::Rtnetlink);
                self.sweeps.push_back(Origin::Rtnetlink);
            } else {
                socket.ask();
            }
        }
        if is_full {
            self.warn_once(Once::RibFull);
        }
    }

    /// A sweep of the kernel's routes is over.
    pub(super) fn swept_kernel(&mut self, gone: usize) {
        let count = self.rib.count_of(Origin::Rtnetlink);
        let is_first =
            self.kernel.as_mut().is_none_or(|s| !std::mem::replace(&mut s.has_said, true));
        if gone > 0 || is_first {
            info(&format!(
                "frr: the kernel has {count} routes of daemons; {gone} that were gone are removed"
            ));
        }
    }
}
