//! smoltcp's interfaces and our stacks, over devices of the other kind, in virtual time.

mod checksums;
mod faults;
mod limits;
mod pump;
mod tokens;
mod transfers;
mod wire;
mod world;
