//! Interfaces of this machine as a source, on Linux.
//!
//! Called by: `run.rs`, for `-i`; `report.rs`; `top`. `watch` does the work.

use anyhow::Result;
use bpf::Filter;
use wirespeed::LinkKind;

use super::source::Source;

/// Packets of an interface, or of [`super::source::ANY`]; `make` compiles the filter.
pub(crate) fn open(
    name: &str,
    make: impl Fn(&str, LinkKind) -> Result<Filter>,
) -> Result<Box<dyn Source>> {
    #[cfg(target_os = "linux")]
    return Ok(Box::new(super::watch::Interfaces::open(name, make)?));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (name, make);
        anyhow::bail!("interfaces are watched on Linux alone: read a file with -r")
    }
}
