//! Tests of internal state: how many bytes are buffered, and that bytes below the limit wait.

use super::*;

/// Bytes of a frame, and bytes that the frame takes on the socket.
const FRAME: usize = 1_000;
const SENT: usize = LENGTH + FRAME;

/// A port, a machine that is connected to it, and a pool.
fn pair(name: &str) -> (Stream, UnixStream, Pool) {
    let name = format!("wsvm-inside-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut port = Stream::listen(&path).expect("a place");
    let machine = UnixStream::connect(&path).expect("it listens");
    machine.set_nonblocking(true).expect("a socket");
    port.accept();
    assert!(port.link_up());
    (port, machine, Pool::new(8 << 20))
}

/// Send the frame with this number. Returns whether the port took it.
fn is_taken(port: &mut Stream, pool: &mut Pool, number: usize) -> bool {
    let mut burst = Burst::new();
    burst.push(pool.copy_of(&[number as u8; FRAME]).expect("memory"));
    let taken = port.tx_burst(pool, &mut burst);
    burst.drain(..).for_each(|frame| pool.free(frame));
    taken == 1
}

/// The byte at this offset of the stream that the machine receives.
fn byte(at: usize) -> u8 {
    let (number, within) = (at / SENT, at % SENT);
    (FRAME as u32).to_be_bytes().get(within).copied().unwrap_or(number as u8)
}

/// Read everything available, and check it as the stream after `read` bytes.
fn read_all(machine: &mut UnixStream, read: &mut usize) {
    let mut room = vec![0; 1 << 20];
    while let Ok(got @ 1..) = machine.read(&mut room) {
        assert!(room[..got].iter().copied().eq((*read..*read + got).map(byte)));
        *read += got;
    }
}

#[test]
fn a_buffer_that_is_never_empty_does_not_grow() {
    let (mut port, mut machine, mut pool) = pair("grow");
    let (mut taken, mut read) = (0, 0);
    let mut room = vec![0; 50_000];
    while read < 8 << 20 {
        while is_taken(&mut port, &mut pool, taken) {
            taken += 1;
        }
        assert!(!port.outgoing.is_empty(), "it pushed back");
        assert!(port.outgoing.len() < 2 * (WAITING + SENT), "{read} bytes are read");
        let got = machine.read(&mut room).expect("the socket was full");
        assert!(room[..got].iter().copied().eq((read..read + got).map(byte)));
        read += got;
    }
    assert!(port.outgoing.capacity() < 8 * WAITING);
}

#[test]
fn bytes_that_wait_below_the_limit_leave_when_the_machine_reads() {
    let (mut port, mut machine, mut pool) = pair("tail");
    let (mut taken, mut read) = (0, 0);
    while port.outgoing.is_empty() {
        assert!(is_taken(&mut port, &mut pool, taken), "the socket is smaller than the limit");
        taken += 1;
    }
    assert!(port.tx_ready(), "nothing was pushed back");
    assert!(!port.rx_ready(), "and there is nothing to do");
    read_all(&mut machine, &mut read);
    assert!(read < taken * SENT, "the last bytes wait");
    let lent = port.as_fd().expect("the machine is there");
    assert!(is_ready(&lent, PollFlags::IN), "a driver that sleeps there is woken for room");
    assert!(port.rx_ready());
    let mut burst = Burst::new();
    assert_eq!(port.rx_burst(&mut pool, &mut burst), 0);
    read_all(&mut machine, &mut read);
    assert_eq!(read, taken * SENT);
    assert!(!port.rx_ready(), "and is not woken again");
}
