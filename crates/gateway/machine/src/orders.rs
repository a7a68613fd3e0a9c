//! Other programs publish ports of a running gateway, at a Unix socket: in lines of JSON of ours,
//! as `pesto` sends them, or as the API of slirp4netns(1) has it.
//!
//! Called by: `obeying.rs`, which carries orders out; `pesto` is the other end. `lines.rs` has the
//! clients.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;

use ::gateway::Ready;
use anyhow::{Context, Result};
use outside::{Host, Listen};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::lines::{self, Client};
use super::publish::Publish;
use super::settings::Dialect;
use super::wakes::ORDERS;

/// An order, as a line. Ports are written as for `-p`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
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
pub enum Answer {
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
    pub(super) listener: UnixListener,
    pub(super) dialect: Dialect,
    pub(super) clients: Vec<Client>,
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

/// The answer of slirp4netns's API that says what is wrong.
pub(super) fn error(why: &str) -> Value {
    json!({ "error": { "desc": why } })
}

/// The arguments of `add_hostfwd`.
#[derive(Debug, Deserialize)]
pub(super) struct Forward {
    proto: String,
    #[serde(default)]
    host_addr: String,
    host_port: u16,
    #[serde(default)]
    guest_addr: String,
    guest_port: u16,
}

impl Forward {
    /// The port that is wanted.
    pub(super) fn publish(&self) -> Result<Publish, String> {
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
