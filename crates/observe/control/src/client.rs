//! The client: one request at a time, each with a timeout. While the client waits for an answer
//! ([`Client::begin`]), it may make another request; then the first is answered at once.
//!
//! Called by: tools.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use base::Budget;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, socket_with,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{Got, Incoming, Outgoing, Welcome, hello};
use crate::{ControlError, Message, path};

/// A connection to a control socket.
pub struct Client {
    socket: OwnedFd,
    incoming: Incoming,
    budget: Budget,
    timeout: Duration,
}

impl Client {
    /// Connect to the socket at `path` and exchange hellos. `timeout` must not be zero; it bounds
    /// this call and each later request.
    ///
    /// # Errors
    /// [`ControlError`]: no server, access denied, another version of the protocol, or no answer in
    /// time.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Client, ControlError> {
        let address = path::address(path)?;
        let refused = || ControlError::system("the control socket cannot be reached");
        let flags = SocketFlags::CLOEXEC;
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(refused())?;
        let budget = Budget::default();
        let mut client = Client { socket, incoming: Incoming::default(), budget, timeout };
        let deadline = Instant::now() + timeout;
        client.bound(Timeout::Send, deadline)?;
        let path = path.to_owned();
        match connect(&client.socket, &address) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(ControlError::Missing { path }),
            Err(Errno::CONNREFUSED) => return Err(ControlError::Dead { path }),
            Err(Errno::ACCESS | Errno::PERM) => return Err(ControlError::Denied { path }),
            Err(Errno::AGAIN) => return Err(client.timed_out()),
            Err(errno) => return Err(refused()(errno)),
        }
        // The server sends its hello first, also to clients that it does not serve.
        match client.receive(deadline)? {
            Got::Hello => {}
            Got::Message(_) => return Err(ControlError::Stranger),
        }
        client.send(Outgoing::raw(hello(Welcome::Yes)), deadline)?;
        Ok(client)
    }

    /// Send a request, and wait for the answer.
    ///
    /// # Errors
    /// [`ControlError`]. The connection cannot be used afterwards.
    pub fn call(&mut self, request: Message) -> Result<Message, ControlError> {
        self.begin(request)?;
        self.finish()
    }

    /// Send a request. [`Client::finish`] takes the answer; the descriptor is readable once the
    /// answer comes.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn begin(&mut self, request: Message) -> Result<(), ControlError> {
        let deadline = Instant::now() + self.timeout;
        let mut outgoing = Outgoing::default();
        outgoing.push(request, &mut self.budget)?;
        self.send(outgoing, deadline)
    }

    /// Wait for the answer to the first request that was not answered yet.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn finish(&mut self) -> Result<Message, ControlError> {
        let deadline = Instant::now() + self.timeout;
        match self.receive(deadline)? {
            Got::Message(answer) => Ok(answer),
            Got::Hello => Err(ControlError::Malformed { why: "a second hello".to_owned() }),
        }
    }

    /// [`Client::call`] with JSON in both directions. Received descriptors are closed.
    ///
    /// # Errors
    /// [`ControlError`]; [`ControlError::Malformed`] if the answer is not an `A`.
    pub fn request<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        question: &Q,
    ) -> Result<A, ControlError> {
        self.begin_request(question)?;
        self.finish_request()
    }

    /// [`Client::begin`] with JSON.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn begin_request<Q: Serialize>(&mut self, question: &Q) -> Result<(), ControlError> {
        let payload = serde_json::to_vec(question).map_err(malformed)?;
        self.begin(Message { payload, descriptors: Vec::new() })
    }

    /// [`Client::finish`] with JSON.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn finish_request<A: DeserializeOwned>(&mut self) -> Result<A, ControlError> {
        serde_json::from_slice(&self.finish()?.payload).map_err(malformed)
    }

    fn timed_out(&self) -> ControlError {
        ControlError::TimedOut { timeout: self.timeout }
    }

    /// Set the timeout of the next call on the socket to `deadline`.
    fn bound(&self, which: Timeout, deadline: Instant) -> Result<(), ControlError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left < Duration::from_micros(1) {
            return Err(self.timed_out());
        }
        set_socket_timeout(&self.socket, which, Some(left))
            .map_err(ControlError::system("the timeout of the control socket cannot be set"))
    }

    fn send(&mut self, mut outgoing: Outgoing, deadline: Instant) -> Result<(), ControlError> {
        loop {
            self.bound(Timeout::Send, deadline)?;
            match outgoing.send(self.socket.as_fd(), SendFlags::empty()) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // The server may have sent the reason before it closed.
                Err(ControlError::Closed) => {
                    return Err(self.receive(deadline).err().unwrap_or(ControlError::Closed));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<Got, ControlError> {
        loop {
            self.bound(Timeout::Recv, deadline)?;
            let flags = RecvFlags::empty();
            let got = self.incoming.receive(self.socket.as_fd(), flags, &mut self.budget)?;
            if let Some(got) = got {
                return Ok(got);
            }
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn malformed(error: serde_json::Error) -> ControlError {
    ControlError::Malformed { why: error.to_string() }
}
