//! Sockets of the stack that clients of the control socket open and use, each owned by the user
//! that the kernel says the client is. Routes that are not for that user do not exist for them.
//!
//! Called by: `control_service.rs`, on the thread that owns the stack. A socket belongs to the
//! connection that it was opened over, and is closed with it, of TCP by a RST; so it is if its user
//! comes to be in other groups. Limits: `control_sockets`, `control_user_sockets`.
//! docs/decisions/0084.

use core::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use router::users::Users;
use serde_json::{Value, json};
use wirespeed::base::Limit;
use wirespeed::control::Peer;
use wirespeed::tcp::{Config, State};
use wirespeed::{
    Budget, CallError, ConnectError, ListenConfig, ListenError, ListenerHandle, Owner, PingHandle,
    Stack, TcpHandle, UdpError, UdpHandle,
};

use crate::ping::trouble;
use crate::running::{Answer, Call, Kind, Refusal};

/// The most bytes of a stream in an answer.
const STREAM_BYTES: usize = 256 << 10;
/// The most datagrams, echoes or connections in an answer.
const BATCH: usize = 8;
/// Ports below are root's, as on other Unixes.
const FIRST_FREE_PORT: u16 = 1024;
/// Connections that wait until a client takes them.
const BACKLOG: usize = 8;

type Done = Result<Value, (Refusal, String)>;

#[derive(Clone, Copy)]
enum Handle {
    Ping(PingHandle, IpAddr),
    Udp(UdpHandle, Option<SocketAddr>),
    Tcp(TcpHandle),
    Listener(ListenerHandle),
}

/// A client: which control socket, and who the kernel says is there.
pub(super) type Client<'a> = (usize, &'a Peer);

struct Socket {
    number: u64,
    stack: usize,
    /// The control socket, and the client's connection to it.
    client: (usize, u64),
    /// Who opened it, and as whose its packets count.
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
    /// The number given last.
    last: u64,
}

impl Sockets {
    /// The groups that there are from now on.
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

    /// Close those whose connections are gone.
    pub(super) fn sweep(
        &mut self,
        stacks: &mut [(&str, &mut Stack)],
        is_connected: impl Fn((usize, u64)) -> bool,
    ) {
        self.all.retain(|socket| {
            let stays = !socket.is_over && is_connected(socket.client);
            if let (false, Some((_, stack))) = (stays, stacks.get_mut(socket.stack)) {
                // Nobody is there to wait for what is queued.
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
            Call::Receive { socket } => match self.of(number, *socket, client) {
                Ok(Handle::Listener(handle)) => {
                    Ok(self.accept((number, stack), handle, client, budget))
                }
                handle => handle.map(|handle| receive(stack, handle)),
            },
            Call::Shutdown { socket } => self.of(number, *socket, client).map(|handle| {
                if let Handle::Tcp(handle) = handle {
                    stack.tcp_shutdown_write(handle);
                }
                json!({})
            }),
            Call::Close { socket } => self.of(number, *socket, client).map(|handle| {
                close(stack, handle);
                self.all.retain(|open| open.number != *socket);
                json!({})
            }),
        };
        stack.flush();
        match done {
            Ok(body) => Answer { body, ..Answer::default() },
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
        // Of those of other clients nothing is reported either.
        let why = "Bad file descriptor: no such socket was opened over this connection, or its \
                   user is in other groups now; open another";
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
                     that has some, and try again"
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
        Ok(json!({ "socket": self.keep(number, client, handle) }))
    }

    fn accept(
        &mut self,
        (number, stack): (usize, &mut Stack),
        listener: ListenerHandle,
        client: Client<'_>,
        budget: &mut Budget,
    ) -> Value {
        let mut accepted = Vec::new();
        // What finds no room waits with the listener.
        while accepted.len() < BATCH && stack.tcp_waiting(listener) > 0 {
            if self.admit(&client.1.owner, budget).is_err() {
                break;
            }
            let Some(handle) = stack.tcp_accept(listener) else { break };
            let from = stack.tcp_addresses(handle).map(|(_, remote)| remote.to_string());
            let number = self.keep(number, client, Handle::Tcp(handle));
            accepted.push(json!({ "socket": number, "from": from }));
        }
        json!({ "accepted": accepted })
    }
}

fn open(stack: &mut Stack, owner: Owner, kind: &Kind) -> Result<Handle, (Refusal, String)> {
    let now = stack.now();
    let may_bind = |local: SocketAddr| {
        let is_free = local.port() == 0 || local.port() >= FIRST_FREE_PORT || owner.uid == 0;
        let why = "Permission denied: ports below 1024 are root's; give another";
        if is_free { Ok(()) } else { Err((Refusal::Denied, why.to_owned())) }
    };
    match *kind {
        Kind::Ping { host } => {
            let handle = stack.ping_open(owner).map_err(of_udp)?;
            Ok(Handle::Ping(handle, host))
        }
        Kind::Udp { local, peer } => {
            may_bind(local)?;
            let handle = match peer {
                Some(peer) => stack.udp_bind_connected(local, peer, owner),
                None => stack.udp_bind(local, owner),
            };
            Ok(Handle::Udp(handle.map_err(of_udp)?, peer))
        }
        Kind::Connect { remote } => {
            let connected = stack.tcp_connect(remote, None, &Config::default(), owner, now);
            connected.map(Handle::Tcp).map_err(of_connect)
        }
        Kind::Listen { local } => {
            may_bind(local)?;
            if local.port() == 0 {
                let why = "Invalid argument: a listener needs a port; give one from 1024 on";
                return Err((Refusal::Wrong, why.to_owned()));
            }
            let config = ListenConfig { owner, backlog: BACKLOG, ..ListenConfig::default() };
            stack.tcp_listen(local, config).map(Handle::Listener).map_err(|why| match why {
                ListenError::AddressInUse => in_use(),
                ListenError::LimitReached => full(),
            })
        }
    }
}

fn send(stack: &mut Stack, handle: Handle, to: Option<SocketAddr>, seq: u16, data: &str) -> Done {
    let Ok(data) = STANDARD.decode(data) else {
        let why = "Invalid argument: the data is no base64; use tools of the program's version";
        return Err((Refusal::Wrong, why.to_owned()));
    };
    let now = stack.now();
    let sent = match handle {
        Handle::Ping(handle, host) => {
            stack.ping_send(handle, host, seq, &data, now).map_err(of_udp)?;
            data.len()
        }
        Handle::Udp(handle, peer) => {
            let Some(to) = peer.or(to) else {
                let why = "Destination address required: the socket is not connected; give one";
                return Err((Refusal::Wrong, why.to_owned()));
            };
            stack.udp_send(handle, to, &data, now).map_err(of_udp)?;
            data.len()
        }
        Handle::Tcp(handle) => match stack.tcp_write(handle, &data) {
            Ok(count) => count,
            Err(CallError::WouldBlock) => 0,
            Err(why) => return Err((Refusal::Gone, ended(&why))),
        },
        Handle::Listener(_) => {
            let why = "Transport endpoint is not connected: send on what it accepted";
            return Err((Refusal::Wrong, why.to_owned()));
        }
    };
    Ok(json!({ "sent": sent, "at_ns": now.as_nanos() }))
}

fn receive(stack: &mut Stack, handle: Handle) -> Value {
    match handle {
        Handle::Ping(handle, _) => {
            let mut echoes = Vec::new();
            while echoes.len() < BATCH
                && let Some(echo) = stack.ping_receive(handle)
            {
                let mut row = json!({
                    "from": echo.from, "seq": echo.seq, "ttl": echo.ttl,
                    "at_ns": echo.at.as_nanos(),
                });
                match echo.outcome {
                    Ok(payload) => {
                        row["bytes"] = json!(payload.len());
                        stack.give_back(payload);
                    }
                    Err(why) => row["error"] = json!(trouble(why)),
                }
                echoes.push(row);
            }
            json!({ "echoes": echoes })
        }
        Handle::Udp(handle, _) => {
            let mut datagrams = Vec::new();
            while datagrams.len() < BATCH
                && let Some(datagram) = stack.udp_receive(handle)
            {
                let data = STANDARD.encode(datagram.payload.as_slice());
                datagrams.push(json!({ "from": datagram.from.to_string(), "data": data }));
                stack.give_back(datagram.payload);
            }
            let error = stack.udp_take_error(handle);
            let error = error.map(|(to, why)| format!("{to} cannot be reached: {why:?}"));
            json!({ "datagrams": datagrams, "error": error })
        }
        Handle::Tcp(handle) => stream(stack, handle),
        Handle::Listener(_) => json!({}),
    }
}

/// What a connection has to read, and how it stands.
fn stream(stack: &mut Stack, handle: TcpHandle) -> Value {
    let waiting = stack.tcp_readable(handle).map_or(0, |(count, _)| count);
    // With nothing to read a byte's room tells whether the connection is over.
    let mut room = vec![0; waiting.clamp(1, STREAM_BYTES)];
    let (count, mut error) = match stack.tcp_read(handle, &mut room) {
        Ok(count) => (count, None),
        Err(CallError::WouldBlock) => (0, None),
        Err(why) => (0, Some(ended(&why))),
    };
    let (state, failed) = stack.tcp_state(handle).unwrap_or((State::Closed, None));
    error = error.or(failed.map(|why| format!("the connection ended: {why:?}")));
    let eof = stack.tcp_readable(handle).is_none_or(|(count, is_over)| count == 0 && is_over);
    json!({
        "data": STANDARD.encode(&room[..count]), "eof": eof, "state": state.name(), "error": error,
        "sent": stack.tcp_is_sent(handle),
    })
}

fn close(stack: &mut Stack, handle: Handle) {
    match handle {
        Handle::Ping(handle, _) => stack.ping_close(handle),
        Handle::Udp(handle, _) => stack.udp_close(handle),
        Handle::Tcp(handle) => stack.tcp_close(handle),
        Handle::Listener(handle) => stack.tcp_unlisten(handle),
    }
}

fn ended(why: &CallError) -> String {
    format!("Connection reset by peer, or never made ({why:?}): connect again")
}

fn in_use() -> (Refusal, String) {
    let why = "Address already in use: give another port, or see `wirespeed show sockets`";
    (Refusal::Exists, why.to_owned())
}

fn full() -> (Refusal, String) {
    let why = "No buffer space available: the stack has as many sockets as its limits allow; raise \
               them under [limits]";
    (Refusal::Full, why.to_owned())
}

fn unreachable(why: &str) -> (Refusal, String) {
    let what = "see the routes for this user by `wirespeed ip route get ADDRESS uid N`";
    (Refusal::Unreachable, format!("Network is unreachable: {why}; {what}"))
}

fn of_udp(why: UdpError) -> (Refusal, String) {
    match why {
        UdpError::AddressInUse => in_use(),
        UdpError::LimitReached => full(),
        UdpError::WouldBlock => {
            (Refusal::Busy, "Resource temporarily unavailable: try again".to_owned())
        }
        UdpError::Unsendable(reason) => unreachable(reason.meaning()),
        UdpError::NoAddress => unreachable("no address of the destination's version"),
        other => {
            (Refusal::Wrong, format!("Invalid argument: {other:?}; see `wirespeed nc --help`"))
        }
    }
}

fn of_connect(why: ConnectError) -> (Refusal, String) {
    match why {
        ConnectError::Unreachable(reason) => unreachable(reason.meaning()),
        ConnectError::NoAddress => unreachable("no address of the destination's version"),
        ConnectError::AddressInUse => in_use(),
        ConnectError::LimitReached => full(),
    }
}
