//! Requests that do not fit, and sockets that are not what they should be.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use device::{Burst, Device};
use mbuf::Pool;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion};
use wirespeed_virtio::VhostUser;

use crate::guest::{ALL, BYTES, MEMORY, eventfd, memory};
use crate::world::{SMALL, World, connect, place};

/// A message: request, flags, size, body.
fn message(request: u32, size: u32, body: &[u8]) -> Vec<u8> {
    let words = [request, 1, size].map(u32::to_ne_bytes);
    [words.as_flattened(), body].concat()
}

fn port() -> (VhostUser, Pool, std::path::PathBuf) {
    let path = place();
    (VhostUser::listen(&path).expect("a place"), Pool::new(16 << 20), path)
}

/// Let the port see what is there.
fn look(port: &mut VhostUser, pool: &mut Pool) {
    for _ in 0..4 {
        port.rx_ready();
        assert_eq!(port.rx_burst(pool, &mut Burst::new()), 0);
    }
}

fn is_closed(socket: &mut UnixStream) -> bool {
    socket.set_nonblocking(true).expect("a socket");
    let mut room = [0; 4_096];
    loop {
        match socket.read(&mut room) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// A machine that keeps the rules is served.
fn serves((mut port, mut pool, path): (VhostUser, Pool, std::path::PathBuf)) {
    let guest = connect(&mut port, &mut pool, &path, ALL, SMALL);
    let mut world = World { port, pool, guest, path };
    assert!(world.guest.send([0; 10], &[5; 60]));
    assert_eq!(world.received(), [[5; 60]]);
}

#[test]
fn a_message_that_comes_byte_by_byte_is_awaited_without_waiting() {
    let (mut port, mut pool, path) = port();
    let mut socket = UnixStream::connect(&path).expect("it listens");
    // GET_FEATURES, then SET_FEATURES with what is offered at the least.
    for byte in [message(1, 0, &[]), message(2, 8, &(1_u64 << 32).to_ne_bytes())].concat() {
        look(&mut port, &mut pool);
        socket.write_all(&[byte]).expect("room");
    }
    look(&mut port, &mut pool);
    let mut answer = [0; 20];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[..4], 1_u32.to_ne_bytes());
    assert!(!is_closed(&mut socket));
    drop(socket);
    look(&mut port, &mut pool);
    serves((port, pool, path));
}

#[test]
fn requests_that_do_not_fit_end_the_connection_with_a_reason() {
    let (mut port, mut pool, path) = port();
    let u64s = |value: u64| value.to_ne_bytes();
    for bytes in [
        vec![0xff; 64],
        message(0, 0, &[]),
        message(999, 0, &[]),
        message(1, 4_097, &[0; 100]),
        message(1, u32::MAX, &[0; 100]),
        message(1, 8, &[0; 8]),
        message(2, 8, &u64s(u64::MAX)),
        // SET_VRING_NUM: no ring, sizes that are none.
        message(8, 8, &u64s(2 | 256 << 32)),
        message(8, 8, &u64s(u64::from(u32::MAX) | 256 << 32)),
        message(8, 8, &u64s(0)),
        message(8, 8, &u64s(3 << 32)),
        message(8, 8, &u64s(65_536 << 32)),
        // SET_VRING_BASE beyond 16 bits, GET_VRING_BASE of no ring.
        message(10, 8, &u64s(65_536 << 32)),
        message(11, 8, &u64s(7)),
        // SET_VRING_ENABLE of no ring, with neither yes nor no, and too short.
        message(18, 8, &u64s(2 | 1 << 32)),
        message(18, 8, &u64s(2 << 32)),
        message(18, 4, &[0; 4]),
        // SET_MEM_TABLE without files, SET_VRING_ADDR without memory, SET_VRING_KICK of no ring.
        message(5, 40, &[1; 40]),
        message(9, 40, &[0; 40]),
        message(12, 8, &u64s(0x1ff)),
        message(17, 0, &[]),
        message(24, 16, &[0; 16]),
    ] {
        let mut socket = UnixStream::connect(&path).expect("it listens");
        socket.write_all(&bytes).expect("room");
        look(&mut port, &mut pool);
        assert!(is_closed(&mut socket), "{:?}", &bytes[..12]);
        let why = port.failure().expect("a reason").to_string();
        assert!(why.contains("does not permit"), "{why}");
    }
    serves((port, pool, path));
}

#[test]
fn a_frontend_that_takes_no_answers_is_sent_away() {
    let (mut port, mut pool, path) = port();
    let mut socket = UnixStream::connect(&path).expect("it listens");
    socket.set_nonblocking(true).expect("a socket");
    let ask = message(1, 0, &[]).repeat(200);
    for _ in 0..400 {
        let _ = socket.write(&ask);
        look(&mut port, &mut pool);
    }
    assert!(is_closed(&mut socket));
    serves((port, pool, path));
}

/// Send requests, in a thread; they may fail.
fn tries(
    port: &mut VhostUser,
    pool: &mut Pool,
    path: &Path,
    what: impl FnOnce(Frontend) + Send + 'static,
) {
    let path = path.to_owned();
    crate::world::beside(port, pool, move || {
        let frontend = Frontend::connect(&path, 2).expect("it listens");
        frontend.set_owner().expect("it is there");
        let offered = frontend.get_features().expect("an answer");
        frontend.set_features(offered & !(1 << 26)).expect("they were offered");
        what(frontend);
    });
    look(port, pool);
    assert!(!port.link_up());
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let (mut port, mut pool, path) = port();
    let region = |guest, size, user, offset| {
        move |mut frontend: Frontend| {
            let memory = memory();
            let file = memory.iter().next().expect("one").file_offset().expect("a file");
            let info = VhostUserMemoryRegionInfo {
                guest_phys_addr: guest,
                memory_size: size,
                userspace_addr: user,
                mmap_offset: offset,
                mmap_handle: file.file().as_raw_fd(),
            };
            let _ = frontend.set_mem_table(&[info, info]);
            let _ = frontend.set_mem_table(&[info]);
            let _ = frontend.get_features();
            let _ = frontend.add_mem_region(&info);
        }
    };
    for (guest, size, user, offset) in [
        (MEMORY, BYTES + 1, 0, 0),
        (MEMORY, 1 << 46, 0, 0),
        (MEMORY, BYTES, 0, 4_096),
        (MEMORY, 4_096, 0, 1),
        (u64::MAX - 4_096, 4_096, u64::MAX - 4_096, 0),
    ] {
        tries(&mut port, &mut pool, &path, region(guest, size, user, offset));
    }
    serves((port, pool, path));
}

#[test]
fn rings_beyond_the_memory_do_not_start() {
    let (mut port, mut pool, path) = port();
    for at in [0, BYTES - 16, BYTES - 4_096, BYTES, u64::MAX - 0x7fff, 8] {
        tries(&mut port, &mut pool, &path, move |frontend| {
            let memory = memory();
            let region = memory.iter().next().expect("one");
            let file = region.file_offset().expect("a file");
            let user = memory.get_host_address(region.start_addr()).expect("it is there") as u64;
            let info = VhostUserMemoryRegionInfo {
                guest_phys_addr: MEMORY,
                memory_size: BYTES,
                userspace_addr: user,
                mmap_offset: 0,
                mmap_handle: file.file().as_raw_fd(),
            };
            let _ = frontend.set_mem_table(&[info]);
            let place = user.wrapping_add(at);
            let config = VringConfigData {
                queue_max_size: 256,
                queue_size: 256,
                flags: 0,
                desc_table_addr: place & !15,
                used_ring_addr: place & !3,
                avail_ring_addr: if at == 0 { 2 } else { place & !1 },
                log_addr: None,
            };
            for ring in [0, 1] {
                let _ = frontend.set_vring_num(ring, 256);
                let _ = frontend.set_vring_addr(ring, &config);
                // A kick that is no eventfd can only wake us.
                let _ = frontend.set_vring_kick(ring, &eventfd());
            }
        });
    }
    serves((port, pool, path));
}
