//! Carries out what other programs want of a running gateway.
//!
//! Called by: `turns.rs`, when something came at the socket of `orders.rs`. Limit:
//! [`ORDER_BYTES_MAX`] of an order.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Result;
use serde_json::{Value, json};

use super::Machine;
use crate::lines::{self, Client, Gone};
use crate::orders::{Answer, Forward, Order, error};
use crate::ports::Port;
use crate::publish::Publish;
use crate::settings::Dialect;

/// Bytes of an order.
const ORDER_BYTES_MAX: usize = 4_096;
/// Orders that a client may give in a turn.
const ORDERS_A_TURN: usize = 64;

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
