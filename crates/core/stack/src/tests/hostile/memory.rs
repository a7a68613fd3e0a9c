use base::{DropReason, Limit};

use super::{NOW, established, nothing_is_left};
use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Tcp};

/// Gives one-byte segments of the peer, at these offsets, to a stack whose user does not read.
fn one_byte_segments(bench: &mut Bench, next: &Tcp, offsets: impl Iterator<Item = u32>) {
    for offset in offsets {
        let segment = Tcp { seq: next.seq + offset, payload: vec![offset as u8], ..next.clone() };
        let frame = bench.tcp_frame(&segment);
        bench.exchange(&frame, NOW);
    }
}

/// The bytes of all buffers that the stack holds, of the peer's pool and of its own.
fn held_bytes(bench: &mut Bench) -> usize {
    let buffers = bench.peers_buffers_out() + bench.stack.pool().outstanding();
    buffers * mbuf::Class::K2.stride()
}

#[test]
fn one_byte_segments_in_order_do_not_hold_a_buffer_each() {
    for predict in [true, false] {
        let mut config = PairConfig::new([7, 8]);
        config.stack.switches = config.stack.switches.with(base::Switch::Predict, predict);
        let (mut bench, handle, next) = established(&config, tcp::Config::default());
        const BYTES: u32 = 65_000;
        one_byte_segments(&mut bench, &next, 0..BYTES);
        let held = held_bytes(&mut bench);
        assert!(held < 2 * BYTES as usize, "{held} bytes of buffers for {BYTES} bytes of data");
        let mut data = vec![0; BYTES as usize + 1];
        assert_eq!(bench.stack.tcp_read(handle, &mut data), Ok(BYTES as usize));
        assert!((0..BYTES).all(|i| data[i as usize] == i as u8));
        nothing_is_left(&mut bench, &[handle], NOW);
    }
}

#[test]
fn one_byte_segments_out_of_order_do_not_hold_a_buffer_each() {
    let (mut bench, handle, next) = established(&PairConfig::new([7, 8]), tcp::Config::default());
    const BYTES: u32 = 60_000;
    one_byte_segments(&mut bench, &next, 1..BYTES);
    let held = held_bytes(&mut bench);
    assert!(held < 2 * BYTES as usize, "{held} bytes of buffers for {BYTES} bytes of data");
    assert_eq!(bench.stack.tcp_readable(handle), Some((0, false)));
    one_byte_segments(&mut bench, &next, 0..1);
    let mut data = vec![0; BYTES as usize + 1];
    assert_eq!(bench.stack.tcp_read(handle, &mut data), Ok(BYTES as usize));
    assert!((0..BYTES).all(|i| data[i as usize] == i as u8));
    nothing_is_left(&mut bench, &[handle], NOW);
}

/// Every second byte of the stream: no pieces can be merged, so their number is bounded by the
/// memory that the window may cost.
#[test]
fn segment_smack_cve_2018_5390() {
    for receive_buffer_bytes in [4_000, 65_000, 512 * 1024] {
        let receive_buffer_max_bytes = 0;
        let tcp = tcp::Config {
            receive_buffer_bytes,
            receive_buffer_max_bytes,
            ..tcp::Config::default()
        };
        let (mut bench, handle, next) = established(&PairConfig::new([7, 8]), tcp);
        let window = receive_buffer_bytes.min(65_000);
        one_byte_segments(&mut bench, &next, (1..window).step_by(2));
        let held = held_bytes(&mut bench);
        let most = 4 * receive_buffer_bytes as usize + 16 * 2_112;
        assert!(held <= most, "{held} bytes of buffers for a window of {receive_buffer_bytes}");
        let full = bench.stack.drops().of(DropReason::TcpReassemblyFull);
        assert!(full > 0);
        assert_eq!(bench.stack.budget().hits(Limit::ReassemblySegments), full);
        nothing_is_left(&mut bench, &[handle], NOW);
    }
}

/// Between two stacks a received small segment holds the sender's buffer.
#[test]
fn small_writes_of_another_stack_do_not_hold_its_buffers() {
    use crate::pair::pair;
    use crate::{Event, ListenConfig};
    let (mut client, mut server) = pair(&PairConfig::new([9, 9]));
    let local = core::net::SocketAddr::new(server.addr, 80);
    let listener = server.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    let tcp = tcp::Config { no_delay: true, ..tcp::Config::default() };
    let owner = base::Owner::program();
    let c = client.stack.tcp_connect(local, None, &tcp, owner, NOW).expect("routed");
    let mut now = NOW;
    let mut accepted = None;
    for i in 0..5_000 {
        now += base::Duration::from_micros(50);
        client.stack.poll(now);
        server.stack.poll(now);
        if let Some(Event::Accept(_)) = server.stack.next_event() {
            accepted = server.stack.tcp_accept(listener);
        }
        if accepted.is_some() {
            let _ = client.stack.tcp_write(c, &[i as u8]);
        }
    }
    for _ in 0..100 {
        now += base::Duration::from_millis(50);
        client.stack.poll(now);
        server.stack.poll(now);
    }
    let handle = accepted.expect("accepted");
    let (unread, _) = server.stack.tcp_readable(handle).expect("there");
    assert!(unread > 4_000);
    assert!(client.stack.pool().outstanding() < 40, "{}", client.stack.pool().outstanding());
    assert!(server.stack.pool().outstanding() < 40, "{}", server.stack.pool().outstanding());
    let mut data = vec![0; unread + 1];
    assert_eq!(server.stack.tcp_read(handle, &mut data), Ok(unread));
    assert!(data[..unread].windows(2).all(|w| w[1] == w[0].wrapping_add(1)));
}
