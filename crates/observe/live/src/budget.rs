//! For the page: where the time of the program's threads goes, by stage. A thread of its own takes
//! the samples while a browser has the page open.
//!
//! Called by: `lib.rs`, which starts the thread; `server.rs`, which wakes the thread for the first
//! browser and puts the latest figures into each sample. The stacks are not involved: the kernel
//! takes the samples.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use profile::{Event, Part, Recent, Seen};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::feed::Watched;

/// The name of the page's own threads, whose time does not count as the program's.
pub(super) const PAGE_THREAD: &str = "live-page";
const LOOKS: &str = "live-budget";
const EXCEPT: &[&str] = &[PAGE_THREAD, LOOKS];

/// The server's end: the latest figures, and how to ask for them.
pub(super) struct Budget {
    /// The latest figures; null while no browser has the page open, and before the first samples.
    seen: watch::Receiver<Value>,
    /// Wakes the thread.
    wanted: SyncSender<()>,
}

/// Where the thread gets its samples from.
enum Source {
    /// The source is opened for each look.
    Opened,
    /// The source is open already.
    Prepared(Box<Recent>),
    /// There is no source. The text says why, and gives advice.
    Lacks(String),
}

impl Budget {
    /// Start the thread, which waits until a browser opens the page.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(watched: Arc<Watched>) -> io::Result<Budget> {
        Budget::with(watched, || Source::Opened)
    }

    /// As [`Budget::start`], for a program that gives up its right to open files when this returns.
    /// By then everything is open for the existing threads except the page's own.
    ///
    /// # Errors
    /// As of [`Budget::start`].
    pub(super) fn prepare(watched: Arc<Watched>, page: &Receiver<()>) -> io::Result<Budget> {
        // The page's thread is recognized by its name, which it sets itself.
        let _ = page.recv();
        let (done, is_done) = sync_channel(1);
        let budget = Budget::with(watched, move || {
            let source = match Recent::prepare(EXCEPT) {
                Ok(recent) => Source::Prepared(Box::new(recent)),
                Err(error) => Source::Lacks(error.to_string()),
            };
            // The thread that started this one waits for the message.
            let _ = done.send(());
            source
        })?;
        let _ = is_done.recv();
        Ok(budget)
    }

    fn with(
        watched: Arc<Watched>,
        source: impl FnOnce() -> Source + Send + 'static,
    ) -> io::Result<Budget> {
        let (says, seen) = watch::channel(Value::Null);
        // One waiting request is enough: it starts a look after the current one.
        let (wanted, asked) = sync_channel(1);
        let thread = std::thread::Builder::new().name(LOOKS.to_owned());
        thread.spawn(move || serve(&watched, &asked, &says, source()))?;
        Ok(Budget { seen, wanted })
    }

    /// Wake the thread, because a browser has opened the page.
    pub(super) fn want(&self) {
        // If the channel is full, the thread has been woken already.
        let _ = self.wanted.try_send(());
    }

    /// The latest figures.
    pub(super) fn latest(&self) -> Value {
        self.seen.borrow().clone()
    }
}

/// Take looks whenever a browser opens the page, until the server is gone.
fn serve(watched: &Watched, asked: &Receiver<()>, says: &watch::Sender<Value>, mut source: Source) {
    while asked.recv().is_ok() {
        let is_watched = || watched.count() > 0 && !says.is_closed();
        if let Err(why) = look(&mut source, &is_watched, says) {
            says.send_replace(lacks(&why));
            while is_watched() {
                std::thread::sleep(Recent::EVERY);
            }
        }
        says.send_replace(Value::Null);
    }
}

/// Sample the program as long as a browser has the page open. Nothing is kept afterwards.
fn look(
    source: &mut Source,
    is_watched: &impl Fn() -> bool,
    says: &watch::Sender<Value>,
) -> Result<(), String> {
    if !is_watched() {
        return Ok(());
    }
    let said = |error: profile::Error| error.to_string();
    match source {
        Source::Opened => {
            let mut recent = Recent::begin(EXCEPT).map_err(said)?;
            turns(&mut recent, is_watched, says).map_err(said)
        }
        Source::Prepared(recent) => {
            recent.resume().map_err(said)?;
            let turned = turns(recent, is_watched, says);
            turned.and(recent.pause()).map_err(said)
        }
        Source::Lacks(why) => Err(why.clone()),
    }
}

fn turns(
    recent: &mut Recent,
    is_watched: &impl Fn() -> bool,
    says: &watch::Sender<Value>,
) -> Result<(), profile::Error> {
    loop {
        std::thread::sleep(Recent::EVERY);
        if !is_watched() {
            return Ok(());
        }
        recent.turn()?;
        says.send_replace(document(&recent.seen(), recent.busiest()));
    }
}

fn lacks(why: &str) -> Value {
    json!({ "lacks": why })
}

/// The figures in the form that the page gets.
fn document(seen: &Seen, busiest: f64) -> Value {
    let stage = |part: &Part| {
        let (share, off) = seen.share(part);
        let ns = part.costs[Event::Time as usize];
        json!({
            "stage": part.stage.name(),
            "share": share,
            "off": off,
            // The kernel's share of the stage's time.
            "kernel": seen.has_kernel.then(|| part.kernel_ns / ns.max(1.0)),
        })
    };
    json!({
        "seconds": seen.seconds,
        "samples": seen.samples,
        "lost": seen.lost,
        "threads": seen.threads,
        "is_part": seen.is_part,
        "has_kernel": seen.has_kernel,
        "cores": seen.all_ns() * 1e-9 / seen.seconds.max(1e-3),
        "busiest": busiest,
        "stages": seen.stages.iter().map(stage).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use profile::Stage;

    use super::*;

    #[test]
    fn the_page_is_given_shares_of_all_stages() {
        let part = |stage| {
            let samples = match stage {
                Stage::Tcp => 30,
                Stage::Copy => 10,
                _ => 0,
            };
            let ns = samples as f64 * 1e7;
            Part { costs: [ns, 0.0, 0.0, 0.0], kernel_ns: ns / 2.0, samples, ..Part::of(stage) }
        };
        let seen = Seen {
            seconds: 0.5,
            samples: 40,
            lost: 3,
            threads: 2,
            is_part: false,
            has_kernel: true,
            events: vec![Event::Time],
            stages: Stage::ALL.map(part).to_vec(),
        };
        let sent = document(&seen, 0.6);
        let stages = sent["stages"].as_array().expect("a list");
        let names: Vec<_> = stages.iter().filter_map(|row| row["stage"].as_str()).collect();
        assert_eq!(names, Stage::ALL.map(Stage::name));
        let of = |stage: Stage| &stages[stage as usize];
        assert_eq!(
            (&of(Stage::Tcp)["share"], &of(Stage::Tcp)["kernel"]),
            (&json!(0.75), &json!(0.5))
        );
        assert_eq!(
            (&of(Stage::Copy)["share"], &of(Stage::Ip)["share"]),
            (&json!(0.25), &json!(0.0))
        );
        assert_eq!(
            (&sent["busiest"], &sent["lost"], &sent["threads"]),
            (&json!(0.6), &json!(3), &json!(2))
        );
        let cores = sent["cores"].as_f64().expect("a number");
        assert!((cores - 0.8).abs() < 1e-9, "{cores}");
        // Nothing ran, and the kernel's part is missing: the figures are numbers, and never NaN,
        // which JSON does not have.
        let idle = Seen {
            samples: 0,
            seconds: 0.0,
            has_kernel: false,
            stages: Stage::ALL.map(Part::of).to_vec(),
            ..seen
        };
        let sent = document(&idle, 0.0);
        assert_eq!((&sent["cores"], &sent["stages"][0]["share"]), (&json!(0.0), &json!(0.0)));
        assert_eq!(sent["stages"][0]["kernel"], Value::Null);
    }

    /// The latest figures, as soon as `is_wanted` accepts them.
    fn until(budget: &Budget, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_wanted(&budget.latest()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        budget.latest()
    }

    #[test]
    fn only_while_somebody_looks_there_is_something() {
        let watched = || Arc::new(Watched::new().expect("a descriptor"));
        let (page, begun) = sync_channel(1);
        page.send(()).expect("there is room");
        let (first, second) = (watched(), watched());
        let budgets = [
            (Budget::start(first.clone()).expect("a thread"), first),
            (Budget::prepare(second.clone(), &begun).expect("a thread"), second),
        ];
        for (budget, watched) in budgets {
            budget.want();
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(
                budget.latest(),
                Value::Null,
                "samples were taken although no browser has the page open"
            );
            for _ in 0..2 {
                watched.come();
                budget.want();
                let seen = until(&budget, |seen| !seen.is_null());
                assert!(seen["stages"].is_array() || seen["lacks"].is_string(), "{seen}");
                watched.leave();
                assert_eq!(until(&budget, Value::is_null), Value::Null);
            }
        }
    }
}
