//! A network whose sockets the tasks of a tool share, over crate `net`.
//!
//! Called by: `nfs` and `nfsd`, inside tokio's runtime. One task keeps the addresses of servers, a
//! thread shows the stack.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use observe::{Observer, Seen, Service};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use wirespeed::net::Net;
use wirespeed::{Instant, PortId, Stack, StackConfig};

use super::Network;
use super::leases::Leases;

/// The longest sleep of the task that keeps addresses.
const LONGEST: Duration = Duration::from_secs(3600);

/// How often a server looks whether its device is still there, which no socket would say.
const LOOK: Duration = Duration::from_secs(1);

/// A network that tasks share.
pub(crate) struct Tasks {
    pub(crate) net: Net,
    /// Our addresses at the start.
    pub(crate) addresses: Vec<IpAddr>,
    driver: JoinHandle<()>,
    port: PortId,
    keeper: JoinHandle<io::Result<()>>,
    stop: oneshot::Sender<()>,
    _seen: Option<Seen>,
}

impl Network {
    /// Share it with the tasks of the runtime that this is called in.
    pub(crate) fn into_tasks(mut self) -> Tasks {
        let addresses = self.addresses();
        let none = Stack::new(StackConfig::new([0, 0]));
        let stack = core::mem::replace(&mut self.stack, none);
        let leases = core::mem::take(&mut self.leases);
        // A thread answers from now on, at the same path.
        self.seen = Service::new(self.name);
        let (net, driver) = Net::spawn_tokio(stack);
        // As everywhere: a program that cannot make its socket is not seen.
        let seen = Observer::new(self.name).allow_changes().start(net.clone()).ok();
        let (stop, stopped) = oneshot::channel();
        let keeper = tokio::spawn(keep(net.clone(), leases, stopped));
        Tasks { net, addresses, driver, port: self.port, keeper, stop, _seen: seen }
    }
}

impl Tasks {
    /// Wait until the device is gone, or the driver of the stack.
    ///
    /// # Errors
    /// Always, with what to do.
    pub(crate) async fn gone(&mut self) -> io::Result<()> {
        while !self.driver.is_finished() {
            sleep(LOOK).await;
            let port = self.port;
            let failure = |stack: &mut Stack| stack.device(port)?.failure().map(|e| e.to_string());
            if let Some(error) = self.net.with_stack(failure)? {
                return Err(io::Error::other(error));
            }
        }
        Err(io::Error::other("the device is gone; start again"))
    }

    /// Give the addresses of servers back.
    pub(crate) async fn end(self) {
        // The keeper has ended by itself if the device is gone.
        let _ = self.stop.send(());
        let _ = self.keeper.await;
    }
}

/// Wakes the keeper when something has come for the sockets of its clients.
#[derive(Default)]
struct News(Notify);

impl Wake for News {
    fn wake(self: Arc<News>) {
        self.0.notify_one();
    }
}

/// Keep the addresses until `stopped`, and give them back then.
async fn keep(net: Net, mut leases: Leases, mut stopped: oneshot::Receiver<()>) -> io::Result<()> {
    let news = Arc::new(News::default());
    net.wake_for_polled(news.clone().into())?;
    loop {
        let pause = net.with_stack(|stack| {
            let now = stack.now();
            leases.turn(stack, now);
            until(leases.deadline(), now)
        })?;
        tokio::select! {
            _ = &mut stopped => break,
            () = news.0.notified() => {}
            () = sleep(pause) => {}
        }
    }
    let mut release = net.with_stack(|stack| leases.release(stack, stack.now()))?;
    while let Some(pause) = net.with_stack(|stack| {
        let now = stack.now();
        (!release.is_done(stack, now)).then(|| until(release.deadline(), now))
    })? {
        // The news that a neighbour has answered wakes nobody.
        sleep(pause.min(Duration::from_millis(10))).await;
    }
    net.with_stack(|stack| release.close(stack, stack.now()))
}

fn until(due: Instant, now: Instant) -> Duration {
    Duration::from(due.since(now)).min(LONGEST)
}
