//! Sockets of the stack that clients of the control socket open and use. A socket is owned by the
//! client's user, whom the kernel reports. Routes that are not for that user do not exist for the
//! socket.
//!
//! Called by: `service.rs`, on the thread that owns the stack. A socket belongs to the control
//! connection over which it was opened, and is closed with that connection; a TCP connection is
//! closed by a RST. A socket is also closed if the groups of its user change. Limits:
//! `control_sockets`, `control_user_sockets`. docs/decisions/0084.

mod calls;

use base::Limit;
use base::{Budget, Owner};
use control::Peer;
use control::Users;
use stack::{ListenerHandle, Stack};

use calls::{BATCH, Done, Handle, close, later, open, receive, send};

use control::protocol::{Accepted, Answer, Call, Called, Kind, Refusal};

/// A client: the index of the control socket, and the peer that the kernel reports.
pub(super) type Client<'a> = (usize, &'a Peer);

struct Socket {
    number: u64,
    stack: usize,
    /// The control socket, and the client's connection to it.
    client: (usize, u64),
    /// The user that opened the socket, and to whom its packets belong.
    peer: Owner,
    owner: Owner,
    handle: Handle,
    is_over: bool,
}

/// The sockets of all clients.
#[derive(Default)]
pub(super) struct Sockets {
    all: Vec<Socket>,
    users: Users,
    /// The number that was given last.
    last: u64,
}

impl Sockets {
    /// Set the groups of users.
    pub(super) fn set_users(&mut self, users: Users) {
        for socket in &mut self.all {
            socket.is_over |= users.owner(&socket.peer) != socket.owner;
        }
        self.users = users;
    }

    /// The groups.
    pub(super) fn users(&self) -> &Users {
        &self.users
    }

    /// Close the sockets whose connections are gone.
    pub(super) fn sweep(
        &mut self,
        stacks: &mut [(&str, &mut Stack)],
        is_connected: impl Fn((usize, u64)) -> bool,
    ) {
        self.all.retain(|socket| {
            let stays = !socket.is_over && is_connected(socket.client);
            if let (false, Some((_, stack))) = (stays, stacks.get_mut(socket.stack)) {
                // The client is gone, so nobody waits for queued data.
                match socket.handle {
                    Handle::Tcp(handle) => stack.tcp_abort(handle),
                    handle => close(stack, handle),
                }
                stack.flush();
            }
            stays
        });
    }

    /// Answer a call of a client.
    pub(super) fn answer(
        &mut self,
        (number, stack): (usize, &mut Stack),
        client: Client<'_>,
        call: &Call,
        budget: &mut Budget,
    ) -> Answer {
        let done = match call {
            Call::Open(kind) => self.open((number, stack), client, kind, budget),
            Call::Send { socket, to, seq, data } => self
                .of(number, *socket, client)
                .and_then(|handle| send(stack, handle, *to, *seq, data)),
            Call::Receive { socket, .. } => match self.of(number, *socket, client) {
                Ok(Handle::Listener(handle)) => {
                    Ok(self.accept((number, stack), handle, client, budget))
                }
                handle => handle.map(|handle| receive(stack, handle)),
            },
            Call::Shutdown { socket } => self.of(number, *socket, client).map(|handle| {
                if let Handle::Tcp(handle) = handle {
                    stack.tcp_shutdown_write(handle);
                }
                Called::default()
            }),
            Call::Close { socket } => self.of(number, *socket, client).map(|handle| {
                close(stack, handle);
                self.all.retain(|open| open.number != *socket);
                Called::default()
            }),
        };
        stack.flush();
        match done {
            Ok(called) => Answer { later_ms: later(call, &called), ..Answer::of(called) },
            Err((kind, why)) => Answer::refusal(kind, why),
        }
    }

    /// A socket of this client.
    fn of(
        &self,
        stack: usize,
        number: u64,
        (server, peer): Client<'_>,
    ) -> Result<Handle, (Refusal, String)> {
        let client = (server, peer.connection);
        let is_it = |socket: &&Socket| {
            !socket.is_over
                && (socket.stack, socket.number, socket.client) == (stack, number, client)
        };
        let found = self.all.iter().find(is_it).map(|socket| socket.handle);
        // Sockets of other clients get the same error.
        let why = "Bad file descriptor: no such socket was opened over this connection, or its \
                   user's groups have changed; open another";
        found.ok_or((Refusal::Lapsed, why.to_owned()))
    }

    fn admit(&self, peer: &Owner, budget: &mut Budget) -> Result<(), (Refusal, String)> {
        let of_user = self.all.iter().filter(|socket| socket.peer.uid == peer.uid).count();
        for (limit, used) in
            [(Limit::ControlSockets, self.all.len()), (Limit::ControlUserSockets, of_user)]
        {
            if !budget.admits(limit, used) {
                let (name, most) = (limit.name(), budget.of(limit));
                let why = format!(
                    "Too many open files: {most} sockets are open (limit {name}); end a program \
                     that uses some, and try again"
                );
                return Err((Refusal::Full, why));
            }
        }
        Ok(())
    }

    fn keep(&mut self, stack: usize, (server, peer): Client<'_>, handle: Handle) -> u64 {
        self.last += 1;
        self.all.push(Socket {
            number: self.last,
            stack,
            client: (server, peer.connection),
            peer: peer.owner.clone(),
            owner: self.users.owner(&peer.owner),
            handle,
            is_over: false,
        });
        self.last
    }

    fn open(
        &mut self,
        (number, stack): (usize, &mut Stack),
        client: Client<'_>,
        kind: &Kind,
        budget: &mut Budget,
    ) -> Done {
        let peer = &client.1.owner;
        self.admit(peer, budget)?;
        let handle = open(stack, self.users.owner(peer), kind)?;
        let socket = Some(self.keep(number, client, handle));
        Ok(Called { socket, ..Called::default() })
    }

    fn accept(
        &mut self,
        (number, stack): (usize, &mut Stack),
        listener: ListenerHandle,
        client: Client<'_>,
        budget: &mut Budget,
    ) -> Called {
        let mut accepted = Vec::new();
        // Connections for which there is no room wait at the listener.
        while accepted.len() < BATCH && stack.tcp_waiting(listener) > 0 {
            if self.admit(&client.1.owner, budget).is_err() {
                break;
            }
            let Some(handle) = stack.tcp_accept(listener) else { break };
            let from = stack.tcp_addresses(handle).map(|(_, remote)| remote.to_string());
            let number = self.keep(number, client, Handle::Tcp(handle));
            accepted.push(Accepted { socket: number, from });
        }
        Called { accepted, ..Called::default() }
    }
}
