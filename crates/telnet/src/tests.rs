//! Both ends, joined or alone, against what the RFCs say and against any bytes.

mod joined;
mod pieces;
