//! What guests need that configure themselves, besides router advertisements (`routers.rs`): a DHCP
//! server, and a DHCPv6 server for names, at each link.
//!
//! Called by: `machine.rs`, which makes it; `turns.rs`, once a turn. The servers are crate
//! `host`'s; here they get their messages from the stack. RFC 2131, RFC 8415.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result, anyhow};
use base::{Instant, Owner};
use host::dhcp4::{self, Destination, ServerConfig, ServerOptions};
use host::dhcp6;
use stack::{PortId, Stack, UdpHandle};

use super::networks::{MAC, Network};
use super::settings::Learn;

/// Guests of one link at most: each has an address.
const GUESTS_MAX: u32 = 100;

/// The servers of all links.
pub(super) struct Guests {
    links: Vec<Link>,
    /// Ports 67 and 547.
    dhcp4: UdpHandle,
    dhcp6: UdpHandle,
}

/// The servers of one link.
struct Link {
    port: PortId,
    dhcp4: Option<(Ipv4Addr, dhcp4::Server)>,
    dhcp6: Option<dhcp6::Server>,
}

impl Guests {
    /// Serve at these ports of the stack, each with its networks.
    ///
    /// # Errors
    /// A network is too small for its guests; the stack refuses a socket.
    pub(super) fn new(
        stack: &mut Stack,
        links: &[(PortId, Vec<Network>)],
        learn: Learn,
    ) -> Result<Guests> {
        let mut bind = |any: IpAddr, port| {
            let bound = stack.udp_bind(SocketAddr::new(any, port), Owner::program());
            bound.map_err(|why| anyhow!("port {port} of the private network: {why}"))
        };
        let dhcp4 = bind(Ipv4Addr::UNSPECIFIED.into(), dhcp4::SERVER_PORT)?;
        let dhcp6 = bind(Ipv6Addr::UNSPECIFIED.into(), dhcp6::SERVER_PORT)?;
        let of = |&(port, ref networks): &(PortId, Vec<Network>)| {
            let mut link = Link { port, dhcp4: None, dhcp6: None };
            for network in networks {
                match (network.gateway, network.names) {
                    (IpAddr::V4(gateway), IpAddr::V4(names)) if learn.dhcp4 => {
                        let config = config_v4(network, (gateway, names), learn);
                        link.dhcp4 = Some((gateway, dhcp4::Server::new(config)?));
                    }
                    (IpAddr::V6(_), IpAddr::V6(names)) if learn.dhcp6 => {
                        link.dhcp6 = Some(dhcp6::Server::new(names_v6(names, learn))?);
                    }
                    _ => {}
                }
            }
            Ok(link)
        };
        let links: Vec<Link> = links.iter().map(of).collect::<Result<_>>()?;
        for link in links.iter().filter(|link| link.dhcp6.is_some()) {
            let joined = stack.udp_join(dhcp6, link.port, dhcp6::SERVERS.into());
            joined.map_err(|why| anyhow!("{why}")).context("DHCPv6 cannot be served")?;
        }
        Ok(Guests { links, dhcp4, dhcp6 })
    }

    /// The address of the guest that published ports lead to: the lowest of the first link that has
    /// one.
    pub(super) fn first(&self, now: Instant) -> Option<IpAddr> {
        let of = |link: &Link| link.dhcp4.as_ref()?.1.leases(now).map(|lease| lease.address).min();
        self.links.iter().find_map(of).map(IpAddr::V4)
    }

    /// Answer what came. What cannot be sent is asked for again.
    pub(super) fn turn(&mut self, stack: &mut Stack, now: Instant) {
        self.serve_v4(stack, now);
        self.serve_v6(stack, now);
    }

    fn serve_v4(&mut self, stack: &mut Stack, now: Instant) {
        while let Some(datagram) = stack.udp_receive(self.dhcp4) {
            let port = PortId(datagram.payload.in_port());
            let server = self.links.iter_mut().find(|link| link.port == port);
            if let Some((own, server)) = server.and_then(|link| link.dhcp4.as_mut())
                && let Ok(Some(reply)) = server.receive(now, datagram.payload.as_slice())
            {
                let _ = match reply.destination {
                    Destination::Address(to) => {
                        let to = SocketAddr::new(to.into(), dhcp4::CLIENT_PORT);
                        stack.udp_send_from(self.dhcp4, (*own).into(), to, &reply.message, now)
                    }
                    // RFC 2131 section 4.1 permits this for a client without an address.
                    Destination::Broadcast | Destination::Station { .. } => {
                        let from = (port, *own);
                        let to = dhcp4::CLIENT_PORT;
                        stack.udp_broadcast(self.dhcp4, from, to, &reply.message, now)
                    }
                };
            }
            stack.give_back(datagram.payload);
        }
    }

    fn serve_v6(&mut self, stack: &mut Stack, now: Instant) {
        while let Some(datagram) = stack.udp_receive(self.dhcp6) {
            let port = PortId(datagram.payload.in_port());
            let server = self.links.iter_mut().find(|link| link.port == port);
            let IpAddr::V6(to) = datagram.to.ip() else { continue };
            if let Some(server) = server.and_then(|link| link.dhcp6.as_mut())
                && let Ok(answer) = server.receive(to, datagram.payload.as_slice())
            {
                let _ = stack.udp_send(self.dhcp6, datagram.from, &answer, now);
            }
            stack.give_back(datagram.payload);
        }
    }
}

fn config_v4(network: &Network, (own, names): (Ipv4Addr, Ipv4Addr), learn: Learn) -> ServerConfig {
    let first = match network.program {
        IpAddr::V4(first) => first,
        IpAddr::V6(_) => own,
    };
    // The last address of the network is for all of its hosts.
    let hosts = u32::MAX.checked_shr(u32::from(network.prefix_len)).unwrap_or(0);
    let last = Ipv4Addr::from_bits((own.to_bits() | hosts) - 1);
    let last = last.min(Ipv4Addr::from_bits(first.to_bits().saturating_add(GUESTS_MAX - 1)));
    ServerConfig {
        in_order: true,
        options: ServerOptions {
            routers: vec![own],
            dns_servers: if learn.has_names { vec![names] } else { Vec::new() },
            mtu: Some(learn.mtu),
            ..ServerOptions::default()
        },
        ..ServerConfig::new(own, network.prefix_len, first, last)
    }
}

fn names_v6(names: Ipv6Addr, learn: Learn) -> dhcp6::ServerConfig {
    let dns_servers = if learn.has_names { vec![names] } else { Vec::new() };
    let information = dhcp6::Information { dns_servers, search: Vec::new() };
    let duid = dhcp6::duid_of_link_address(MAC);
    dhcp6::ServerConfig { duid, information, refresh: None }
}
