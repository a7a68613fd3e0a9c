//! Random calls, by seed, over a link that loses, duplicates, reorders and corrupts frames, and
//! that is sometimes replaced. Nothing panics, no byte is wrong, and no connection or buffer is
//! left. A failure prints its seed; `SEED=n` runs only that seed.

use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use device::fault::{self, Fault, Odds, Rng};
use device::mem;
use stack::PortId;
use stack::pair::{PairConfig, end};
use wirespeed_net::{
    Net, OwnedReadHalf, OwnedWriteHalf, Received, TcpListener, TcpSocket, TcpStream, UdpSocket,
};

use crate::common::SOON;

const SEEDS: u64 = 40;
const STEPS: usize = 600;
/// The largest number of sockets of each kind; it is small, so that calls often use old sockets.
const MOST: usize = 12;

/// A link with faults at one end. Returns both ends.
fn wire(rng: &mut Rng) -> (Fault<mem::Mem>, mem::Mem) {
    let (left, right) = mem::pair(&mem::Config { depth: 64, ..mem::Config::default() });
    let bad = Odds { drop: 0.03, duplicate: 0.02, reorder: 0.05, corrupt: 0.02 };
    let config = fault::Config { rx: bad, tx: bad, ..fault::Config::default() };
    (Fault::new(left, &config, Rng::new(rng.next_u64())).0, right)
}

/// The byte at position `place` of every stream.
fn byte_at(place: u64) -> u8 {
    (place * 7 + place / 251) as u8
}

/// A connection, and the position in the stream of each direction.
struct Stream {
    stream: TcpStream,
    written: u64,
    read: u64,
}

struct World {
    rng: Rng,
    nets: [Net; 2],
    to: SocketAddr,
    listener: Option<TcpListener>,
    streams: Vec<Stream>,
    loans: Vec<Received>,
    halves: Vec<(Option<OwnedReadHalf>, Option<OwnedWriteHalf>)>,
    udp: Vec<UdpSocket>,
    moved: u64,
}

/// Polls a future up to `times` times, without waiting for its waker. Returns the output if the
/// future was ready.
async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}

impl World {
    fn below(&mut self, n: usize) -> usize {
        (self.rng.next_u64() >> 33) as usize % n.max(1)
    }

    fn keep(&mut self, stream: TcpStream) {
        self.streams.push(Stream { stream, written: 0, read: 0 });
        if self.streams.len() > MOST {
            let old = self.below(MOST);
            drop(self.streams.swap_remove(old));
        }
    }

    fn pick(&mut self) -> Option<usize> {
        (!self.streams.is_empty()).then(|| self.below(self.streams.len()))
    }

    async fn open(&mut self) {
        if self.listener.is_none() {
            let mut socket = TcpSocket::new(&self.nets[1]);
            // An old listener's connections may still be open.
            self.listener = socket.bind(self.to).listen(4).ok();
        }
        let polls = self.below(12);
        let nobody = SocketAddr::new(self.to.ip(), 9);
        let socket = TcpSocket::new(&self.nets[0]);
        let opened = match self.below(3) {
            0 => polled(socket.connect_any(&[nobody, self.to]), polls).await,
            _ => polled(socket.connect(self.to), polls).await,
        };
        if let Some(Ok(stream)) = opened {
            self.keep(stream);
        }
        let accepted = match &self.listener {
            Some(listener) => polled(listener.accept(), 2).await,
            None => None,
        };
        if let Some(Ok((stream, _))) = accepted {
            self.keep(stream);
        }
    }

    async fn write(&mut self, at: usize) {
        let len = self.below(40_000);
        let with_loan = self.below(4) == 0;
        let s = &mut self.streams[at];
        let data: Vec<u8> = (s.written..s.written + len as u64).map(byte_at).collect();
        if with_loan {
            let Ok(mut loan) = s.stream.loan() else { return };
            let n = loan.append(&data);
            if n > 0 && matches!(polled(s.stream.send_loan(loan), 2).await, Some(Ok(()))) {
                s.written += n as u64;
            }
        } else if let Ok(n) = s.stream.try_write(&data) {
            s.written += n as u64;
        }
    }

    async fn read(&mut self, at: usize) -> io::Result<()> {
        let (len, how) = (self.below(60_000), self.below(3));
        let s = &mut self.streams[at];
        let mut room = vec![0; len];
        let got = match how {
            0 => match polled(s.stream.read_loan(), 2).await {
                Some(Ok(Some(loan))) => {
                    room = loan.to_vec();
                    // Some loans are kept longer than their connection lives.
                    self.loans.push(loan);
                    room.len()
                }
                _ => 0,
            },
            1 => {
                let peeked = polled(s.stream.peek(&mut room), 2).await;
                let n = peeked.unwrap_or(Ok(0))?;
                s.check(&room[..n]);
                s.stream.try_read(&mut room)?
            }
            _ => s.stream.try_read(&mut room)?,
        };
        s.check(&room[..got]);
        s.read += got as u64;
        self.moved += got as u64;
        if self.loans.len() > 20 {
            self.loans.clear();
        }
        Ok(())
    }

    fn split(&mut self, at: usize) {
        let (read, write) = self.streams.swap_remove(at).stream.into_split();
        match self.below(3) {
            0 => self.halves.push((Some(read), None)),
            1 => self.halves.push((None, Some(write))),
            _ => self.halves.push((Some(read), Some(write))),
        }
        if self.halves.len() > MOST {
            let old = self.below(MOST);
            drop(self.halves.swap_remove(old));
        }
    }

    async fn datagrams(&mut self) {
        if self.udp.len() < 2 {
            let at = SocketAddr::new(self.to.ip(), 53);
            self.udp.extend(UdpSocket::bind(&self.nets[1], at));
            let any = SocketAddr::from(([0, 0, 0, 0], 0));
            self.udp.extend(UdpSocket::bind(&self.nets[0], any));
        }
        let len = self.below(1_400);
        let to = SocketAddr::new(self.to.ip(), 53);
        let mut room = [0; 2_000];
        for socket in &self.udp {
            polled(socket.send_to(&vec![7; len], to), 2).await;
            polled(socket.recv_from(&mut room), 1).await;
            polled(socket.peek_from(&mut room), 1).await;
        }
        if self.below(4) == 0 {
            self.udp.clear();
        }
    }

    /// Replace the link, either before the stacks notice its failure or after.
    fn rewire(&mut self) {
        let (left, right) = wire(&mut self.rng);
        let first = self.nets[0].replace_port(PortId(0), Box::new(left)).expect("the same link");
        if self.below(2) == 0 {
            // The left end of the old link is gone: the connections of the right end fail.
            drop(first);
            let _ = self.nets[1].with_stack(|stack| stack.fail_gone_ports());
            drop(self.nets[1].replace_port(PortId(0), Box::new(right)));
        } else {
            drop((self.nets[1].replace_port(PortId(0), Box::new(right)), first));
        }
    }

    async fn step(&mut self) {
        let what = self.below(100);
        let stream = self.pick();
        match (what, stream) {
            (0..12, _) => self.open().await,
            (12..40, Some(at)) => self.write(at).await,
            // A failed connection reports its error here or elsewhere.
            (40..70, Some(at)) => self.read(at).await.unwrap_or_default(),
            (70..74, Some(at)) => {
                let how = [Shutdown::Write, Shutdown::Read, Shutdown::Both][self.below(3)];
                let _ = self.streams[at].stream.shut_down(how);
            }
            (74..77, Some(at)) => {
                let time = Duration::from_millis(self.below(2) as u64 * 10);
                let _ = self.streams[at].stream.set_linger(Some(time));
            }
            (77..80, Some(at)) => {
                let polls = self.below(4);
                polled(self.streams.swap_remove(at).stream.close(), polls).await;
            }
            (80..83, Some(at)) => drop(self.streams.swap_remove(at)),
            (83..85, Some(at)) => self.split(at),
            (85..88, Some(at)) => {
                let mut cx = Context::from_waker(Waker::noop());
                let _ = self.streams[at].stream.poll_read_ready(&mut cx);
                let _ = self.streams[at].stream.poll_write_ready(&mut cx);
            }
            (88, _) => drop(self.listener.take()),
            (89, _) if self.below(4) == 0 => self.rewire(),
            (90..94, _) => self.datagrams().await,
            (94, _) => tokio::time::sleep(Duration::from_millis(2)).await,
            _ => tokio::task::yield_now().await,
        }
    }
}

impl Stream {
    /// Check that bytes read or peeked are those that were written at this position.
    fn check(&self, got: &[u8]) {
        let wrong = got.iter().zip(self.read..).position(|(&b, place)| b != byte_at(place));
        assert_eq!(
            wrong,
            None,
            "wrong byte after position {}, in a read of {} bytes",
            self.read,
            got.len()
        );
    }
}

async fn world(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let (left, right) = wire(&mut rng);
    let config = PairConfig::new([seed, 1]);
    let (left, right) = (end(&config, left, 1), end(&config, right, 2));
    let to = SocketAddr::new(right.addr, 7);
    let nets = [left.stack, right.stack].map(|stack| Net::spawn_tokio(stack).0);
    let (streams, loans, halves, udp) = Default::default();
    let mut world = World { rng, nets, to, listener: None, streams, loans, halves, udp, moved: 0 };
    for _ in 0..STEPS {
        world.step().await;
    }
    let World { nets, moved, listener, streams, loans, halves, udp, .. } = world;
    drop((listener, streams, loans, halves, udp));
    // Connections that are still closing over the lossy link may take long. Without a port they end
    // at once.
    for net in &nets {
        drop(net.remove_port(PortId(0)).expect("it is there"));
    }
    let ended = tokio::time::timeout(SOON, async {
        for net in &nets {
            let held = || net.with_stack(|s| (s.connection_count(), s.pool().outstanding()));
            while held().expect("the driver runs") != (0, 0) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    if ended.await.is_err() {
        let held = nets.each_ref().map(|net| {
            net.with_stack(|s| (s.connection_count(), s.pool().outstanding()))
                .expect("the driver runs")
        });
        panic!("connections and buffers were not released: {held:?}");
    }
    for net in nets {
        let sockets = net.with_stack(|s| s.snapshot().sockets).expect("the driver runs");
        assert_eq!(sockets, 0, "listeners or datagram sockets are left");
        net.shut_down();
    }
    moved
}

#[test]
fn random_calls_over_a_bad_wire_leave_nothing() {
    let one = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    let mut moved = 0;
    for seed in seeds {
        let ran = std::panic::catch_unwind(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(world(seed))
        });
        moved += ran.unwrap_or_else(|why| {
            eprintln!("SEED={seed}");
            std::panic::resume_unwind(why)
        });
    }
    println!("{moved} bytes were read");
    assert!(moved > 0 || one.is_some(), "no byte was read with any seed");
}
