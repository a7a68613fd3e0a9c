//! Both ends, joined or alone, against what the RFCs say and against any bytes.

mod asked;
mod joined;
mod pieces;
