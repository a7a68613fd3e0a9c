//! Background traffic: programs that send datagrams or echo requests at the same time as TCP, and
//! check the messages or replies that arrive.
//!
//! Called by: `world`, which makes a background flow, and `events`, which runs a host of the flow.
//! Laws (oracle `datagrams`): every byte that arrives was sent; a message arrives no more often
//! than a network that duplicates packets can make it; after the recovery at least one message
//! arrives. RFC 768, RFC 792, RFC 4443.

use core::net::SocketAddr;

use base::{Duration, Instant, Owner};
use device::fault::Rng;
use stack::{PingHandle, Stack, UdpHandle};

use crate::host::Host;
use crate::pattern::Pattern;
use crate::violation::Violation;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UDP datagrams; the other host only receives them.
    Datagrams,
    /// Echo requests; the other host's stack answers.
    Echoes,
}

/// The settings of a background flow.
#[derive(Clone, Debug)]
pub struct BackgroundSettings {
    /// The kind of its messages.
    pub kind: Kind,
    /// The host that sends, and the host that receives.
    pub hosts: (usize, usize),
    /// The address of the host that receives.
    pub to: SocketAddr,
    /// The number of messages.
    pub messages: u32,
    /// The time between two messages.
    pub every: Duration,
    /// Payload of the longest message, in bytes; at least 8.
    pub bytes_max: usize,
    /// If this is set, the network has recovered at this time, and messages that are sent later
    /// have to arrive.
    pub must_arrive_from: Option<Instant>,
    /// The seed of the messages' sizes.
    pub seed: u64,
}

/// The first stream number of background flows; the streams of connections have lower numbers.
const FIRST_STREAM: u64 = 1 << 20;
/// A message begins with its number, which identifies it.
const NUMBER_BYTES: usize = 8;
/// How often one message can arrive. A message and its answer pass four directions of links, two
/// there and two back, and each may duplicate it.
const COPIES_MAX: u64 = 16;

#[derive(Clone, Copy, Debug)]
enum Socket {
    Udp(UdpHandle, UdpHandle),
    Ping(PingHandle),
}

/// One background flow.
pub(crate) struct BackgroundFlow {
    pub(crate) settings: BackgroundSettings,
    stream: u64,
    socket: Option<Socket>,
    rng: Rng,
    /// When the next message will be sent, by the clock of the host that sends.
    pub(crate) next: Instant,
    left: u32,
    /// How many messages the stack has accepted. `arrived` counts those that arrived or were
    /// answered.
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    /// How many messages were sent at `must_arrive_from` or later. `arrived_whole` counts the
    /// arrivals of these messages.
    sent_whole: u64,
    arrived_whole: u64,
    /// The number of the first of these messages, and when it was sent. The next field is the time
    /// at which the last one was sent.
    first_whole: Option<(u64, Instant)>,
    last_whole: Instant,
}

impl BackgroundFlow {
    pub(crate) fn new(
        settings: BackgroundSettings,
        number: usize,
        first: Instant,
    ) -> BackgroundFlow {
        BackgroundFlow {
            stream: FIRST_STREAM + number as u64,
            rng: Rng::new(settings.seed),
            socket: None,
            next: first,
            left: settings.messages,
            sent: 0,
            arrived: 0,
            sent_whole: 0,
            arrived_whole: 0,
            first_whole: None,
            last_whole: Instant::ZERO,
            settings,
        }
    }

    /// Open the sockets; for datagrams at both ends. Returns `false` if a host has no room for
    /// them.
    pub(crate) fn open(&mut self, hosts: &mut [Host]) -> bool {
        let (from, to) = self.settings.hosts;
        if self.settings.kind == Kind::Echoes {
            self.socket = hosts[from].stack.ping_open(Owner::program()).ok().map(Socket::Ping);
            return self.socket.is_some();
        }
        let unspecified = match self.settings.to {
            SocketAddr::V4(_) => core::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => core::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let port = self.settings.to.port();
        let own = SocketAddr::new(unspecified, port);
        let own = hosts[from].stack.udp_bind(own, Owner::program());
        let there = hosts[to].stack.udp_bind(self.settings.to, Owner::program());
        if let (Ok(own), Ok(there)) = (own, there) {
            self.socket = Some(Socket::Udp(own, there));
        }
        self.socket.is_some()
    }

    /// Send the messages that are due. Returns `true` if any were sent. `world_now` is the world's
    /// time, `now` the host's.
    pub(crate) fn send(
        &mut self,
        stack: &mut Stack,
        pattern: &Pattern,
        (now, world_now): (Instant, Instant),
    ) -> bool {
        let Some(socket) = self.socket.filter(|_| now >= self.next) else { return false };
        self.left = self.left.saturating_sub(1);
        self.next = if self.left == 0 { Instant::NEVER } else { now + self.settings.every };
        let number = self.sent;
        let most = self.settings.bytes_max.max(NUMBER_BYTES) - NUMBER_BYTES;
        let len = self.rng.below(most + 1);
        let mut message = number.to_be_bytes().to_vec();
        message.extend_from_slice(pattern.at(self.stream, number * 1_009, len));
        let is_taken = match socket {
            Socket::Udp(own, _) => stack.udp_send(own, self.settings.to, &message, now).is_ok(),
            Socket::Ping(own) => {
                let to = self.settings.to.ip();
                stack.ping_send(own, to, number as u16, &message, now).is_ok()
            }
        };
        // If memory is exhausted or the device is full, the stack refuses the message, and the next
        // message gets its number.
        self.sent += u64::from(is_taken);
        if is_taken && self.settings.must_arrive_from.is_some_and(|from| world_now >= from) {
            self.first_whole.get_or_insert((number, world_now));
            self.last_whole = world_now;
            self.sent_whole += 1;
        }
        true
    }

    /// Read the messages that have arrived at this host, which is one of the flow's two hosts.
    ///
    /// # Errors
    /// A message differs from the one that was sent.
    pub(crate) fn take(
        &mut self,
        stack: &mut Stack,
        host: usize,
        pattern: &Pattern,
    ) -> Result<(), Violation> {
        loop {
            let message = match self.socket {
                Some(Socket::Udp(_, there)) if host == self.settings.hosts.1 => {
                    stack.udp_receive(there).map(|datagram| Some(datagram.payload))
                }
                Some(Socket::Ping(own)) if host == self.settings.hosts.0 => {
                    stack.ping_receive(own).map(|echo| echo.outcome.ok())
                }
                _ => None,
            };
            // An error report contains no message.
            let Some(message) = message else { return Ok(()) };
            let Some(message) = message else { continue };
            let checked = self.check(message.as_slice(), pattern);
            stack.give_back(message);
            checked?;
        }
    }

    fn check(&mut self, message: &[u8], pattern: &Pattern) -> Result<(), Violation> {
        let fail = |what: &str| Err(Violation::new("datagrams", what.to_owned()));
        let Some((number, bytes)) = message.split_first_chunk::<NUMBER_BYTES>() else {
            return fail(&format!("a message of {} bytes arrived", message.len()));
        };
        let number = u64::from_be_bytes(*number);
        if number >= self.sent || pattern.check(self.stream, number * 1_009, bytes).is_err() {
            return fail(&format!("message {number} of {} arrived, but not as sent", self.sent));
        }
        self.arrived += 1;
        if self.arrived > COPIES_MAX * self.sent {
            return fail(&format!("{} messages arrived of {}", self.arrived, self.sent));
        }
        self.arrived_whole += u64::from(self.first_whole.is_some_and(|(first, _)| number >= first));
        Ok(())
    }

    /// At the end of the world: close the sockets, and check that some of those messages arrived
    /// that had to arrive.
    ///
    /// # Errors
    /// None of a dozen messages arrived that were sent after the recovery over five seconds or
    /// more. In a shorter time all of them may have waited for one neighbour, or found a full ring.
    pub(crate) fn close(&mut self, number: usize, hosts: &mut [Host]) -> Result<(), Violation> {
        let (from, to) = self.settings.hosts;
        match self.socket.take() {
            Some(Socket::Udp(own, there)) => {
                hosts[from].stack.udp_close(own);
                hosts[to].stack.udp_close(there);
            }
            Some(Socket::Ping(own)) => hosts[from].stack.ping_close(own),
            None => {}
        }
        let lasted = self.first_whole.map(|(_, first)| self.last_whole.since(first));
        let is_much = self.sent_whole >= 12 && lasted >= Some(Duration::from_secs(5));
        if is_much && self.arrived_whole == 0 {
            let (sent, kind) = (self.sent_whole, self.settings.kind);
            let what = format!("background flow {number}: none of {sent} {kind:?} arrived");
            return Err(Violation::new("datagrams", what));
        }
        Ok(())
    }
}
