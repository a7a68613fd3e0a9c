//! What only the inside shows: how many bytes are kept.

use super::*;

/// Bytes of a frame here, and of it on the socket.
const FRAME: usize = 1_000;
const SENT: usize = LENGTH + FRAME;

/// A port, the machine that has connected to it, and a pool.
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

/// Send the frame of this number; was it taken?
fn is_taken(port: &mut Stream, pool: &mut Pool, number: usize) -> bool {
    let mut burst = Burst::new();
    burst.push(pool.copy_of(&[number as u8; FRAME]).expect("memory"));
    let taken = port.tx_burst(pool, &mut burst);
    burst.drain(..).for_each(|frame| pool.free(frame));
    taken == 1
}

/// The byte at this place of what the machine gets.
fn byte(at: usize) -> u8 {
    let (number, within) = (at / SENT, at % SENT);
    (FRAME as u32).to_be_bytes().get(within).copied().unwrap_or(number as u8)
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
