//! Sockets of the stack that clients of the control socket open and use, each owned by the user
//! that the kernel says the client is. Routes that are not for that user do not exist for them.
//!
//! Called by: `control_service.rs`, on the thread that owns the stack. Limits: `control_sockets`,
//! `control_user_sockets`; a socket that is not asked for [`LEASE`] is closed, and so is one whose
//! user comes to be in other groups. docs/decisions/0084.

use core::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use router::users::Users;
use serde_json::{Value, json};
use wirespeed::base::Limit;
use wirespeed::tcp::{Config, State};
use wirespeed::{
    Budget, CallError, ConnectError, Duration, Instant, ListenConfig, ListenError, ListenerHandle, Owner,
    PingHandle, Stack, TcpHandle, UdpError, UdpHandle,
};

use crate::ping::trouble;
use crate::running::{Answer, Call, Kind, Refusal};

/// A client that does not ask for this long is gone.
const LEASE: Duration = Duration::from_secs(30);
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

struct Socket {
    number: u64,
    stack: usize,
    /// Who the kernel says opened it, and as whose its packets count.
    peer: Owner,
    owner: Owner,
    handle: Handle,
    until: Instant,
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
            if users.owner(&socket.peer) != socket.owner {
                socket.until = Instant::ZERO;
            }
        }
        self.users = users;
    }

    /// The groups.
    pub(super) fn users(&self) -> &Users {
        &self.users
    }

    /// When the first socket is closed if nobody asks.
    pub(super) fn next_deadline(&self) -> Instant {
        self.all.iter().map(|socket| socket.until).min().unwrap_or(Instant::NEVER)
    }

    /// Close those that nobody asked about.
    pub(super) fn expire(&mut self, now: Instant, stacks: &mut [(&str, &mut Stack)]) {
        self.all.retain(|socket| {
            let is_over = socket.until <= now;
            if let (true, Some((_, stack))) = (is_over, stacks.get_mut(socket.stack)) {
                close(stack, socket.handle, true);
            }
            !is_over
        });
    }

    /// Answer a call of `peer`, the client's user and groups on this machine.
    pub(super) fn answer(
        &mut self,
        (number, stack): (usize, &mut Stack),
        (peer, call): (&Owner, &Call),
        now: Instant,
        budget: &mut Budget,
    ) -> Answer {
        let done = match call {
            Call::Open(kind) => self.open((number, stack), peer, kind, now, budget),
            Call::Send { socket, to, seq, data } => match self.of(number, *socket, peer, now) {
                Ok(socket) => send(stack, socket.handle, *to, *seq, data),
                Err(why) => Err(why),
            },
            Call::Receive { socket } => match self.of(number, *socket, peer, now) {
                Ok(&mut Socket { handle: Handle::Listener(handle), .. }) => {
                    self.accept((number, stack), handle, peer, now, budget)
                }
                Ok(socket) => receive(stack, socket.handle),
                Err(why) => Err(why),
            },
            Call::Shutdown { socket } => self.of(number, *socket, peer, now).map(|socket| {
                if let Handle::Tcp(handle) = socket.handle {
                    stack.tcp_shutdown_write(handle);
                }
                json!({})
            }),
            Call::Close { socket } => self.of(number, *socket, peer, now).map(|socket| {
                close(stack, socket.handle, false);
                socket.number
            }).map(|closed| {
                self.all.retain(|socket| socket.number != closed);
                json!({})
            }),
        };
        stack.flush();
        match done {
            Ok(body) => Answer { body, ..Answer::default() },
            Err((kind, why)) => Answer::refusal(kind, why),
        }
    }

    /// A socket of this user.
    fn of(
        &mut self,
        stack: usize,
        number: u64,
        peer: &Owner,
        now: Instant,
    ) -> Result<&mut Socket, (Refusal, String)> {
        let is_it = |socket: &&mut Socket| {
            (socket.stack, socket.number, socket.peer.uid) == (stack, number, peer.uid)
        };
        let Some(socket) = self.all.iter_mut().find(is_it) else {
            // Another user's are not told of either.
            let why = "Bad file descriptor: no such socket is open, or nobody asked for it in 30 s";
            return Err((Refusal::Lapsed, why.to_owned()));
        };
        socket.until = now + LEASE;
        Ok(socket)
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

    fn keep(&mut self, stack: usize, peer: &Owner, handle: Handle, now: Instant) -> u64 {
        self.last += 1;
        let owner = self.users.owner(peer);
        let (number, peer, until) = (self.last, peer.clone(), now + LEASE);
        self.all.push(Socket { number, stack, peer, owner, handle, until });
        number
    }

    fn open(
        &mut self,
        (number, stack): (usize, &mut Stack),
        peer: &Owner,
        kind: &Kind,
        now: Instant,
        budget: &mut Budget,
    ) -> Done {
        self.admit(peer, budget)?;
        let handle = open(stack, self.users.owner(peer), kind)?;
        Ok(json!({ "socket": self.keep(number, peer, handle, now) }))
    }

    fn accept(
        &mut self,
        (number, stack): (usize, &mut Stack),
        listener: ListenerHandle,
        peer: &Owner,
        now: Instant,
        budget: &mut Budget,
    ) -> Done {
        let mut accepted = Vec::new();
        // What finds no room waits with the listener.
        while accepted.len() < BATCH && stack.tcp_waiting(listener) > 0 {
            if self.admit(peer, budget).is_err() {
                break;
            }
            let Some(handle) = stack.tcp_accept(listener) else { break };
            let from = stack.tcp_addresses(handle).map(|(_, remote)| remote.to_string());
            let number = self.keep(number, peer, Handle::Tcp(handle), now);
            accepted.push(json!({ "socket": number, "from": from }));
        }
        Ok(json!({ "accepted": accepted }))
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

fn send(
    stack: &mut Stack,
    handle: Handle,
    to: Option<SocketAddr>,
    seq: u16,
    data: &str,
) -> Done {
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

fn receive(stack: &mut Stack, handle: Handle) -> Done {
    Ok(match handle {
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
    })
}

/// What a connection has to read, and how it stands.
fn stream(stack: &mut Stack, handle: TcpHandle) -> Value {
    let mut room = vec![0; STREAM_BYTES];
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

fn close(stack: &mut Stack, handle: Handle, is_expired: bool) {
    match handle {
        Handle::Ping(handle, _) => stack.ping_close(handle),
        Handle::Udp(handle, _) => stack.udp_close(handle),
        Handle::Tcp(handle) if is_expired => stack.tcp_abort(handle),
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
        other => (Refusal::Wrong, format!("Invalid argument: {other:?}; see `wirespeed nc --help`")),
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
