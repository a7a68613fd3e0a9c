//! The error for options that cannot be carried out.
//!
//! Called by: what reads options; tools, whose exit status it decides.

/// An invalid option: what is wrong and what to do instead.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
