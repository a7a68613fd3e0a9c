//! A thread that answers requests about stacks that have drivers of their own.
//!
//! Called by: programs, which keep the value that [`Observer::start`] returns. The thread sleeps
//! until a client asks, and holds the locks of the stacks only while it answers.

use std::io;
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::Instant as Monotone;

use base::{Duration, Instant};
use device::Alarm;
use live::{Http, Live};
use net::Shards;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stack::Stack;

use crate::Service;

/// The interval at which clients are polled, because descriptors do not report everything.
const TICK: Duration = Duration::from_millis(50);

/// Shows the stacks of a program to tools and browsers.
pub struct Observer {
    name: String,
    page: Option<Http>,
    is_changeable: bool,
}

impl Observer {
    /// An observer for a program of this name. The socket is in the user's run-time directory,
    /// where `wirespeed show` and the other tools of the same user and of root find it.
    pub fn new(name: &str) -> Observer {
        Observer { name: name.to_owned(), page: None, is_changeable: false }
    }

    /// Also serve a page to browsers, at `ADDR[:PORT]` of this machine or at `stack:PORT` of the
    /// stack's own addresses. The page changes nothing. [`Seen::page`] says where it is.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: `at` is not such an address.
    pub fn page(self, at: &str) -> io::Result<Observer> {
        let parsed = Http::parse(at);
        let page = parsed.map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        Ok(Observer { page: Some(page), ..self })
    }

    /// Let `wirespeed ip` of this user and of root change routes, rules, neighbours and addresses.
    #[must_use]
    pub fn allow_changes(self) -> Observer {
        Observer { is_changeable: true, ..self }
    }

    /// Start the thread. It ends when the returned value is dropped.
    ///
    /// # Errors
    /// The user has no directory for the socket, the page's address cannot be bound, or the system
    /// has no thread or descriptor left.
    pub fn start(self, stacks: impl Into<Shards>) -> io::Result<Seen> {
        let (name, shards) = (self.name, stacks.into());
        let mut service = Service::bound(&name).map_err(io::Error::other)?;
        if self.is_changeable {
            service = service.allow_changes();
        }
        if shards.nets().len() > 1 {
            service.have_shards();
        }
        let mut says = None;
        if let Some(http) = self.page {
            let page = Live::bind(http).map_err(io::Error::other)?;
            says = Some(page.says());
            let command = name.clone();
            let version = env!("CARGO_PKG_VERSION").to_owned();
            // Only loops that carry the page themselves report errors this way.
            let whose = live::Whose { command, version, complain: |_| {}, locks_down: false };
            service.feed(page.serve(whose, Some(&shards)).map_err(io::Error::other)?);
        }
        let alarm = Alarm::new()?;
        let end = alarm.waker().clone();
        let names = names(&name, shards.nets().len());
        let run = move || {
            // When the drivers have ended, there is nothing to show any more.
            let _ = watch(service, &shards, &names, &alarm);
        };
        let thread = std::thread::Builder::new().name("observer".to_owned()).spawn(run)?;
        Ok(Seen { says, end, thread: Some(thread) })
    }
}

/// Tools see the program until this value is dropped.
pub struct Seen {
    says: Option<String>,
    end: std::task::Waker,
    thread: Option<JoinHandle<()>>,
}

impl Seen {
    /// A line that says where the page is, if there is one.
    pub fn page(&self) -> Option<&str> {
        self.says.as_deref()
    }
}

impl Drop for Seen {
    /// Lets clients with taps collect the last packets first.
    fn drop(&mut self) {
        self.end.wake_by_ref();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The names of the stacks as `show` prints them.
fn names(name: &str, count: usize) -> Vec<String> {
    let of = |number| if number == 0 { name.to_owned() } else { format!("{name}.{number}") };
    (0..count).map(of).collect()
}

/// The stacks with their names.
fn named<'a>(names: &'a [String], stacks: &'a mut [&mut Stack]) -> Vec<(&'a str, &'a mut Stack)> {
    let names = names.iter().map(String::as_str);
    names.zip(stacks.iter_mut().map(|stack| &mut **stack)).collect()
}

fn watch(mut service: Service, shards: &Shards, names: &[String], alarm: &Alarm) -> io::Result<()> {
    let mut due = Instant::ZERO;
    loop {
        let now = shards.nets()[0].with_stack(|stack| stack.now())?;
        let mut asked = vec![PollFd::from_borrowed_fd(alarm.as_fd(), PollFlags::IN)];
        let others = service.descriptors();
        asked.extend(others.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        let patience = (due != Instant::NEVER).then(|| due.since(now).into());
        let patience =
            patience.and_then(|span: core::time::Duration| Timespec::try_from(span).ok());
        match poll(&mut asked, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        if !asked[0].revents().is_empty() {
            break;
        }
        due = shards.with_stacks(|stacks| {
            let now = stacks[0].now();
            service.poll(now, &mut named(names, stacks));
            let within = service.look_within(TICK);
            if within < TICK { now + within } else { service.next_deadline() }
        })?;
    }
    service.end_feed();
    let began = shards.nets()[0].with_stack(|stack| stack.now())?;
    let started = Monotone::now();
    shards.with_stacks(|stacks| {
        let now = || began + Duration::from_nanos(started.elapsed().as_nanos() as u64);
        service.finish(now, &mut named(names, stacks));
    })
}
