//! Files in memory: a gateway without files gets its texts in them.
//!
//! Called by: `tools/open.rs`, `tools/learning.rs`.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};

/// A file in memory.
pub(super) fn in_memory(contents: &[u8]) -> Result<OwnedFd> {
    let made = rustix::fs::memfd_create("settings", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = File::from(made.context("no file in memory can be made")?);
    file.write_all(contents).and_then(|()| file.rewind()).context("no memory is left")?;
    Ok(file.into())
}
