//! The value of options that turn something on or off.
//!
//! Called by: `args.rs` of `ttcp` and of `services`.

use clap::ValueEnum;

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    On,
    Off,
}
