//! NTP; `-v` prints the fields of a time message (RFC 5905).
//!
//! Called by: `app`.

use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const MODES: Names = &[
    (0, "unspecified"),
    (1, "symmetric active"),
    (2, "symmetric passive"),
    (3, "Client"),
    (4, "Server"),
    (5, "Broadcast"),
    (6, "Control Message"),
    (7, "Reserved"),
];

const LEAPS: Names = &[(0x00, ""), (0x40, "+1s"), (0x80, "-1s"), (0xc0, "clock unsynchronized")];

/// Bytes of a time message without authentication.
const TIME_LEN: usize = 48;

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ntp";
    let status = data.u8(0)?;
    let mode = status & 7;
    put!(p, "NTPv{}, {}", status >> 3 & 7, name(MODES, mode, "Unknown mode"));
    put!(p, ", length {}", data.len);
    if !p.is_verbose() {
        return Ok(());
    }
    let leap = status & 0xc0;
    put!(p, "\n\tLeap indicator: {} ({leap})", name(LEAPS, leap, "Unknown"));
    if mode < 6 {
        time(p, data)?;
    }
    Ok(())
}

fn time(p: &mut Printer, data: Data<'_>) -> Done {
    if data.len < TIME_LEN {
        p.invalid();
        return Ok(());
    }
    let stratum = data.u8(1)?;
    let what = match stratum {
        0 => "unspecified",
        1 => "primary reference",
        2..=15 => "secondary reference",
        _ => "reserved",
    };
    let (poll, precision) = (data.u8(2)? as i8, data.u8(3)? as i8);
    put!(p, ", Stratum {stratum} ({what}), poll {poll}");
    match poll {
        0..32 => put!(p, " ({}s)", 1_u32 << poll),
        -31..0 => put!(p, " (1/{}s)", 1_u32 << -poll),
        _ => {}
    }
    put!(p, ", precision {precision}");
    let short = |at| -> Result<String, Cut> {
        let fraction = u64::from(data.u16(at + 2)?) * 1_000_000 / 65_536;
        Ok(format!("{}.{fraction:06}", data.u16(at)?))
    };
    put!(p, "\n\tRoot Delay: {}, Root dispersion: {}", short(4)?, short(8)?);
    p.out.push_str(", Reference-ID: ");
    match stratum {
        0 => p.out.push_str("(unspec)"),
        1 => {
            let len = if data.u8(15)? == 0 { 3 } else { 4 };
            p.chars(data.get(12, len)?);
        }
        _ => put!(p, "{}", data.v4(12)?),
    }
    Ok(())
}
