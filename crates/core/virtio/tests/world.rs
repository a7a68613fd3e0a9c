//! A port at which a machine is, in one thread.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use base::DropReason;
use device::{Burst, Device};
use mbuf::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirespeed_virtio::VhostUser;

use crate::guest::Guest;

/// The room of a guest's buffers: one frame of Ethernet, or a super-segment.
pub(crate) const SMALL: u32 = 1_536;
pub(crate) const BIG: u32 = 66_000;

/// A place for a socket, which no other test has.
pub(crate) fn place() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("wsvhost-{}-{number}", std::process::id()))
}

/// Do this beside, while the port answers.
pub(crate) fn beside<T: Send + 'static>(
    port: &mut VhostUser,
    pool: &mut Pool,
    what: impl FnOnce() -> T + Send + 'static,
) -> T {
    let thread = std::thread::spawn(what);
    while !thread.is_finished() {
        assert_eq!(port.rx_burst(pool, &mut Burst::new()), 0, "nobody sent a frame");
        // What sleeps on the port is woken by its descriptor alone.
        if !port.rx_ready() {
            woken_within(port, 5);
        }
    }
    let done = thread.join().expect("it does not panic");
    // The last requests, and the kicks that they brought.
    for _ in 0..3 {
        port.rx_ready();
        port.rx_burst(pool, &mut Burst::new());
    }
    done
}

/// Is the port's descriptor readable within this time?
pub(crate) fn woken_within(port: &VhostUser, ms: i64) -> bool {
    let fd = port.as_fd().expect("it is not gone");
    let until = Timespec { tv_sec: ms / 1_000, tv_nsec: ms % 1_000 * 1_000_000 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&until)).expect("it is open") > 0
}

/// Would a sleeping driver be woken?
pub(crate) fn wakes(port: &VhostUser) -> bool {
    woken_within(port, 0)
}

/// A port, and a machine that has started its card.
pub(crate) struct World {
    pub(crate) port: VhostUser,
    pub(crate) pool: Pool,
    pub(crate) guest: Guest,
    pub(crate) path: PathBuf,
}

impl World {
    pub(crate) fn new(features: u64, room: u32) -> World {
        let (path, mut pool) = (place(), Pool::new(64 << 20));
        let mut port = VhostUser::listen(&path).expect("a place");
        let guest = connect(&mut port, &mut pool, &path, features, room);
        assert!(port.link_up(), "{:?}", port.failure().map(ToString::to_string));
        World { port, pool, guest, path }
    }

    /// All frames that the guest has sent.
    pub(crate) fn received(&mut self) -> Vec<Vec<u8>> {
        let (mut burst, mut all) = (Burst::new(), Vec::new());
        while self.port.rx_burst(&mut self.pool, &mut burst) > 0 {
            for frame in burst.drain(..) {
                all.push(frame.as_slice().to_vec());
                self.pool.free(frame);
            }
        }
        all
    }

    /// Send plain frames to the guest; returns how many were taken.
    pub(crate) fn sent(&mut self, frames: &[&[u8]]) -> usize {
        let copy = |bytes: &&[u8]| self.pool.copy_of(bytes).expect("memory");
        let mut burst: Burst = frames.iter().map(copy).collect();
        let taken = self.port.tx_burst(&mut self.pool, &mut burst);
        burst.drain(..).for_each(|frame| self.pool.free(frame));
        taken
    }

    /// The machine ends.
    pub(crate) fn without_guest(self) -> (VhostUser, Pool) {
        (self.port, self.pool)
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.port.drops().expect("it counts").of(reason)
    }
}

pub(crate) fn connect(
    port: &mut VhostUser,
    pool: &mut Pool,
    path: &Path,
    features: u64,
    room: u32,
) -> Guest {
    let path = path.to_owned();
    beside(port, pool, move || Guest::connect(&path, features, room))
}
