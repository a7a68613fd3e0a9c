//! The stages of a packet, their names, and what would make them cheaper.
//!
//! Called by: the whole crate, and tools that show samples. `linux/owner.rs` says which code
//! belongs to which stage.

/// A part of the cost of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Devices: rings, system calls that move frames, the bursts of ports.
    Driver,
    /// Taps and their filters.
    Tap,
    /// Link headers and neighbours.
    Ether,
    /// IP, routes, forwarding, fragments, ICMP.
    Ip,
    /// TCP.
    Tcp,
    /// The code that joins the layers: bursts, the connection table, timers.
    Stack,
    /// Sockets and their buffers, UDP.
    Socket,
    /// Mbufs: their pool, and chains.
    Buffers,
    /// Copying bytes, with or without their checksum.
    Copy,
    /// Checksums without a copy.
    Checksum,
    /// Sleeping and waking.
    WakeUps,
    /// Everything else: the program, the standard library, code without a line table.
    Other,
}

/// The kind of work of a stage, in the terms of the papers behind the project's mission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Headers, state, lookups.
    Protocol,
    /// Work on every byte.
    Bytes,
    /// The device, interrupts, switches between tasks.
    Device,
    /// Work outside of the stack.
    Outside,
}

impl Stage {
    /// All stages, in the order of tables.
    pub const ALL: [Stage; 12] = [
        Stage::Driver,
        Stage::Tap,
        Stage::Ether,
        Stage::Ip,
        Stage::Tcp,
        Stage::Stack,
        Stage::Socket,
        Stage::Buffers,
        Stage::Copy,
        Stage::Checksum,
        Stage::WakeUps,
        Stage::Other,
    ];

    /// The name in tables and JSON documents.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Driver => "driver",
            Stage::Tap => "tap",
            Stage::Ether => "ether",
            Stage::Ip => "ip",
            Stage::Tcp => "tcp",
            Stage::Stack => "stack",
            Stage::Socket => "socket",
            Stage::Buffers => "buffers",
            Stage::Copy => "copy",
            Stage::Checksum => "checksum",
            Stage::WakeUps => "wake-ups",
            Stage::Other => "rest",
        }
    }

    /// The stage's kind of work.
    pub const fn kind(self) -> Kind {
        match self {
            Stage::Ether | Stage::Ip | Stage::Tcp | Stage::Stack | Stage::Socket => Kind::Protocol,
            Stage::Copy | Stage::Checksum => Kind::Bytes,
            Stage::Driver | Stage::Tap | Stage::Buffers | Stage::WakeUps => Kind::Device,
            Stage::Other => Kind::Outside,
        }
    }

    /// Advice that would make the stage cheaper.
    pub const fn remedy(self) -> &'static str {
        match self {
            Stage::Driver => "larger bursts, or a device with offloads",
            Stage::Tap => "no tap, or a filter that matches less",
            Stage::Ether | Stage::Ip => "larger packets",
            Stage::Tcp | Stage::Stack => "larger packets, or super-segments",
            Stage::Socket => "larger reads and writes",
            Stage::Buffers => "larger packets: as many buffers as packets are taken and freed",
            Stage::Copy => "loaned buffers, which are not copied",
            Stage::Checksum => "a device that verifies checksums",
            Stage::WakeUps => "busy polling, or a higher level of mitigation",
            Stage::Other => "a look at the program itself with a profiler",
        }
    }
}
