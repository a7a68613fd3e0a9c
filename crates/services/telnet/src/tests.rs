//! Tests of both ends, joined or alone, with what the RFCs describe and with random bytes.

mod asked;
mod editing;
mod flood;
mod forwarding;
mod joined;
mod pieces;
mod transcript;
