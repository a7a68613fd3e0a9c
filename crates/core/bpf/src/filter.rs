//! Runs a program the fastest way available: as machine code, or by the interpreter.
//!
//! Called by: taps and captures. Machine code and interpreter give the same results.

use crate::packet::{Direction, Packet};
use crate::program::Program;

/// A filter that runs as machine code if the feature `jit` is on and the machine allows it, else in
/// the interpreter.
#[derive(Debug)]
pub struct Filter {
    program: Program,
    /// The program's result, if it is the same for every packet.
    always: Option<u32>,
    #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
    code: Option<crate::jit::Code>,
    /// The filter for sent packets, if the program's result depends on the direction.
    sent: Option<Box<Filter>>,
}

impl Filter {
    /// Compile a program. If the system grants no executable memory, the interpreter runs it; see
    /// [`Filter::is_compiled`].
    pub fn new(program: Program) -> Filter {
        #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
        let code = crate::jit::compile(&program).and_then(Result::ok);
        let sent = program.asks_direction().then(|| program.of(Direction::Out).clone());
        Filter {
            sent: sent.map(|sent| Box::new(Filter::new(sent))),
            always: program.always(),
            program,
            #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
            code,
        }
    }

    /// How many bytes of a packet to keep, if that number is the same for every packet.
    pub fn always(&self) -> Option<u32> {
        self.always
    }

    /// Does the filter run as machine code?
    pub fn is_compiled(&self) -> bool {
        #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
        return self.code.is_some();
        #[cfg(not(all(feature = "jit", unix, target_arch = "x86_64")))]
        return false;
    }

    /// Does the result depend on the packet's direction?
    pub fn asks_direction(&self) -> bool {
        self.sent.is_some()
    }

    /// The filter for packets of this direction.
    #[inline]
    pub fn of(&self, direction: Direction) -> &Filter {
        match (direction, &self.sent) {
            (Direction::Out, Some(sent)) => sent,
            _ => self,
        }
    }

    /// The maximum number of bytes to keep of the packet; 0 means that the packet does not match.
    /// The result is that of [`Program::run`]: if it depends on the direction, the packet is taken
    /// for a received one.
    #[inline]
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        if let Some(keep) = self.always {
            return keep;
        }
        #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
        if let Some(code) = &self.code {
            match code.run(packet.head, packet.wire_len) {
                Some(keep) => return keep,
                // The program read past the head. That is rare, so the interpreter runs it from the
                // start.
                None if packet.has_rest() => {}
                None => return 0,
            }
        }
        // A copy, so that on the other paths the packet stays in registers.
        self.program.run(&{ *packet })
    }

    /// The program that this filter runs.
    pub fn program(&self) -> &Program {
        &self.program
    }
}
