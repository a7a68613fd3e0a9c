//! Sockets apart from the stream's data: options that take effect or are refused, urgent data out
//! of band, times and amounts for which a read waits, and the end of a connection by `connect`.

use super::*;

/// A connected socket, and our next sequence number.
fn connection(script: &Script) -> (c_int, u32) {
    let listener = script.listener();
    let next = script.handshake();
    (script.accept(listener), next)
}

impl Script {
    /// Data from the peer, which begins `at` bytes into its stream.
    fn comes(&self, at: u32, next: u32, flags: Flags, data: &[u8]) {
        let flags = flags | Flags::ACK | Flags::PSH;
        self.inject(IRS + 1 + at, next, flags, &Options::default(), data);
    }

    fn recv(&self, fd: c_int, flags: c_int) -> Result<Vec<u8>, i32> {
        let mut bytes = [0u8; 16];
        // SAFETY: 16 bytes are there.
        let read = unsafe { (self.0.recv)(self.data(), fd, bytes.as_mut_ptr().cast(), 16, flags) };
        usize::try_from(read).map(|n| bytes[..n].to_vec()).map_err(|_| errno())
    }

    fn ioctl(&self, fd: c_int, request: libc::c_ulong) -> c_int {
        let mut value: c_int = -1;
        // SAFETY: there is room for an int.
        assert_eq!(unsafe { (self.0.ioctl)(self.data(), fd, request, &mut value) }, 0);
        value
    }

    /// `SO_RCVTIMEO`.
    fn read_timeout(&self, fd: c_int, us: i64) {
        let value = [us / 1_000_000, us % 1_000_000];
        // SAFETY: sixteen bytes are there.
        let done = unsafe {
            let at = value.as_ptr().cast();
            (self.0.setsockopt)(self.data(), fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, at, 16)
        };
        assert_eq!(done, 0);
    }
}

const AT_MARK: libc::c_ulong = 0x8905;

#[test]
fn an_option_that_nothing_does_is_refused() {
    let script = Script::new(c"linux");
    let fd = script.socket();
    for (level, name, value) in [
        (libc::SOL_SOCKET, libc::SO_TIMESTAMP, 1),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 1),
        (libc::IPPROTO_IP, libc::IP_RECVTOS, 1),
        (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 1),
        (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, 1),
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0),
        (libc::IPPROTO_TCP, libc::TCP_LINGER2, -1),
    ] {
        assert_eq!(script.set_option(fd, level, name, value), -1, "{level} {name}");
        assert_eq!(errno(), libc::ENOPROTOOPT);
    }
    for (asked, is) in [(5, 5), (1_000, 120), (0, 60)] {
        assert_eq!(script.set_option(fd, libc::IPPROTO_TCP, libc::TCP_LINGER2, asked), 0);
        assert_eq!(script.option(fd, libc::IPPROTO_TCP, libc::TCP_LINGER2), is);
    }
}

#[test]
fn the_urgent_byte_is_out_of_band() {
    let script = Script::new(c"linux");
    let (fd, next) = connection(&script);
    assert_eq!(script.recv(fd, libc::MSG_OOB | libc::MSG_DONTWAIT), Err(libc::EINVAL));
    script.comes(0, next, Flags::URG, b"abc");
    assert_eq!((script.ioctl(fd, libc::FIONREAD), script.ioctl(fd, AT_MARK)), (2, 0));
    // The urgent byte can be read before the bytes that come before it in the stream.
    let peek = libc::MSG_OOB | libc::MSG_PEEK;
    assert_eq!(script.recv(fd, peek), Ok(b"c".to_vec()));
    assert_eq!(script.recv(fd, libc::MSG_OOB), Ok(b"c".to_vec()));
    assert_eq!(script.recv(fd, libc::MSG_OOB), Err(libc::EINVAL), "once");
    assert_eq!(script.recv(fd, 0), Ok(b"ab".to_vec()));
    assert_eq!((script.ioctl(fd, libc::FIONREAD), script.ioctl(fd, AT_MARK)), (0, 1));
    assert_eq!(script.recv(fd, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    script.comes(3, next, Flags::NONE, b"de");
    assert_eq!(script.recv(fd, 0), Ok(b"de".to_vec()));
    // A reader that does not ask for the urgent byte never gets it.
    script.comes(5, next, Flags::URG, b"f");
    script.comes(6, next, Flags::NONE, b"g");
    assert_eq!(script.recv(fd, 0), Ok(b"g".to_vec()));
}

#[test]
fn the_urgent_byte_stays_in_the_stream_if_asked_for() {
    let script = Script::new(c"linux");
    let (fd, next) = connection(&script);
    assert_eq!(script.set_option(fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1), 0);
    script.comes(0, next, Flags::URG, b"abc");
    assert_eq!(script.ioctl(fd, libc::FIONREAD), 3);
    assert_eq!(script.recv(fd, libc::MSG_OOB), Err(libc::EINVAL));
    assert_eq!(script.recv(fd, 0), Ok(b"ab".to_vec()));
    assert_eq!(script.ioctl(fd, AT_MARK), 1);
    assert_eq!(script.recv(fd, 0), Ok(b"c".to_vec()));
}

#[test]
fn a_read_ends_at_its_time_with_what_is_there() {
    let script = Script::new(c"linux");
    let (fd, next) = connection(&script);
    script.read_timeout(fd, 250_000);
    let took = |want: Result<Vec<u8>, i32>| {
        let before = script.time_us();
        assert_eq!(script.recv(fd, 0), want);
        (script.time_us() - before + 500) / 1000
    };
    assert_eq!(took(Err(libc::EAGAIN)), 250);
    assert_eq!(script.set_option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 5), 0);
    script.comes(0, next, Flags::NONE, b"abc");
    assert_eq!(took(Ok(b"abc".to_vec())), 250, "the time of a read that got less than SO_RCVLOWAT");
    script.comes(3, next, Flags::NONE, b"defgh");
    assert_eq!(took(Ok(b"defgh".to_vec())), 0);
    script.comes(8, next, Flags::NONE, b"i");
    assert_eq!(script.recv(fd, libc::MSG_DONTWAIT), Ok(b"i".to_vec()));
}

#[test]
fn connect_without_a_family_ends_the_connection() {
    let script = Script::new(c"linux");
    let (fd, next) = connection(&script);
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    // SAFETY: a whole address is there.
    assert_eq!(unsafe { (script.0.connect)(script.data(), fd, &nowhere, 16) }, 0);
    let (reset, ..) = script.sniff().expect("a RST");
    assert_eq!((reset.flags, reset.seq.0), (Flags::RST | Flags::ACK, next));
    assert_eq!(script.recv(fd, 0), Err(libc::ENOTCONN));
    // The socket is as new: a second call finds no connection, and that is no error. SAFETY: as
    // above.
    assert_eq!(unsafe { (script.0.connect)(script.data(), fd, &nowhere, 16) }, 0);
}
