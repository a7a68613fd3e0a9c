//! A program made ready to run the fastest way there is here.
//!
//! Called by: taps and captures. Whether it is machine code makes no difference but to time.

use crate::packet::Packet;
use crate::program::Program;

/// A filter: machine code where the feature `jit` and the machine allow it, else interpreted.
#[derive(Debug)]
pub struct Filter {
    program: Program,
    /// What it says of any packet, if it looks at none.
    always: Option<u32>,
    #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
    code: Option<crate::jit::Code>,
}

impl Filter {
    /// Compile a program. Where the system gives no memory that can be executed, the interpreter
    /// runs it: [`Filter::is_compiled`] tells.
    pub fn new(program: Program) -> Filter {
        #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
        let code = crate::jit::compile(program.insns()).ok();
        Filter {
            always: program.always(),
            program,
            #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
            code,
        }
    }

    /// How many bytes of any packet to keep, if it looks at none.
    pub fn always(&self) -> Option<u32> {
        self.always
    }

    /// Is it machine code?
    pub fn is_compiled(&self) -> bool {
        #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
        return self.code.is_some();
        #[cfg(not(all(feature = "jit", unix, target_arch = "x86_64")))]
        return false;
    }

    /// How many bytes of the packet to keep, at most; 0 is no match. Equals [`Program::run`].
    #[inline]
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        if let Some(keep) = self.always {
            return keep;
        }
        #[cfg(all(feature = "jit", unix, target_arch = "x86_64"))]
        if let Some(code) = &self.code {
            match code.run(packet.head, packet.wire_len) {
                Some(keep) => return keep,
                // It read past the head. That is rare, so the interpreter begins again.
                None if packet.has_rest() => {}
                None => return 0,
            }
        }
        // A copy, so that a packet that does not come here stays in registers.
        self.program.run(&{ *packet })
    }

    /// The program it runs.
    pub fn program(&self) -> &Program {
        &self.program
    }
}
