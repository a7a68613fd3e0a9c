//! Two stacks of ours joined in memory, driven by one thread, in real time.
//!
//! Called by: `elbow.rs`, the benchmarks.

use std::net::SocketAddr;
use std::time::Instant as Clock;

use base::Instant;
use stack::pair::{End, PairConfig, pair};

use super::ends::{Answerer, Caller, LONGEST, PORT, counted, failed};
use super::point::{Causes, Transport};
use crate::Error;

/// Both ends.
pub struct Memory {
    ends: (End, End),
    caller: Caller,
    answerer: Answerer,
    clock: Clock,
    held: Causes,
}

impl Memory {
    /// Two ends, with a connection if the transport is TCP.
    ///
    /// # Errors
    /// The ends cannot be made, which is a defect.
    pub fn new(transport: Transport) -> Result<Memory, Error> {
        let (mut client, mut server) = pair(&PairConfig::new([0x1989, 0x5]));
        let at = SocketAddr::new(server.addr, PORT);
        let answerer = Answerer::new(&mut server.stack, transport, at)?;
        let now = Instant::from_nanos(1);
        let caller = Caller::new(&mut client.stack, transport, at, (19, 89), now)?;
        let ends = (client, server);
        Ok(Memory { ends, caller, answerer, clock: Clock::now(), held: Causes::default() })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1)
    }

    /// Make calls one after the other. Returns the nanoseconds that they took.
    ///
    /// # Errors
    /// A call has no reply.
    pub fn calls(&mut self, argument: &[u8], calls: u32) -> Result<u64, Error> {
        let begun = self.now();
        for _ in 0..calls {
            self.call(argument)?;
        }
        while self.ends.0.stack.next_event().is_some() {}
        while self.ends.1.stack.next_event().is_some() {}
        Ok(self.now().since(begun).as_nanos())
    }

    /// Make at least `calls` calls, a few more at most, with `in_flight` of them outstanding at a
    /// time.
    ///
    /// # Errors
    /// A call has no reply.
    pub fn in_flight(&mut self, argument: &[u8], in_flight: u32, calls: u32) -> Result<(), Error> {
        let begun = self.now();
        let (mut waiting, mut done) = (0, 0);
        while done < calls || waiting > 0 {
            let now = self.now();
            while waiting < in_flight && done + waiting < calls {
                self.caller.call(argument, now)?;
                waiting += 1;
            }
            let (client, server) = (&mut self.ends.0.stack, &mut self.ends.1.stack);
            let early = self.caller.go_on(client, now)?;
            client.flush();
            server.poll_before_flush(now);
            self.answerer.go_on(server, now)?;
            server.flush();
            client.poll(now);
            let replies = early + self.caller.go_on(client, now)?;
            (waiting, done) = (waiting - replies.min(waiting), done + replies);
            if now.since(begun) > LONGEST {
                return Err(failed(format!("{done} of {calls} calls have a reply")));
            }
        }
        Ok(())
    }

    /// The causes so far.
    pub fn causes(&self) -> Causes {
        let mut causes = counted([&self.ends.0.stack, &self.ends.1.stack], &self.caller);
        causes += self.held;
        causes
    }

    fn call(&mut self, argument: &[u8]) -> Result<(), Error> {
        let begun = self.now();
        let mut now = begun;
        self.caller.call(argument, now)?;
        let mut was_idle = false;
        loop {
            let (client, server) = (&mut self.ends.0.stack, &mut self.ends.1.stack);
            let mut moved = client.poll(now);
            if self.caller.go_on(client, now)? > 0 {
                return Ok(());
            }
            client.flush();
            moved += server.poll_before_flush(now);
            self.answerer.go_on(server, now)?;
            server.flush();
            if moved == 0 {
                self.look(&mut was_idle);
                if now.since(begun) > LONGEST {
                    let what = format!("a call of {} bytes has no reply", argument.len());
                    return Err(failed(format!("{what}. Please report this line")));
                }
            }
            now = self.now();
        }
    }

    /// Nothing moves: find the cause of the wait, and count it. It is counted once until something
    /// moves again.
    #[cold]
    fn look(&mut self, was_idle: &mut bool) {
        let (client, server) = (&self.ends.0.stack, &self.ends.1.stack);
        let ack = self.answerer.delays_ack(server, server.next_deadline());
        if !*was_idle {
            self.held.delayed_acks += u64::from(ack);
            self.held.nagle_holds += u64::from(self.caller.is_held(client));
        }
        *was_idle = true;
    }
}
