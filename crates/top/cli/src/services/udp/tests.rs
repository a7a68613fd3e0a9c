use wirespeed::pair::{End, PairConfig, pair};
use wirespeed::{Mbuf, UdpError};

use super::*;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// A client, and the services at the other end.
struct World {
    asker: End,
    server: End,
    datagrams: Datagrams,
    moved: Moved,
}

impl World {
    fn new(rate: u32) -> World {
        let (asker, mut server) = pair(&PairConfig::new([7, 9]));
        let addresses = std::iter::once(server.addr);
        let datagrams =
            Datagrams::bind(&mut server.stack, addresses, rate).expect("ports are free");
        World { asker, server, datagrams, moved: Moved::default() }
    }

    /// Send `payload` from `port` to a service; the reply, if there is one.
    fn ask(&mut self, port: u16, service: u16, payload: &[u8], now: Instant) -> Option<Vec<u8>> {
        let at = SocketAddr::new(self.asker.addr, port);
        let socket = self.asker.stack.udp_bind(at, Owner::program()).expect("the port is free");
        let to = SocketAddr::new(self.server.addr, service);
        let sent: Result<(), UdpError> = self.asker.stack.udp_send(socket, to, payload, now);
        sent.expect("there is room");
        for _ in 0..3 {
            self.asker.stack.poll(now);
            self.server.stack.poll(now);
            while let Some(event) = self.server.stack.next_event() {
                if let wirespeed::Event::Udp(handle) = event {
                    let stack = &mut self.server.stack;
                    self.datagrams.serve(handle, stack, now, &mut self.moved);
                }
            }
            self.server.stack.flush();
        }
        self.asker.stack.poll(now);
        let answer = self.asker.stack.udp_receive(socket);
        let bytes = |payload: &Mbuf| payload.as_slice().to_vec();
        let answer = answer.map(|datagram| {
            assert_eq!(datagram.from, to, "from the address that was asked");
            bytes(&datagram.payload)
        });
        self.asker.stack.udp_close(socket);
        answer
    }
}

#[test]
fn each_service_answers_what_its_rfc_says() {
    let mut world = World::new(100);
    assert_eq!(world.ask(40_000, 7, b"hello", NOW).as_deref(), Some(&b"hello"[..]));
    assert_eq!(world.ask(40_000, 7, b"", NOW).as_deref(), Some(&b""[..]));
    assert_eq!(world.ask(40_000, 9, b"hello", NOW), None);
    let time = world.ask(40_000, 13, b"", NOW).expect("an answer");
    assert!(time.ends_with(b"-UTC\r\n"), "{time:?}");
    let characters = world.ask(40_000, 19, &[0; 400], NOW).expect("an answer");
    assert_eq!(characters, &pattern()[..512]);
    assert_eq!((world.moved.datagrams, world.moved.answered), (5, 4));
}

#[test]
fn no_service_is_answered() {
    let mut world = World::new(100);
    for port in [7, 9, 13, 19, 53, 123, 1023] {
        for service in [7, 13, 19] {
            assert_eq!(world.ask(port, service, b"x", NOW), None, "{port} asks {service}");
        }
    }
    assert_eq!((world.moved.from_services, world.moved.answered), (21, 0));
    assert!(world.ask(1024, 7, b"x", NOW).is_some());
}

#[test]
fn an_answer_is_three_times_what_came_at_most() {
    let mut world = World::new(100);
    for bytes in [0, 1, 50, 100, 1000] {
        let packet = 28 + bytes;
        for service in [7, 13, 19] {
            let answer = world.ask(40_000, service, &vec![b'x'; bytes], NOW).expect("an answer");
            assert!(28 + answer.len() <= 3 * packet, "{service}: {} to {bytes}", answer.len());
        }
    }
    assert_eq!(world.ask(40_000, 19, b"", NOW).map(|answer| answer.len()), Some(56));
}

#[test]
fn so_many_a_second_are_answered() {
    let mut world = World::new(10);
    let answered = |world: &mut World, at: Instant| {
        (0..30).filter(|_| world.ask(40_000, 7, b"x", at).is_some()).count()
    };
    assert_eq!(answered(&mut world, NOW), 10);
    assert_eq!(answered(&mut world, NOW + Duration::from_millis(500)), 5);
    assert_eq!(answered(&mut world, NOW + Duration::from_secs(60)), 10, "no more is saved up");
    assert_eq!(world.moved.over_limit, 65);
}

#[test]
fn who_asks_for_nothing_costs_nothing_of_the_limit() {
    let mut world = World::new(1);
    (0..5).for_each(|_| assert_eq!(world.ask(40_000, 9, b"x", NOW), None));
    (0..5).for_each(|_| assert_eq!(world.ask(7, 7, b"x", NOW), None));
    assert!(world.ask(40_000, 7, b"x", NOW).is_some());
}
