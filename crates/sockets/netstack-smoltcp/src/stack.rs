//! [`StackBuilder`], which makes everything, and [`Stack`], through which packets come and go.
//! Called by programs.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use base::{Cidr, Duration, Mtu};
use futures_core::Stream;
use futures_sink::Sink;
use net::Net;
use stack::{Foreign, PortConfig, Route, StackConfig};
use wire::protocol;

use crate::AnyIpPktFrame;
use crate::filter::{IpFilter, IpFilters};
use crate::packet::Packet;
use crate::queue::{self, Outer};
use crate::runner::{Runner, Running};
use crate::tcp::TcpListener;
use crate::udp::{Inbox, UdpSocket};

/// What [`StackBuilder::build`] returns.
type Built = (Stack, Option<Runner>, Option<UdpSocket>, Option<TcpListener>);

/// The settings of a stack.
pub struct StackBuilder {
    enable_udp: bool,
    enable_tcp: bool,
    enable_icmp: bool,
    stack_buffer_size: usize,
    udp_buffer_size: usize,
    tcp_buffer_size: usize,
    tcp_recv_buffer_size: u32,
    tcp_send_buffer_size: u32,
    mtu: usize,
    ip_filters: IpFilters<'static>,
}

impl Default for StackBuilder {
    /// Nothing is enabled; the sizes are those of the original.
    fn default() -> StackBuilder {
        StackBuilder {
            enable_udp: false,
            enable_tcp: false,
            enable_icmp: false,
            stack_buffer_size: 1024,
            udp_buffer_size: 512,
            tcp_buffer_size: 512,
            tcp_recv_buffer_size: 327_660,
            tcp_send_buffer_size: 327_660,
            mtu: 1504,
            ip_filters: IpFilters::with_non_broadcast(),
        }
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: $type) -> StackBuilder {
            self.$name = value;
            self
        }
    )* };
}

impl StackBuilder {
    settings! {
        /// Take UDP datagrams: `build` returns a [`UdpSocket`].
        enable_udp: bool;
        /// Take connections: `build` returns a [`TcpListener`].
        enable_tcp: bool;
        /// Answer pings in the name of every host. Only with TCP.
        enable_icmp: bool;
        /// Packets that wait for the program.
        stack_buffer_size: usize;
        /// Datagrams that wait for the program.
        udp_buffer_size: usize;
        /// Packets that wait for the stack.
        tcp_buffer_size: usize;
        /// Bytes of a connection's receive buffer.
        tcp_recv_buffer_size: u32;
        /// Bytes of a connection's send buffer.
        tcp_send_buffer_size: u32;
        /// Bytes of the largest packet that the stack sends: 68 to 65,535.
        mtu: usize;
    }

    /// Replace the filters, of which the first refuses groups and broadcasts.
    #[must_use]
    pub fn set_ip_filters(mut self, filters: IpFilters<'static>) -> StackBuilder {
        self.ip_filters = filters;
        self
    }

    /// Add a filter.
    #[must_use]
    pub fn add_ip_filter(mut self, filter: IpFilter<'static>) -> StackBuilder {
        self.ip_filters.add(filter);
        self
    }

    /// Add a function as a filter.
    #[must_use]
    pub fn add_ip_filter_fn<F>(mut self, filter: F) -> StackBuilder
    where
        F: Fn(&IpAddr, &IpAddr) -> bool + Send + Sync + 'static,
    {
        self.ip_filters.add_fn(filter);
        self
    }

    /// Make the stack, the future that drives it if TCP is enabled, and the sockets.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for ICMP without TCP or an MTU outside its range; the system
    /// gives no random numbers, or no thread for a stack without TCP.
    pub fn build(self) -> io::Result<Built> {
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
        if self.enable_icmp && !self.enable_tcp {
            return Err(invalid("ICMP requires TCP: call enable_tcp(true) as well"));
        }
        let mtu =
            Mtu::new(self.mtu).ok_or_else(|| invalid("the MTU must be 68 to 65,535 bytes"))?;
        let inward = if self.enable_tcp { self.tcp_buffer_size } else { self.udp_buffer_size };
        let (queue, outer, room) = queue::pair(mtu, inward, self.stack_buffer_size);
        let (net, driver) = Net::new(self.stack(queue)?);
        let inbox = Inbox::new(if self.enable_udp { self.udp_buffer_size.max(1) } else { 0 });
        let udp = self
            .enable_udp
            .then(|| UdpSocket::new(&net, inbox.clone(), room.clone(), !self.enable_tcp));
        let (mut runner, mut listener): (Option<Runner>, _) = (None, None);
        if self.enable_tcp {
            listener = Some(TcpListener::new(&net, self.tcp_config())?);
            runner = Some(Box::pin(Running { driver: driver.with_tokio(), net, inbox, room }));
        } else if self.enable_udp {
            driver.spawn_thread()?;
        }
        let takes = (self.enable_tcp, self.enable_udp, self.enable_icmp);
        Ok((Stack { outer, filters: self.ip_filters, takes }, runner, udp, listener))
    }

    /// One port, to which all routes lead. Its addresses are never answered for otherwise: the
    /// stack accepts connections to any address.
    fn stack(&self, device: queue::Queue) -> io::Result<stack::Stack> {
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let (a, b) = seed.split_at(8);
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let foreign =
            Foreign { udp: self.enable_udp, echo: self.enable_icmp, ..Foreign::default() };
        let config = StackConfig { foreign, ..StackConfig::new([word(a), word(b)]) };
        let mut stack = stack::Stack::new(config);
        let port = stack.add_port(Box::new(device), PortConfig::default());
        for addr in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            stack.add_route(Route::new(Cidr { addr, prefix_len: 0 }, None, port.0));
        }
        Ok(stack)
    }

    /// Keep-alives as in the original, and no timestamps: the peer is a stack of this machine, at
    /// the other end of a queue that neither delays nor reorders. Without their 12 bytes a packet
    /// carries more data, and fewer packets cross the TUN interface.
    fn tcp_config(&self) -> tcp::Config {
        let mut config = tcp::Config {
            keepalive_idle: Some(Duration::from_secs(28)),
            timestamps: false,
            ..tcp::Config::default()
        };
        config.set_fixed_buffers(self.tcp_recv_buffer_size, self.tcp_send_buffer_size);
        config
    }
}

/// The packets: a sink for those from the TUN interface, a stream of those to it. When it is
/// dropped, the stack ends.
pub struct Stack {
    outer: Outer,
    filters: IpFilters<'static>,
    /// TCP, UDP, ICMP.
    takes: (bool, bool, bool),
}

impl Stream for Stack {
    type Item = io::Result<AnyIpPktFrame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.outer.poll_packet(cx).map(|packet| packet.map(Ok))
    }
}

impl Sink<AnyIpPktFrame> for Stack {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = ready!(self.outer.poll_room(cx));
        let text = "the stack has ended; build a new one";
        Poll::Ready(room.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, text)))
    }

    /// Packets that a filter refuses, and those of protocols that are not enabled, are dropped. A
    /// packet that is sent without `poll_ready` may find no room, which is an error.
    fn start_send(mut self: Pin<&mut Self>, item: AnyIpPktFrame) -> io::Result<()> {
        if item.is_empty() {
            return Ok(());
        }
        let Packet { src, dst, protocol } = Packet::parse(&item)?;
        let (tcp, udp, icmp) = self.takes;
        let taken = match protocol {
            protocol::TCP => tcp,
            protocol::UDP => udp,
            protocol::ICMP | protocol::ICMPV6 => icmp,
            // Fragments, and options in front of one of those.
            protocol::HOP_BY_HOP | protocol::FRAGMENT | protocol::DESTINATION_OPTIONS => true,
            _ => false,
        };
        if taken && self.filters.is_allowed(&src, &dst) && !self.outer.send(item) {
            let text = "the stack's queue is full; wait for `poll_ready` before each packet";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outer.close();
        Poll::Ready(Ok(()))
    }
}
