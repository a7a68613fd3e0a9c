//! What is sampled of a thread.
//!
//! Called by: everything here, and who shows what was sampled.

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time on the processor, in ns.
    Time,
    /// Cycles of the processor.
    Cycles,
    /// Instructions.
    Instructions,
    /// Cycles in which nothing was done, as waiting for memory.
    Stalled,
}

impl Event {
    /// All of them; the index is that of figures.
    pub const ALL: [Event; 4] = [Event::Time, Event::Cycles, Event::Instructions, Event::Stalled];

    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Event::Time => "ns",
            Event::Cycles => "cycles",
            Event::Instructions => "instructions",
            Event::Stalled => "stalled_cycles",
        }
    }
}
