//! Other programs publish ports of a running gateway, at a Unix socket: in lines of JSON of ours, as
//! `pesto` sends them, or as the API of slirp4netns(1) has it.
//!
//! Called by: `turns.rs`. `lines.rs` has the clients. Limit: [`ORDER_BYTES_MAX`] of an order.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;

use ::gateway::Ready;
use anyhow::{Context, Result};
use outside::{Host, Listen};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Machine;
use super::lines::{self, Client, Gone};
use super::ports::Port;
use super::publish::Publish;
use super::turns::ORDERS;

/// Bytes of an order.
const ORDER_BYTES_MAX: usize = 4_096;
/// Orders that a client may give in a turn.
const ORDERS_A_TURN: usize = 64;

/// How the clients of a socket speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Dialect {
    /// A line is an [`Order`], and each has an [`Answer`].
    Lines,
    /// One request of slirp4netns's API for each connection.
    Slirp,
}

/// An order, as a line. Ports are written as for `-p`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Publish it.
    Add(String),
    /// Close it.
    Delete(String),
    /// Close all.
    Clear,
    /// Say what is published.
    Show,
}

/// The answer to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// It is not, and why.
    Failed(String),
    /// What is published: `tcp 0.0.0.0:8080 -> 10.0.2.100:80`.
    Ports(Vec<String>),
}

/// The socket and its clients.
#[derive(Debug)]
pub(super) struct Orders {
    listener: UnixListener,
    dialect: Dialect,
    clients: Vec<Client>,
}

impl Orders {
    pub(super) fn new(listener: OwnedFd, dialect: Dialect) -> std::io::Result<Orders> {
        Ok(Orders { listener: lines::listener(listener)?, dialect, clients: Vec::new() })
    }

    /// Wait for clients and for their orders.
    ///
    /// # Errors
    /// Epoll refuses a socket.
    pub(super) fn wait_for(&self, host: &Host) -> Result<()> {
        let clients = self.clients.iter().map(AsFd::as_fd);
        std::iter::once(self.listener.as_fd()).chain(clients).try_for_each(|fd| {
            host.watch(fd, ORDERS, Ready::READABLE).context("epoll refuses an order's socket")
        })
    }
}

impl Machine {
    /// Carry out what clients want.
    ///
    /// # Errors
    /// Epoll refuses a socket.
    pub(super) fn obey(&mut self) -> Result<()> {
        let Some(mut orders) = self.orders.take() else { return Ok(()) };
        let new = lines::accept(&orders.listener, orders.clients.len());
        orders.clients.extend(new);
        let dialect = orders.dialect;
        orders.clients.retain_mut(|client| {
            let served = client.read(ORDER_BYTES_MAX).and_then(|()| match dialect {
                Dialect::Lines => self.serve_lines(client),
                Dialect::Slirp => self.serve_slirp(client),
            });
            served.is_ok() && !client.has_ended
        });
        let waited = orders.wait_for(&self.host);
        self.orders = Some(orders);
        waited
    }

    fn serve_lines(&mut self, client: &mut Client) -> Result<(), Gone> {
        for _ in 0..ORDERS_A_TURN {
            let Some(line) = client.line(ORDER_BYTES_MAX)? else { return Ok(()) };
            let answer = match serde_json::from_slice(&line) {
                Ok(order) => self.carry_out(&order),
                Err(why) => Answer::Failed(format!("the order is not understood: {why}")),
            };
            let mut text = serde_json::to_vec(&answer).map_err(|_| Gone)?;
            text.push(b'\n');
            client.write(&text)?;
        }
        Err(Gone)
    }

    /// Carry out an order.
    pub(super) fn carry_out(&mut self, order: &Order) -> Answer {
        let publish = |text: &str| text.parse::<Publish>().map_err(Answer::Failed);
        let done = match order {
            Order::Show => {
                Ok(Answer::Ports(self.ports.iter().map(|port| self.says(port)).collect()))
            }
            Order::Clear => {
                self.close_ports(|_| true);
                Ok(Answer::Done)
            }
            Order::Add(text) => publish(text).and_then(|publish| {
                let opened = self.open_ports(&publish);
                opened.map(|_| Answer::Done).map_err(|why| Answer::Failed(format!("{why:#}")))
            }),
            Order::Delete(text) => publish(text).map(|publish| {
                match self.close_ports(|port| publish.is_of(port.at, &port.what)) {
                    0 => Answer::Failed(format!("{text} is not published")),
                    _ => Answer::Done,
                }
            }),
        };
        done.unwrap_or_else(|failed| failed)
    }

    fn says(&self, port: &Port) -> String {
        let protocol = if port.what.udp { "udp" } else { "tcp" };
        let guest = self.guest(port).map_or("the guest".to_owned(), |guest| guest.to_string());
        format!("{protocol} {} -> {guest} port {}", port.at, port.what.to)
    }

    /// The guest that a port leads to: for clients of IPv4, if it is for both versions.
    fn guest(&self, port: &Port) -> Option<IpAddr> {
        let is_both = port.at.ip().is_unspecified() && !port.what.udp;
        let like = if is_both { Ipv4Addr::UNSPECIFIED.into() } else { port.at.ip() };
        port.what.guest.or_else(|| Some(self.of_guest(like, 0)?.ip()))
    }

    fn serve_slirp(&mut self, client: &mut Client) -> Result<(), Gone> {
        let request: Value = match serde_json::from_slice(&client.input) {
            Ok(request) => request,
            Err(why) if why.is_eof() && !client.has_ended => {
                return if client.input.len() > ORDER_BYTES_MAX { Err(Gone) } else { Ok(()) };
            }
            Err(why) => {
                let text = format!("bad request: {why}");
                client.write(error(&text).to_string().as_bytes())?;
                return Err(Gone);
            }
        };
        let answer = self.slirp(&request).unwrap_or_else(|why| error(&why));
        client.write(answer.to_string().as_bytes())?;
        // A connection has one request.
        Err(Gone)
    }

    fn slirp(&mut self, request: &Value) -> Result<Value, String> {
        let arguments = &request["arguments"];
        match request["execute"].as_str() {
            Some("add_hostfwd") => {
                let wanted: Forward = serde_json::from_value(arguments.clone())
                    .map_err(|why| format!("bad request: add_hostfwd: bad arguments: {why}"))?;
                let opened = self.open_ports(&wanted.publish()?);
                let id = opened.map_err(|why| format!("bad request: add_hostfwd: {why:#}"))?;
                Ok(json!({ "return": { "id": id } }))
            }
            Some("list_hostfwd") => {
                let entries: Vec<Value> = self.ports.iter().map(|port| self.entry(port)).collect();
                Ok(json!({ "return": { "entries": entries } }))
            }
            Some("remove_hostfwd") => {
                let id = arguments["id"].as_u64();
                let id = id.ok_or("bad request: remove_hostfwd: no id")?;
                match self.close_ports(|port| port.id == id) {
                    0 => Err(format!("bad request: remove_hostfwd: no forward has id {id}")),
                    _ => Ok(json!({ "return": {} })),
                }
            }
            Some(other) => Err(format!("bad request: unknown execute: \"{other}\"")),
            None => Err("bad request: no execute found".to_owned()),
        }
    }

    fn entry(&self, port: &Port) -> Value {
        let guest = self.guest(port);
        json!({
            "id": port.id,
            "proto": if port.what.udp { "udp" } else { "tcp" },
            "host_addr": port.at.ip().to_string(),
            "host_port": port.at.port(),
            "guest_addr": guest.map(|guest| guest.to_string()),
            "guest_port": port.what.to,
        })
    }
}

fn error(why: &str) -> Value {
    json!({ "error": { "desc": why } })
}

/// The arguments of `add_hostfwd`.
#[derive(Debug, Deserialize)]
struct Forward {
    proto: String,
    #[serde(default)]
    host_addr: String,
    host_port: u16,
    #[serde(default)]
    guest_addr: String,
    guest_port: u16,
}

impl Forward {
    fn publish(&self) -> Result<Publish, String> {
        let udp = match self.proto.as_str() {
            "tcp" | "tcp4" | "tcp6" => false,
            "udp" | "udp4" | "udp6" => true,
            other => return Err(format!("bad request: add_hostfwd: bad proto: {other}")),
        };
        let any = if self.proto.ends_with('6') { "::" } else { "0.0.0.0" };
        let address = |text: &str| {
            let why = format!("bad request: add_hostfwd: bad address: {text}");
            text.parse().map_err(|_| why)
        };
        let host = if self.host_addr.is_empty() { any } else { &self.host_addr };
        let listen =
            Listen { address: Some(address(host)?), interface: None, port: self.host_port };
        let guest = match self.guest_addr.as_str() {
            "" | "0.0.0.0" | "::" => None,
            text => Some(address(text)?),
        };
        if self.host_port == 0 || self.guest_port == 0 {
            return Err("bad request: add_hostfwd: bad port: 0".to_owned());
        }
        Ok(Publish::one(listen, guest, self.guest_port, udp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_lines() {
        let text = |order: &Order| serde_json::to_string(order).expect("a line");
        assert_eq!(text(&Order::Add("80:81".to_owned())), r#"{"add":"80:81"}"#);
        assert_eq!(text(&Order::Show), r#""show""#);
        assert_eq!(serde_json::from_str::<Answer>(r#""done""#).expect("an answer"), Answer::Done);
    }

    #[test]
    fn forwards_of_slirp_are_published_ports() {
        let publish = |text: &str| {
            serde_json::from_str::<Forward>(text).map_err(|why| why.to_string())?.publish()
        };
        let good = r#"{"proto":"tcp","host_addr":"127.0.0.1","host_port":8080,"guest_port":80}"#;
        assert_eq!(publish(good), "127.0.0.1/8080:80".parse());
        let good = r#"{"proto":"udp","host_port":53,"guest_addr":"10.0.2.9","guest_port":54}"#;
        assert_eq!(publish(good), "0.0.0.0/53:10.0.2.9:54/udp".parse());
        for (text, says) in [
            ("{}", "proto"),
            (r#"{"proto":"sctp","host_port":1,"guest_port":1}"#, "bad proto"),
            (r#"{"proto":"tcp","host_port":0,"guest_port":1}"#, "bad port"),
            (r#"{"proto":"tcp","host_port":70000,"guest_port":1}"#, "70000"),
            (r#"{"proto":"tcp","host_port":1,"guest_port":1,"host_addr":"x"}"#, "bad address"),
        ] {
            let why = publish(text).expect_err("no port");
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
