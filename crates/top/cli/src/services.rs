//! `wirespeed services`: the small services over a device, as a peer to test against: echo (RFC
//! 862, port 7), discard (RFC 863, port 9), daytime (RFC 867, port 13) and character generator (RFC
//! 864, port 19), over TCP and UDP, until Ctrl-C.
//!
//! Called by: `lib.rs`; `cargo xtask interop attacks` attacks it.

mod service;
mod tcp;
mod udp;

use anyhow::Result;
use tcp::Connections;
use udp::Datagrams;
use wirespeed::{Event, Instant};

use crate::clock::Interrupt;
use crate::network::{Network, Settings};
use crate::on_off::OnOff;
use crate::{Outcome, network, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Over TCP and UDP: echo at port 7, discard at 9, daytime at 13, chargen at 19. Over UDP no answer
goes to a port below 1024, where services are, and none is longer than three times what came.

A host of its own behind a TAP, and a look at it from this machine:
  sudo wirespeed services --dev tap:ws0 --addr 192.0.2.2/24 &
  sudo ip addr add 192.0.2.1/24 dev ws0
  ping 192.0.2.2; nc 192.0.2.2 13; nc -u 192.0.2.2 7")]
pub(crate) struct Args {
    #[command(flatten)]
    network: network::Args,
    /// Checksums and cutting of large segments left to the device
    #[arg(long, value_name = "on|off", default_value = "on", help_heading = network::HEADING,
          hide_short_help = true)]
    offload: OnOff,
    /// Connections at a time; more are reset
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    most: u32,
    /// Datagrams answered in a second; further ones get no answer
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    udp_rate: u32,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let Some(mut server) = Server::open(args, &interrupt)? else { return Ok(Outcome::Done) };
    output::out(BEGIN)?;
    let ended = serve(&mut server, &interrupt);
    output::out(&end(&server.moved))?;
    ended.map(|()| Outcome::Done)
}

/// The first line.
const BEGIN: &str = "echo at port 7, discard at 9, daytime at 13, chargen at 19, over \
                                TCP and UDP; Ctrl-C ends it\n";

/// The totals.
#[derive(Debug, Default)]
struct Moved {
    connections: u64,
    /// Over TCP, both directions.
    bytes: u64,
    datagrams: u64,
    answered: u64,
    /// Not answered because they came from a service's port.
    from_services: u64,
    /// Not answered because of the rate limit.
    over_limit: u64,
}

/// What happened to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// Discard never replies.
    Discarded,
    /// It came from a port of a service.
    FromService,
    /// The rate limit was reached.
    OverLimit,
    /// The reply could not be sent.
    Unsent,
}

impl Moved {
    /// Count a datagram.
    fn note(&mut self, fate: Fate) {
        self.datagrams += 1;
        match fate {
            Fate::Answered => self.answered += 1,
            Fate::FromService => self.from_services += 1,
            Fate::OverLimit => self.over_limit += 1,
            Fate::Discarded | Fate::Unsent => {}
        }
    }
}

/// The last lines.
fn end(moved: &Moved) -> String {
    let mut text = format!("{} connections, {} bytes\n", moved.connections, moved.bytes);
    if moved.datagrams > 0 {
        text += &format!("{} datagrams, {} answered", moved.datagrams, moved.answered);
        for (count, why) in [
            (moved.from_services, "from ports of services"),
            (moved.over_limit, "over the limit of --udp-rate"),
        ] {
            if count > 0 {
                text += &format!(", {count} {why}");
            }
        }
        text.push('\n');
    }
    text
}

struct Server {
    network: Network,
    connections: Connections,
    datagrams: Datagrams,
    moved: Moved,
}

/// Serve until Ctrl-C, or until the device is gone.
fn serve(server: &mut Server, interrupt: &Interrupt) -> Result<()> {
    while !interrupt.noted() {
        server.turn();
        let until = if server.connections.is_busy() { Instant::ZERO } else { Instant::NEVER };
        server.network.rest(until, [interrupt.descriptor()])?;
    }
    Ok(())
}

impl Server {
    /// Open the device and the sockets; `None` after Ctrl-C.
    fn open(args: &Args, interrupt: &Interrupt) -> Result<Option<Server>> {
        let settings = Settings { offload: args.offload == OnOff::On, ..Settings::default() };
        let opened = Network::open_with(&args.network, "services", &settings, interrupt, Ok)?;
        let Some(mut network) = opened else { return Ok(None) };
        let addresses = network.addresses();
        let stack = &mut network.stack;
        let connections = Connections::listen(stack, args.most as usize)?;
        let datagrams = Datagrams::bind(stack, addresses.into_iter(), args.udp_rate)?;
        let moved = Moved::default();
        Ok(Some(Server { network, connections, datagrams, moved }))
    }

    /// Receive frames and serve.
    fn turn(&mut self) {
        self.network.turn();
        let (stack, moved) = (&mut self.network.stack, &mut self.moved);
        self.connections.go_on(stack, moved);
        while let Some(event) = stack.next_event() {
            match event {
                Event::Accept(listener) => self.connections.accept(listener, stack, moved),
                Event::Tcp(handle, _) => self.connections.serve(handle, stack, moved),
                Event::Udp(handle) => {
                    self.datagrams.serve(handle, stack, self.network.clock.now(), moved);
                }
                // Neither echo sockets, nor tags, nor datagrams of others are asked for here.
                Event::Ping(_) | Event::Tagged(..) | Event::Foreign => {}
                Event::OtherBroadcast(_) | Event::Address(_) => {}
            }
        }
    }
}
