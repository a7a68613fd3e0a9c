//! The routes of a router before one of them is chosen: by table and prefix a candidate of each
//! origin, of which the best goes to the forwarding table.
//!
//! Called by: the router's worker, which gives routes of FRR (FPM) and of the kernel, and programs
//! the stack with what [`Rib`] says. Nothing here makes a system call or reads a clock. What next
//! hops are is the caller's matter: the RIB shares equal ones, and those that have a number change
//! for all routes that name it. `origin.rs` says who wins, `sets.rs` shares next hops, `table.rs`
//! keeps candidates in 16 bytes each, `replay.rs` knows when a replay is over. docs/frr.md;
//! docs/decisions/0145-routes-by-fpm.md.
//!
//! ```
//! use wirespeed_rib::{Best, Dest, Next, Offer, Origin, Rib};
//!
//! let mut rib: Rib<&str> = Rib::new(1_000_000);
//! let dest = Dest { table: 254, prefix: "10.0.0.0/8".parse()? };
//! let offer = |next| Offer { next: Next::These(next), metric: 20, protocol: 0, at_s: 0 };
//! let mut fib = Vec::new();
//! let into = &mut |_, to: Option<Best<'_, &'static str>>| fib.push(to.map(|best| *best.next));
//! rib.set(Origin::Fpm, dest, offer("via 192.0.2.2"), into)?;
//! rib.set(Origin::File, dest, offer("via 192.0.2.9"), into)?;
//! rib.remove(Origin::File, dest, into);
//! assert_eq!(fib, [Some("via 192.0.2.2"), Some("via 192.0.2.9"), Some("via 192.0.2.2")]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod origin;
mod replay;
mod rib;
mod sets;
mod table;

pub use origin::Origin;
pub use replay::Replay;
pub use rib::{Best, Dest, Full, Known, Next, Offer, Rib, Swept};

#[cfg(test)]
mod tests;
