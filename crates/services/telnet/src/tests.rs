//! Both ends, joined or alone, against the RFCs and against any bytes.

mod asked;
mod editing;
mod flood;
mod forwarding;
mod joined;
mod pieces;
mod transcript;
