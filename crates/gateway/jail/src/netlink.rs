//! Messages of rtnetlink, as far as a veth pair with addresses and routes needs them: builds a
//! request, sends it, and waits for the kernel's acknowledgement.
//!
//! Called by: `link.rs`. Sources: netlink(7), rtnetlink(7), Linux `uapi/linux/if_link.h`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Bytes of a message's header, and of an attribute's.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

/// Flags of a message: a request, an acknowledgement is wanted, make a new one.
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
pub(crate) const NEW: u16 = 0x200 | 0x400;

const ERROR: u16 = 2;

/// A request under construction.
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of this type with the fixed part of its body.
    pub(crate) fn new(kind: u16, flags: u16, body: &[u8]) -> Request {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(REQUEST | ACK | flags).to_ne_bytes());
        bytes.extend(body);
        let mut request = Request { bytes };
        request.align();
        request
    }

    /// Add an attribute.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        let len = (ATTRIBUTE + value.len()) as u16;
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.align();
        self
    }

    /// Add an attribute that contains what `inner` adds.
    pub(crate) fn nested(mut self, kind: u16, inner: impl FnOnce(Request) -> Request) -> Request {
        let start = self.bytes.len();
        self.bytes.extend([0; ATTRIBUTE]);
        let mut whole = inner(self);
        let len = (whole.bytes.len() - start) as u16;
        whole.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        whole.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        whole
    }

    /// Add plain bytes: the fixed part of a nested message.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Request {
        self.bytes.extend(bytes);
        self.align();
        self
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// A socket of rtnetlink in the network namespace that the thread was in when it was made.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub(crate) fn new() -> Result<Netlink, Errno> {
        let flags = SocketFlags::CLOEXEC;
        // Protocol 0 is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Send a request, and wait until the kernel has carried it out.
    pub(crate) fn ask(&mut self, request: Request) -> Result<(), Errno> {
        self.sequence += 1;
        let bytes = request.finish(self.sequence);
        send(&self.socket, &bytes, SendFlags::empty())?;
        let mut answer = [0; 1024];
        loop {
            let len = match recv(&self.socket, &mut answer[..], RecvFlags::empty()) {
                Ok((len, _)) => len,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            if let Some(outcome) = acknowledged(&answer[..len], self.sequence) {
                return outcome;
            }
        }
    }

    /// The index of an interface of this namespace.
    pub(crate) fn index_of(&self, name: &str) -> Result<u32, Errno> {
        rustix::net::netdevice::name_to_index(&self.socket, name)
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What an acknowledgement of the request with this number says; `None` for another message.
fn acknowledged(message: &[u8], sequence: u32) -> Option<Result<(), Errno>> {
    let word = |at: usize| message.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
    if kind != ERROR || word(8)? != sequence {
        return None;
    }
    match word(HEADER)? as i32 {
        0 => Some(Ok(())),
        errno => Some(Err(Errno::from_raw_os_error(errno.wrapping_neg()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_nest_and_are_aligned() {
        let inner = |request: Request| request.attribute(1, b"veth").attribute(2, &[7]);
        let bytes = Request::new(16, NEW, &[0; 16]).nested(18, inner).finish(9);
        assert_eq!(bytes.len(), 16 + 16 + 4 + 8 + 8);
        assert_eq!(bytes[..4], 52_u32.to_ne_bytes());
        assert_eq!(bytes[32..36], [20_u16.to_ne_bytes(), 18_u16.to_ne_bytes()].concat());
        assert_eq!(bytes[44..49], [5, 0, 2, 0, 7], "a length without its padding");
    }

    #[test]
    fn an_acknowledgement_is_for_its_request() {
        let mut message = [0; 36];
        message[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        message[8..12].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(acknowledged(&message, 3), Some(Ok(())));
        assert_eq!(acknowledged(&message, 4), None);
        message[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(acknowledged(&message, 3), Some(Err(Errno::PERM)));
        assert_eq!(acknowledged(&message[..17], 3), None);
    }

    #[test]
    fn the_kernel_answers() {
        let mut netlink = Netlink::new().expect("every kernel has it");
        // RTM_NEWLINK of an interface with an impossible index.
        let body = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(netlink.ask(Request::new(16, 0, &body)).is_err());
        assert_eq!(netlink.index_of("lo"), Ok(1));
    }
}
