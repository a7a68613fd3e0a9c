//! The interface as packetdrill uses it: it is filled once and called from two threads, in virtual
//! time.
#![allow(unsafe_code)]

mod sockets;

use core::ffi::{CStr, c_int};
use core::net::{Ipv4Addr, SocketAddr};
use core::ptr;

use base::{Mtu, SeqNumber, WindowScale};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, Header, Options};
use wire::{ipv4, protocol, tcp as wire_tcp};

use super::entry::Data;
use super::{Interface, address, packetdrill_interface_init};

const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: u16 = 8080;
const REMOTE_PORT: u16 = 40_000;
/// The peer's first sequence number.
const IRS: u32 = 7000;

/// The interface, freed on drop.
struct Script(Interface);

// SAFETY: the world that the structure points to is thread-safe, which these tests check.
unsafe impl Sync for Script {}

impl Script {
    fn new(flags: &CStr) -> Script {
        let mut filled = core::mem::MaybeUninit::uninit();
        // SAFETY: there is room for the structure, and the call fills it.
        Script(unsafe {
            packetdrill_interface_init(flags.as_ptr(), filled.as_mut_ptr());
            filled.assume_init()
        })
    }

    fn data(&self) -> Data {
        self.0.userdata
    }

    fn socket(&self) -> c_int {
        // SAFETY: here and below: the interface's own data, and pointers to values that live long
        // enough.
        unsafe { (self.0.socket)(self.data(), libc::AF_INET, libc::SOCK_STREAM, 0) }
    }

    fn listener(&self) -> c_int {
        let fd = self.socket();
        let (mut bytes, mut len) = ([0u8; 16], 16);
        let addr = bytes.as_mut_ptr().cast();
        let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        // SAFETY: 16 bytes are there.
        unsafe {
            address::write(local, libc::AF_INET, addr, &mut len);
            assert_eq!((self.0.bind)(self.data(), fd, addr, len), 0);
            assert_eq!((self.0.listen)(self.data(), fd, 1), 0);
        }
        fd
    }

    fn time_us(&self) -> i64 {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: there is room for the structure.
        let done = unsafe { (self.0.gettimeofday)(self.data(), &mut time, ptr::null_mut()) };
        assert_eq!(done, 0);
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    fn usleep(&self, us: u32) {
        // SAFETY: the call takes no pointer but its data.
        unsafe { (self.0.usleep)(self.data(), us) };
    }

    fn inject(&self, seq: u32, ack: u32, flags: Flags, options: &Options, payload: &[u8]) {
        let packet = packet(seq, ack, flags, options, payload);
        // SAFETY: the packet has the length passed.
        let sent =
            unsafe { (self.0.netdev_send)(self.data(), packet.as_ptr().cast(), packet.len()) };
        assert_eq!(sent, 0);
    }

    /// The next packet's TCP header, its payload, and the time at which it left; `None` if no
    /// packet will come.
    fn sniff(&self) -> Option<(Header, Vec<u8>, i64)> {
        let (mut bytes, mut len, mut time) = (vec![0u8; 65_536], 65_536, 0);
        // SAFETY: the buffer has the length passed.
        let done = unsafe {
            let into = bytes.as_mut_ptr().cast();
            (self.0.netdev_receive)(self.data(), into, &mut len, &mut time)
        };
        assert_eq!(done, 0);
        let segment = bytes[..len].get(20..)?;
        let header = Header::parse(segment).unwrap();
        Some((header, segment[header.header_len..].to_vec(), time))
    }

    /// Let the peer open a connection, which can then be accepted. Returns our next sequence
    /// number.
    fn handshake(&self) -> u32 {
        let scale = Some(WindowScale::new(7));
        let options = Options { mss: Some(1000), window_scale: scale, ..Options::default() };
        self.inject(IRS, 0, Flags::SYN, &options, &[]);
        let (answer, ..) = self.sniff().expect("a SYN-ACK");
        assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
        self.usleep(100_000);
        let next = answer.seq + 1;
        self.inject(IRS + 1, next.0, Flags::ACK, &Options::default(), &[]);
        next.0
    }

    fn accept(&self, listener: c_int) -> c_int {
        // SAFETY: null pointers are allowed.
        unsafe { (self.0.accept)(self.data(), listener, ptr::null_mut(), ptr::null_mut()) }
    }

    fn option(&self, fd: c_int, level: c_int, name: c_int) -> c_int {
        let (mut value, mut len) = (0, 4);
        // SAFETY: there is room for an int.
        let done = unsafe {
            let into = ptr::from_mut(&mut value).cast();
            (self.0.getsockopt)(self.data(), fd, level, name, into, &mut len)
        };
        assert_eq!(done, 0);
        value
    }

    fn set_option(&self, fd: c_int, level: c_int, name: c_int, value: c_int) -> c_int {
        // SAFETY: an int is there.
        unsafe {
            let value = ptr::from_ref(&value).cast();
            (self.0.setsockopt)(self.data(), fd, level, name, value, 4)
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // SAFETY: called once, at the end.
        unsafe { (self.0.free)(self.data()) };
    }
}

fn packet(seq: u32, ack: u32, flags: Flags, options: &Options, payload: &[u8]) -> Vec<u8> {
    let mut area = [0; 40];
    let options_len = options.emit(&mut area);
    let header_len = wire_tcp::HEADER_LEN + options_len;
    let header = Header {
        src_port: REMOTE_PORT,
        dst_port: PORT,
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        header_len,
        flags,
        window: 257,
        // The urgent data ends where the payload ends.
        urgent: if flags.contains(Flags::URG) { payload.len() as u16 } else { 0 },
    };
    let mut segment = vec![0; header_len];
    assert!(header.emit(&mut segment));
    segment[wire_tcp::HEADER_LEN..].copy_from_slice(&area[..options_len]);
    segment.extend_from_slice(payload);
    let pseudo =
        Sum::pseudo_v4(REMOTE, LOCAL, protocol::TCP).plus(Sum::of_be16(segment.len() as u16));
    let field = pseudo.plus(Ladder::Word64.sum(&segment)).field();
    wire_tcp::set_checksum(&mut segment, field);
    let ip = ipv4::Header {
        header_len: ipv4::HEADER_LEN,
        tos: 0,
        total_len: (ipv4::HEADER_LEN + segment.len()) as u16,
        id: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        src: REMOTE,
        dst: LOCAL,
    };
    let mut packet = vec![0; ipv4::HEADER_LEN];
    assert!(ip.emit(&mut packet));
    packet.extend_from_slice(&segment);
    packet
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[test]
fn each_look_at_the_clock_is_later_than_the_one_before() {
    let script = Script::new(c"linux");
    let first = script.time_us();
    assert!(script.time_us() > first);
    let before = script.time_us();
    script.usleep(250_000);
    let slept = script.time_us() - before;
    assert!((250_000..250_010).contains(&slept), "{slept}");
}

#[test]
fn without_a_socket_no_packet_will_ever_come() {
    assert!(Script::new(c"linux").sniff().is_none());
}

#[test]
fn data_goes_both_ways_and_packets_have_virtual_times() {
    let script = Script::new(c"linux");
    let listener = script.listener();
    let next = script.handshake();
    let fd = script.accept(listener);
    assert!(fd >= 0, "errno {}", errno());
    let before = script.time_us();
    // SAFETY: five bytes are there.
    let written = unsafe { (script.0.write)(script.data(), fd, c"hello".as_ptr().cast(), 5) };
    assert_eq!(written, 5);
    let (header, payload, time) = script.sniff().unwrap();
    assert_eq!((header.seq.0, payload.as_slice()), (next, &b"hello"[..]));
    assert_eq!(header.flags, Flags::ACK | Flags::PSH);
    assert!(time >= before && time <= script.time_us());
    script.inject(IRS + 1, next + 5, Flags::ACK | Flags::PSH, &Options::default(), b"there");
    let mut bytes = [0u8; 16];
    // SAFETY: 16 bytes are there.
    let read = unsafe { (script.0.read)(script.data(), fd, bytes.as_mut_ptr().cast(), 16) };
    assert_eq!((read, &bytes[..5]), (5, &b"there"[..]));
}

#[test]
fn a_lost_segment_goes_again_when_its_time_has_come() {
    let script = Script::new(c"linux");
    let listener = script.listener();
    script.handshake();
    let fd = script.accept(listener);
    // SAFETY: a byte is there.
    assert_eq!(unsafe { (script.0.write)(script.data(), fd, c"x".as_ptr().cast(), 1) }, 1);
    let (first, _, sent) = script.sniff().unwrap();
    let (again, _, resent) = script.sniff().unwrap();
    assert_eq!(again.seq, first.seq);
    // SRTT is 100 ms, and the variance term of the RTO has a minimum of 200 ms.
    assert!((300_000..305_000).contains(&(resent - sent)), "{}", resent - sent);
}

#[test]
fn a_call_that_blocks_returns_at_the_time_of_what_it_waited_for() {
    let script = Script::new(c"linux");
    let listener = script.listener();
    let began = script.time_us();
    let (fd, at) = std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            let fd = script.accept(listener);
            // Packetdrill also reads the clock as the first thing after a call.
            (fd, script.time_us())
        });
        // The other thread must sleep before time advances.
        while Script::sleepers(&script) == 0 {
            std::thread::yield_now();
        }
        script.handshake();
        script.usleep(5_000_000);
        blocked.join().unwrap()
    });
    assert!(fd >= 0);
    assert!((100_000..101_000).contains(&(at - began)), "{}", at - began);
}

impl Script {
    /// The number of blocked calls.
    fn sleepers(&self) -> usize {
        // SAFETY: `userdata` is a world until `free`.
        unsafe { &*self.data().cast::<super::world::World>() }.blocked()
    }
}

#[test]
fn buffers_are_doubled_on_linux_and_as_set_on_freebsd() {
    let linux = Script::new(c"linux");
    let fd = linux.socket();
    assert_eq!(linux.set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 21_000), 0);
    assert_eq!(linux.option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF), 42_000);
    let free_bsd = Script::new(c"freebsd");
    let fd = free_bsd.socket();
    assert_eq!(free_bsd.option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF), 65_536);
    assert_eq!(free_bsd.option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF), 32_768);
}

#[test]
fn mss_is_what_the_option_says_and_what_the_link_carries() {
    let script = Script::new(c"linux");
    let listener = script.listener();
    assert_eq!(script.set_option(listener, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 900), 0);
    script.handshake();
    let fd = script.accept(listener);
    assert_eq!(script.option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG), 900);
    assert_eq!(script.set_option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 1), -1);
    assert_eq!(errno(), libc::EINVAL);
    assert!(Mtu::ETHERNET.bytes() > 900);
}

#[test]
fn a_null_buffer_is_a_bad_address_and_a_wrong_number_a_bad_descriptor() {
    let script = Script::new(c"linux");
    let listener = script.listener();
    script.handshake();
    let fd = script.accept(listener);
    // SAFETY: the calls check for null.
    unsafe {
        assert_eq!((script.0.write)(script.data(), fd, ptr::null(), 1000), -1);
        assert_eq!(errno(), libc::EFAULT);
        assert_eq!((script.0.read)(script.data(), fd, ptr::null_mut(), 1000), -1);
        assert_eq!(errno(), libc::EFAULT);
        assert_eq!((script.0.close)(script.data(), 9999), -1);
        assert_eq!(errno(), libc::EBADF);
    }
}

#[test]
fn libc_s_getsockopt_knows_our_sockets() {
    // Only one world is served at a time, and other tests make worlds too. So the test calls the
    // function that replaces libc's `getsockopt`.
    let script = Script::new(c"linux");
    let listener = script.listener();
    script.handshake();
    let fd = script.accept(listener);
    let (mut bytes, mut len) = ([0u8; 512], 512);
    // SAFETY: 512 bytes are there.
    let done = unsafe {
        let into = bytes.as_mut_ptr().cast();
        super::entry::getsockopt(
            script.data(),
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            into,
            &mut len,
        )
    };
    assert_eq!((done, len), (0, 280));
    assert_eq!(bytes[0], 1, "ESTABLISHED");
    assert_eq!(u32::from_ne_bytes([bytes[80], bytes[81], bytes[82], bytes[83]]), 10, "cwnd");
}
