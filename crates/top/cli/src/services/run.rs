//! The loop of the services: serve what came, then sleep in poll(2) until a frame or a request
//! comes or a deadline is reached.
//!
//! Called by: `services.rs`.

use anyhow::Result;
use wirespeed::{Duration, Event, Instant};

use super::args::Args;
use super::report::Moved;
use super::tcp::Connections;
use super::udp::Datagrams;
use crate::clock::Interrupt;
use crate::on_off::OnOff;
use crate::outside::{Outside, Settings};
use observe::Service;

/// How often the control socket is polled while the loop does not sleep.
const TICK: Duration = Duration::from_millis(50);

pub(super) struct Server {
    pub(super) outside: Outside,
    connections: Connections,
    datagrams: Datagrams,
    pub(super) moved: Moved,
}

/// Serve until Ctrl-C, or until the device is gone.
pub(super) fn serve(
    server: &mut Server,
    control: &mut Service,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut next_look = Instant::ZERO;
    while !interrupt.noted() {
        let worked = server.turn();
        let now = server.outside.clock.now();
        if now >= next_look {
            control.poll(now, &mut [("services", &mut server.outside.stack)]);
            next_look = now + control.look_within(TICK);
        }
        if worked == 0 && !server.connections.is_busy() {
            // Frames, control clients and Ctrl-C end the sleep: no periodic timer is needed.
            let due = control.next_deadline();
            let asked = control.descriptors().chain([interrupt.descriptor()]);
            if server.outside.wait(due, asked)? || server.outside.clock.now() >= due {
                next_look = Instant::ZERO;
            }
        }
    }
    Ok(())
}

impl Server {
    /// Open the device and the sockets; `None` after Ctrl-C.
    pub(super) fn open(args: &Args, interrupt: &Interrupt) -> Result<Option<Server>> {
        let settings = Settings { offload: args.offload == OnOff::On, ..Settings::default() };
        let opened = Outside::open_with(&args.outside, &settings, interrupt, Ok)?;
        let Some(mut outside) = opened else { return Ok(None) };
        let addresses = outside.addresses();
        let stack = &mut outside.stack;
        let connections = Connections::listen(stack, args.most as usize)?;
        let datagrams = Datagrams::bind(stack, addresses.into_iter(), args.udp_rate)?;
        let moved = Moved::default();
        Ok(Some(Server { outside, connections, datagrams, moved }))
    }

    /// Receive frames and serve; returns how much the stack had to do.
    fn turn(&mut self) -> usize {
        let worked = self.outside.turn();
        let (stack, moved) = (&mut self.outside.stack, &mut self.moved);
        self.connections.go_on(stack, moved);
        while let Some(event) = stack.next_event() {
            match event {
                Event::Accept(listener) => self.connections.accept(listener, stack, moved),
                Event::Tcp(handle, _) => self.connections.serve(handle, stack, moved),
                Event::Udp(handle) => {
                    self.datagrams.serve(handle, stack, self.outside.clock.now(), moved);
                }
                Event::Ping(_) | Event::OtherBroadcast(_) | Event::Address(_) => {}
            }
        }
        worked
    }
}
