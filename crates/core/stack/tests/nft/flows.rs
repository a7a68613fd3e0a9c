//! Random flows: who talks to whom, and what they send. Datagrams, queries, errors and fragments
//! are here, connections in `tcp.rs`.
//!
//! Called by: `main.rs`, which sends the steps of several flows in turns.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::nat::Published;
use crate::network::{HOSTS, host};
use crate::packets::{Content, ESP, Ends, GRE};
use crate::random::Rng;
use crate::rules::PORTS;
use crate::tcp;

/// What one side sends.
#[derive(Clone)]
pub(crate) struct Step {
    /// From the host that began.
    pub(crate) forth: bool,
    pub(crate) content: Content,
    pub(crate) name: &'static str,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = if self.forth { ">" } else { "<" };
        match &self.content {
            Content::Tcp(s) => write!(
                f,
                "\n   {way} {} flags {:#04x} seq {} ack {} len {} win {} {:?}",
                self.name, s.flags, s.seq, s.ack, s.len, s.window, s.options
            ),
            other => write!(f, "\n   {way} {} {other:?}", self.name),
        }
    }
}

impl Step {
    pub(crate) fn new(forth: bool, name: &'static str, content: Content) -> Step {
        Step { forth, content, name }
    }
}

/// A flow, and how far it is.
#[derive(Debug)]
pub(crate) struct Flow {
    /// The router's port on the side of the host that begins.
    pub(crate) port: usize,
    /// As the host that begins knows it.
    pub(crate) ends: Ends,
    pub(crate) steps: VecDeque<Step>,
    /// Steps that were sent, and what became of them here.
    pub(crate) sent: Vec<(Step, String)>,
}

/// A flow of `number`'s hosts; `nth` tells its source port from those of others. What NAT publishes
/// has flows from outside.
pub(crate) fn generate(rng: &mut Rng, number: u32, nth: u16, nat: Option<&Published>) -> Flow {
    let v6 = rng.one_in(if nat.is_some() { 10 } else { 3 });
    let port = usize::from(rng.one_in(3));
    let client = host(number, port, v6, rng.pick(&HOSTS));
    let server = host(number, 1 - port, v6, rng.pick(&HOSTS));
    // Hosts behind NAT have the same port at times.
    let nth = if nat.is_some() && rng.one_in(4) { 99 } else { nth };
    let source = rng.pick(&[1_024, 20_000, 32_768, 40_000]) + nth;
    let mut ends = Ends {
        src: SocketAddr::new(client, source),
        dst: SocketAddr::new(server, rng.pick(&PORTS)),
    };
    if let Some(targets) = nat.map(|nat| &nat.targets).filter(|targets| !targets.is_empty())
        && port == 1
        && !v6
        && !rng.one_in(4)
    {
        ends.dst = rng.pick(targets);
    }
    let mut steps = match rng.below(20) {
        0..11 => tcp::script(rng, v6),
        11..15 => datagrams(rng, v6, nat.is_none()),
        15..17 => {
            ends.dst.set_port(0);
            echoes(rng, v6, nat.is_none())
        }
        17 => {
            // Hosts behind NAT talk to the same one at times.
            let [clients, servers] = if nat.is_some() { [3, 1] } else { [HOSTS.len(); 2] };
            let client = host(number, port, v6, rng.pick(&HOSTS[..clients]));
            let server = host(number, 1 - port, v6, rng.pick(&HOSTS[..servers]));
            (ends.src, ends.dst) = (SocketAddr::new(client, 0), SocketAddr::new(server, 0));
            others(rng)
        }
        18 => {
            ends.dst.set_port(0);
            messages(rng, v6)
        }
        _ => fragments(rng, v6, nat.is_none()),
    };
    for step in &mut steps {
        let side = if step.forth { port } else { 1 - port };
        let mut other = |side| host(number, side, v6, rng.pick(&HOSTS));
        let (sender, receiver) = (other(side), other(1 - side));
        if let Content::Error { from, to, .. } = &mut step.content {
            // Routers on the way send errors too.
            if rng.one_in(3) {
                *from = Some(sender);
            }
            let is_right = receiver == ends.src.ip() || receiver == ends.dst.ip();
            if rng.one_in(8) && nat.is_none() && !is_right {
                *to = Some(receiver);
                step.name = "error to another host";
            }
        }
    }
    Flow { port, ends, steps: steps.into(), sent: Vec::new() }
}

fn datagrams(rng: &mut Rng, v6: bool, may_answer: bool) -> Vec<Step> {
    let udp = |rng: &mut Rng| Content::Udp(rng.pick(&[0, 1, 30, 512, 1_200]));
    // A few begin with what would be the answer. With NAT it would be a flow of its own.
    let mut steps = Vec::new();
    if may_answer && rng.one_in(8) {
        steps.push(Step::new(false, "answer without a question", udp(rng)));
    }
    for _ in 0..1 + rng.below(6) {
        let forth = !rng.one_in(2) || steps.is_empty();
        steps.push(Step::new(forth, "datagram", udp(rng)));
        if rng.one_in(4) {
            let about = udp(rng);
            steps.push(error(rng, v6, !forth, about));
        }
    }
    steps
}

/// An ICMP error that goes in the direction `forth` about `about`, which went in the other one.
pub(crate) fn error(rng: &mut Rng, v6: bool, forth: bool, about: Content) -> Step {
    let kinds: &[(u8, u8)] = if v6 {
        &[(1, 0), (1, 1), (1, 4), (2, 0), (3, 0), (3, 1), (4, 0)]
    } else {
        &[(3, 0), (3, 1), (3, 3), (3, 4), (3, 13), (11, 0), (11, 1), (12, 0)]
    };
    let about = Box::new(about);
    Step::new(forth, "error", Content::Error { kind: rng.pick(kinds), about, from: None, to: None })
}

fn echoes(rng: &mut Rng, v6: bool, may_answer: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    if may_answer && rng.one_in(8) {
        steps.push(Step::new(false, "reply without a request", Content::EchoReply(8)));
    }
    for _ in 0..1 + rng.below(4) {
        steps.push(Step::new(true, "request", Content::EchoRequest(32)));
        if rng.one_in(4) {
            steps.push(error(rng, v6, false, Content::EchoRequest(32)));
        }
        if !rng.one_in(4) {
            steps.push(Step::new(false, "reply", Content::EchoReply(32)));
        }
    }
    if rng.one_in(6) {
        steps.push(Step::new(true, "reply from the querier", Content::EchoReply(32)));
    }
    // The identifier is each querier's choice: two hosts may query each other with one.
    if may_answer && rng.one_in(2) {
        steps.push(Step::new(false, "request of the other side", Content::EchoRequest(32)));
        steps.push(Step::new(true, "request", Content::EchoRequest(32)));
        steps.push(Step::new(true, "reply to the other side", Content::EchoReply(32)));
        steps.push(Step::new(false, "reply", Content::EchoReply(32)));
        if rng.one_in(2) {
            steps.push(error(rng, v6, true, Content::EchoRequest(32)));
            steps.push(error(rng, v6, false, Content::EchoReply(32)));
        }
    }
    steps
}

fn others(rng: &mut Rng) -> Vec<Step> {
    let protocol = rng.pick(&[ESP, ESP, GRE, 99, 253]);
    let mut steps = vec![Step::new(true, "other", Content::Other(protocol, 40))];
    for _ in 0..rng.below(4) {
        steps.push(Step::new(rng.one_in(2), "other", Content::Other(protocol, 60)));
    }
    steps
}

/// Messages that are neither queries nor errors, and errors about nothing.
fn messages(rng: &mut Rng, v6: bool) -> Vec<Step> {
    let lone = Content::Udp(8);
    let mut steps = vec![error(rng, v6, true, lone)];
    if !v6 {
        steps.push(Step::new(true, "timestamp", Content::Message(13, 0)));
        steps.push(Step::new(false, "timestamp reply", Content::Message(14, 0)));
        if rng.one_in(2) {
            steps.push(Step::new(true, "router advertisement", Content::Message(9, 0)));
        }
    }
    steps
}

fn fragments(rng: &mut Rng, v6: bool, may_answer: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let has_ports = v6 || !rng.one_in(3);
    for n in 0..1 + rng.below(4) {
        let len = rng.pick(&[200, 1_300, 2_000]);
        let content = if has_ports { Content::Udp(len) } else { Content::Other(99, len) };
        let each = rng.pick(&[104, 400, 1_000]);
        let mut order: Vec<usize> = (0..len / each + 2).collect();
        if rng.one_in(3) {
            order.reverse();
        } else if rng.one_in(3) {
            let at = rng.below(order.len() as u32) as usize;
            order.swap(0, at);
        }
        let mut name = "fragments";
        if rng.one_in(5) && len > each && (n > 0 || may_answer) {
            let lost = rng.below((len / each) as u32) as usize;
            order.retain(|&n| n != lost);
            name = "fragments without one";
        }
        let forth = n == 0 || rng.one_in(2);
        let content = Content::Pieces { whole: Box::new(content), each, order };
        steps.push(Step::new(forth, name, content));
    }
    steps
}
