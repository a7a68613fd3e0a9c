//! Guests and frontends that break the rules: nothing panics, reads beyond the guest's memory,
//! waits or runs for long, and what keeps the rules is served afterwards.

mod frontends;
mod rings;
