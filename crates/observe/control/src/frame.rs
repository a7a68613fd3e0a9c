//! Frames on a stream: a hello, and then frames of length, descriptors and payload. Everything
//! received is bounded; the descriptors of a refused frame are closed.
//!
//! Called by: `server.rs` and `client.rs`, with a blocking or a non-blocking socket.

use std::io::IoSlice;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{Budget, Limit};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};

use crate::ControlError;

/// The version of the protocol.
pub const VERSION: u16 = 1;
/// The first bytes of a hello.
pub const MAGIC: [u8; 8] = *b"wirespd\n";

const HELLO_LEN: usize = 12;
const HEADER_LEN: usize = 8;
/// Maximum bytes per read: memory grows with the bytes received, not with the length in a header.
const CHUNK: usize = 64 << 10;
/// Maximum descriptors per call; the kernel closes further ones. The limit `control_descriptors`
/// has no effect above this value.
pub const DESCRIPTORS_MAX: usize = 64;

/// The answer in a server's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Welcome {
    /// The server answers requests.
    Yes = 0,
    /// The server does not answer this user.
    NotAdmitted = 1,
    /// There are too many clients.
    Full = 2,
}

/// A request or an answer.
#[derive(Debug, Default)]
pub struct Message {
    /// The bytes of the message.
    pub payload: Vec<u8>,
    /// The descriptors of the message, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// The hello of this version.
pub(crate) fn hello(welcome: Welcome) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&(welcome as u16).to_be_bytes());
    bytes
}

fn check_hello(bytes: &[u8]) -> Result<(), ControlError> {
    let field = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    if bytes[..8] != MAGIC {
        return Err(ControlError::Stranger);
    }
    if field(8) != VERSION {
        return Err(ControlError::Version { theirs: field(8) });
    }
    match field(10) {
        0 => Ok(()),
        1 => Err(ControlError::NotAdmitted),
        2 => Err(ControlError::Full),
        other => Err(ControlError::Malformed { why: format!("the hello says {other}") }),
    }
}

/// The state of a receiver.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    greeted: bool,
    buffer: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// A result of [`Incoming::receive`].
#[derive(Debug)]
pub(crate) enum Got {
    /// The other side's hello: it has the same version, and it accepts this side.
    Hello,
    /// A whole frame.
    Message(Message),
}

impl Incoming {
    /// Is a frame incomplete, or has the hello not been received yet?
    pub(crate) fn is_partial(&self) -> bool {
        !self.greeted || !self.buffer.is_empty()
    }

    /// Read from the socket up to the end of a frame. `None` if the rest of the frame has not come
    /// yet.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        flags: RecvFlags,
        budget: &mut Budget,
    ) -> Result<Option<Got>, ControlError> {
        loop {
            let needed = self.needed(budget)?;
            if needed == 0 {
                return self.complete(budget).map(Some);
            }
            let at = self.buffer.len();
            self.buffer.resize(at + needed.min(CHUNK), 0);
            let result = self.read(socket, at, flags, budget);
            self.buffer.truncate(at + result.as_ref().map_or(0, |n| n.unwrap_or(0)));
            match result? {
                None => return Ok(None),
                Some(0) => return Err(ControlError::Closed),
                Some(_) => {}
            }
        }
    }

    /// One call of recvmsg(2); `None` if it would block or was interrupted.
    fn read(
        &mut self,
        socket: BorrowedFd<'_>,
        at: usize,
        flags: RecvFlags,
        budget: &mut Budget,
    ) -> Result<Option<usize>, ControlError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let into = &mut [IoSliceMut::new(&mut self.buffer[at..])];
        let received = match recvmsg(socket, into, &mut control, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => return Ok(None),
            Err(Errno::CONNRESET | Errno::PIPE) => return Err(ControlError::Closed),
            Err(errno) => return Err(ControlError::system("receiving failed")(errno)),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        let found = self.descriptors.len();
        let cut = received.flags.contains(ReturnFlags::CTRUNC);
        if cut || (found > 0 && !budget.admits(Limit::ControlDescriptors, found - 1)) {
            let most = budget.of(Limit::ControlDescriptors);
            return Err(ControlError::Descriptors { found, declared: 0, most });
        }
        Ok(Some(received.bytes))
    }

    /// The number of bytes that the hello, the header or the payload still lacks.
    fn needed(&self, budget: &mut Budget) -> Result<usize, ControlError> {
        let have = self.buffer.len();
        if !self.greeted {
            return Ok(HELLO_LEN - have);
        }
        if have < HEADER_LEN {
            return Ok(HEADER_LEN - have);
        }
        let (bytes, _) = self.header()?;
        let most = budget.of(Limit::ControlFrameBytes);
        if bytes > most {
            budget.admits(Limit::ControlFrameBytes, bytes);
            return Err(ControlError::TooLong { bytes, most });
        }
        Ok(HEADER_LEN + bytes - have)
    }

    /// The length of the payload and the number of descriptors.
    fn header(&self) -> Result<(usize, usize), ControlError> {
        let [a, b, c, d, e, f, 0, 0] = self.buffer[..HEADER_LEN] else {
            return Err(ControlError::Malformed { why: "a reserved field is not zero".to_owned() });
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        Ok((length, usize::from(u16::from_be_bytes([e, f]))))
    }

    fn complete(&mut self, budget: &Budget) -> Result<Got, ControlError> {
        let found = self.descriptors.len();
        if !self.greeted {
            let checked = check_hello(&self.buffer);
            self.buffer.clear();
            self.greeted = true;
            return checked.map(|()| Got::Hello);
        }
        let (_, declared) = self.header()?;
        if found != declared {
            let most = budget.of(Limit::ControlDescriptors);
            return Err(ControlError::Descriptors { found, declared, most });
        }
        let payload = self.buffer.split_off(HEADER_LEN);
        self.buffer = Vec::new();
        let descriptors = std::mem::take(&mut self.descriptors);
        Ok(Got::Message(Message { payload, descriptors }))
    }
}

/// Data to send, and how much of it has been sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// The descriptors that travel with the first byte of `bytes[from..]`.
    descriptors: Vec<OwnedFd>,
    from: usize,
}

impl Outgoing {
    /// Bytes without a frame header: a hello.
    pub(crate) fn raw(bytes: Vec<u8>) -> Outgoing {
        Outgoing { bytes, ..Outgoing::default() }
    }

    /// Append a frame.
    pub(crate) fn push(
        &mut self,
        message: Message,
        budget: &mut Budget,
    ) -> Result<(), ControlError> {
        let bytes = message.payload.len();
        let most = budget.of(Limit::ControlFrameBytes);
        let (Ok(length), true) = (u32::try_from(bytes), bytes <= most) else {
            budget.admits(Limit::ControlFrameBytes, bytes);
            return Err(ControlError::TooLong { bytes, most });
        };
        let found = message.descriptors.len();
        let most = budget.of(Limit::ControlDescriptors).min(DESCRIPTORS_MAX);
        if found > most {
            budget.admits(Limit::ControlDescriptors, found);
            return Err(ControlError::Descriptors { found, declared: found, most });
        }
        self.bytes.drain(..self.sent);
        self.sent = 0;
        self.from = self.bytes.len();
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(&(found as u16).to_be_bytes());
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&message.payload);
        self.descriptors = message.descriptors;
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Send as much as the socket takes. True when everything is sent.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        flags: SendFlags,
    ) -> Result<bool, ControlError> {
        while !self.is_empty() {
            // Bytes before a frame with descriptors are sent by a call of their own.
            let with = self.sent == self.from && !self.descriptors.is_empty();
            let before = self.sent < self.from && !self.descriptors.is_empty();
            let end = if before { self.from } else { self.bytes.len() };
            let (data, flags) = (&self.bytes[self.sent..end], flags | SendFlags::NOSIGNAL);
            let result = match with {
                true => self.send_with_descriptors(socket, data, flags),
                // A filter of system calls may allow the process only this call.
                false => send(socket, data, flags),
            };
            match result {
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ControlError::Closed),
                Err(errno) => return Err(ControlError::system("sending failed")(errno)),
            }
            if with {
                self.descriptors.clear();
            }
        }
        *self = Outgoing::default();
        Ok(true)
    }

    fn send_with_descriptors(
        &self,
        socket: BorrowedFd<'_>,
        data: &[u8],
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        let borrowed: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&borrowed));
        sendmsg(socket, &[IoSlice::new(data)], &mut control, flags)
    }
}
