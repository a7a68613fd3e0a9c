//! Stacks over a shaped device, in virtual time that the devices' own deadlines advance: what the
//! stacks measure is what the model says.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::sync::Arc;
use std::task::Wake;

use base::{Duration, Instant, Owner};
use device::{Burst, Device, mem};
use mbuf::Pool;
use stack::pair::{End, PairConfig, VirtualClock, end};

use crate::{Loss, Settings, Shape, Shaped};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// 100 Mbit/s and 20 ms each way.
fn line() -> Settings {
    Settings { rate_bps: Some(100_000_000), delay: ms(20), ..Settings::default() }
}

/// Two stacks, of which the first has its device behind a path.
struct World {
    here: End,
    there: End,
    shape: Shape,
    clock: VirtualClock,
}

impl World {
    fn new(settings: [Settings; 2]) -> World {
        let config = PairConfig::new([1, 2]);
        let clock = VirtualClock::default();
        let (left, right) = mem::pair(&config.wire);
        let (left, shape) = Shaped::new(left, settings, 7, clock.of_devices());
        let (here, there) = (end(&config, left, 1), end(&config, right, 2));
        World { here, there, shape, clock }
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Both stacks do what is due; then time passes to the next deadline. `false`: there is none.
    fn turn(&mut self) -> bool {
        // Twice, because a frame that one sends is there for the other at once.
        for _ in 0..2 {
            self.here.stack.poll(self.clock.now());
            self.there.stack.poll(self.clock.now());
        }
        self.clock.advance([&mut self.here, &mut self.there])
    }

    /// The round trip of a datagram with a payload of this many bytes.
    fn round_trip(&mut self, bytes: usize) -> Duration {
        let at = SocketAddr::new(self.there.addr, 7);
        let far = self.there.stack.udp_bind(at, Owner::program()).expect("free");
        let any = SocketAddr::new(self.here.addr, 0);
        let near = self.here.stack.udp_bind(any, Owner::program()).expect("free");
        let began = self.now();
        self.here.stack.udp_send(near, at, &vec![7; bytes], began).expect("room");
        loop {
            assert!(self.turn(), "nothing comes");
            self.here.stack.poll(self.clock.now());
            self.there.stack.poll(self.clock.now());
            while let Some(datagram) = self.there.stack.udp_receive(far) {
                let payload = datagram.payload.as_slice().to_vec();
                let now = self.now();
                self.there.stack.udp_send(far, datagram.from, &payload, now).expect("room");
            }
            if self.here.stack.udp_receive(near).is_some() {
                let span = self.now().since(began);
                self.here.stack.udp_close(near);
                self.there.stack.udp_close(far);
                return span;
            }
        }
    }

    /// Bits a second of the second half of a transfer of this many bytes, from the first to the
    /// second stack or back: slow start is over then.
    fn goodput(&mut self, bytes: usize, is_up: bool) -> f64 {
        let (sender, receiver) = match is_up {
            true => (&mut self.here, &mut self.there),
            false => (&mut self.there, &mut self.here),
        };
        let at = SocketAddr::new(receiver.addr, 80);
        let listener = receiver.stack.tcp_listen(at, stack::ListenConfig::default());
        let listener = listener.expect("free");
        let config = tcp::Config::default();
        let now = self.clock.now();
        let connection = sender.stack.tcp_connect(at, None, &config, Owner::program(), now);
        let connection = connection.expect("a route");
        let (mut sent, mut got, mut accepted) = (0, 0, None);
        let data = vec![9; 1 << 16];
        let mut half = None;
        while got < bytes {
            assert!(self.turn(), "nothing happens after {got} bytes");
            let (sender, receiver) = match is_up {
                true => (&mut self.here, &mut self.there),
                false => (&mut self.there, &mut self.here),
            };
            sender.stack.poll(self.clock.now());
            receiver.stack.poll(self.clock.now());
            accepted = accepted.or_else(|| receiver.stack.tcp_accept(listener));
            while sent < bytes
                && let Ok(count) =
                    sender.stack.tcp_write(connection, &data[..data.len().min(bytes - sent)])
            {
                sent += count;
            }
            if let Some(accepted) = accepted {
                while let Ok(count) = receiver.stack.tcp_read_in_place(accepted, |_| {})
                    && count > 0
                {
                    got += count;
                }
            }
            if half.is_none() && got > bytes / 2 {
                half = Some((got, self.now()));
            }
        }
        let (before, began) = half.expect("it came in pieces");
        (got - before) as f64 * 8.0 / self.now().since(began).as_secs_f64()
    }
}

#[test]
fn round_trips_are_those_of_the_model() {
    let mut world = World::new([line(), Settings { delay: ms(30), ..line() }]);
    for bytes in [10, 1_472] {
        // 28 bytes of headers; 10 ns for each bit.
        let transmission = Duration::from_nanos((bytes as u64 + 28) * 8 * 10);
        let expected = ms(50) + transmission + transmission;
        assert_eq!(world.round_trip(bytes), expected, "{bytes} bytes");
    }
    let [up, down] = world.shape.counts();
    assert_eq!((up.sent, up.arrived, down.sent, down.arrived), (2, 2, 2, 2));
}

#[test]
fn goodput_is_that_of_the_model_in_both_directions() {
    // Each segment of 1,500 bytes carries 1,448.
    let model = 100e6 * 1_448.0 / 1_500.0;
    for is_up in [true, false] {
        let mut world = World::new([line(), line()]);
        let goodput = world.goodput(30_000_000, is_up);
        assert!(goodput > 0.96 * model && goodput <= model, "{:.1} %", 100.0 * goodput / model);
    }
}

#[test]
fn losses_are_counted_and_settings_change_while_it_runs() {
    let lossy = Settings { loss: Loss::Random(1.0), ..line() };
    let mut world = World::new([line(), line()]);
    world.shape.set(0, lossy);
    world.turn();
    let at = SocketAddr::new(world.there.addr, 7);
    let any = SocketAddr::new(world.here.addr, 0);
    let near = world.here.stack.udp_bind(any, Owner::program()).expect("free");
    for _ in 0..5 {
        let now = world.now();
        world.here.stack.udp_send(near, at, b"lost", now).expect("room");
    }
    for _ in 0..20 {
        world.turn();
    }
    assert_eq!((world.shape.counts()[0].sent, world.shape.counts()[0].lost), (5, 5));
    world.shape.set(0, Settings { delay: ms(1), ..Settings::default() });
    world.here.stack.poll(world.clock.now());
    assert!(world.round_trip(10) < ms(22));
}

/// A path says when it is ready next, whatever its device can do: one with a waker, and one with
/// neither waker nor descriptor.
#[test]
fn the_device_says_when_it_is_ready() {
    struct Mute(mem::Mem);
    impl Device for Mute {
        fn limits(&self) -> device::Limits {
            self.0.limits()
        }
        fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
            self.0.rx_burst(pool, into)
        }
        fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
            self.0.tx_burst(pool, from)
        }
        fn rx_ready(&self) -> bool {
            self.0.rx_ready()
        }
        fn tx_ready(&self) -> bool {
            self.0.tx_ready()
        }
        fn link_up(&self) -> bool {
            true
        }
    }
    fn check(device: impl Device, is_waking: bool) {
        let mut pool = Pool::new(1 << 24);
        let clock = VirtualClock::default();
        let (mut device, _) = Shaped::new(device, [line(), line()], 7, clock.of_devices());
        assert_eq!((device.arm(Waker::noop()), device.wakes_at()), (is_waking, Instant::NEVER));
        let mut burst = Burst::new();
        burst.push(pool.copy_of(&[0; 14 + 1_250]).expect("room"));
        assert_eq!(device.tx_burst(&mut pool, &mut burst), 1);
        assert_eq!(device.arm(Waker::noop()), is_waking);
        // 1,250 bytes take 100 us.
        let at = clock.now() + Duration::from_micros(20_100);
        assert_eq!(device.wakes_at(), at);
        assert!(!device.rx_ready());
    }
    let (left, _right) = mem::pair(&mem::Config::default());
    check(left, true);
    let (left, _right) = mem::pair(&mem::Config::default());
    check(Mute(left), false);
}

/// Packets that the device has no room for wait, and leave in order.
#[test]
fn a_full_device_loses_nothing() {
    let config = mem::Config { depth: 4, ..mem::Config::default() };
    let (left, mut right) = mem::pair(&config);
    let (mut pool, clock) = (Pool::new(1 << 24), Arc::new(|| Instant::from_nanos(5)));
    let (mut device, shape) = Shaped::new(left, Default::default(), 7, clock);
    let mut burst = Burst::new();
    for number in 0..50_u8 {
        burst.push(pool.copy_of(&[number; 60]).expect("room"));
    }
    assert_eq!(device.tx_burst(&mut pool, &mut burst), 50);
    assert!(device.is_unfinished());
    let mut got = Vec::new();
    for _ in 0..100 {
        let mut into = Burst::new();
        right.rx_burst(&mut pool, &mut into);
        got.extend(into.drain(..).map(|frame| frame.as_slice()[20]));
        device.rx_burst(&mut pool, &mut Burst::new());
    }
    assert_eq!(got, (0..50).collect::<Vec<u8>>());
    assert!(!device.is_unfinished());
    assert_eq!(shape.counts()[0].arrived, 50);
}

/// A packet that is sent between two polls wakes a sleeper that would wake after its arrival.
#[test]
fn a_packet_wakes_who_sleeps_longer() {
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (left, _right) = mem::pair(&mem::Config::default());
    let (mut pool, clock) = (Pool::new(1 << 20), Arc::new(|| Instant::from_nanos(5)));
    let (mut device, _shape) = Shaped::new(left, [line(), line()], 7, clock);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    assert!(device.arm(&Waker::from(woken.clone())) && device.wakes_at() == Instant::NEVER);
    let mut burst = Burst::new();
    burst.push(pool.copy_of(&[1; 60]).expect("room"));
    device.tx_burst(&mut pool, &mut burst);
    assert!(woken.0.load(Ordering::Relaxed));
}
