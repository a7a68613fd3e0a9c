//! The command line of `services`.
//!
//! Called by: clap, then `run.rs`.

use crate::on_off::OnOff;
use crate::outside;

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
    pub(super) outside: outside::Args,
    /// Checksums and cutting of large segments left to the device
    #[arg(long, value_name = "on|off", default_value = "on", help_heading = outside::HEADING,
          hide_short_help = true)]
    pub(super) offload: OnOff,
    /// Connections at a time; more are reset
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) most: u32,
    /// Datagrams answered in a second; further ones get no answer
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) udp_rate: u32,
}
