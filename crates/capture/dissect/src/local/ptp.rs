//! The precision time protocol (IEEE 1588).
//!
//! Called by: `link::ethertype`, `app`.

use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const HEADER_LEN: usize = 34;

const MESSAGES: Names = &[
    (0x0, "sync msg"),
    (0x1, "delay req msg"),
    (0x2, "peer delay req msg"),
    (0x3, "peer delay resp msg"),
    (0x8, "follow up msg"),
    (0x9, "delay resp msg"),
    (0xa, "pdelay resp fup msg"),
    (0xb, "announce msg"),
    (0xc, "signalling msg"),
    (0xd, "management msg"),
];

const FLAGS: Names = &[
    (0x0001, "l1 61"),
    (0x0002, "l1 59"),
    (0x0004, "utc reasonable"),
    (0x0008, "timescale"),
    (0x0010, "time tracable"),
    (0x0020, "frequency tracable"),
    (0x0100, "alternate master"),
    (0x0200, "two step"),
    (0x0400, "unicast"),
    (0x1000, "profile specific 1"),
    (0x2000, "profile specific 2"),
    (0x4000, "security mask"),
    (0x18c0, "unknown"),
];

const CONTROLS: Names = &[
    (0, "Sync"),
    (1, "Delay_Req"),
    (2, "Follow_Up"),
    (3, "Delay_Resp"),
    (4, "Management"),
    (5, "Other"),
];

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ptp";
    if data.len < HEADER_LEN {
        p.invalid();
        return Ok(());
    }
    let (first, version) = (data.u8(0)?, data.u8(1)?);
    put!(p, "PTPv{version}");
    match version {
        1 => p.out.push_str(" (not implemented)"),
        2 => version_2(p, data, first)?,
        _ => {}
    }
    Ok(())
}

/// The number of 48 bits at `at`.
fn long(data: Data<'_>, at: usize) -> Result<u64, Cut> {
    Ok(u64::from(data.u16(at)?) << 32 | u64::from(data.u32(at + 2)?))
}

fn version_2(p: &mut Printer, data: Data<'_>, first: u8) -> Done {
    let kind = first & 15;
    let compatible = if first & 0x10 != 0 { "yes" } else { "no" };
    put!(p, ", v1 compat : {compatible}, msg type : {}", name(MESSAGES, kind, "Reserved"));
    put!(p, ", length : {}", data.u16(2)?);
    put!(p, ", domain : {}, reserved1 : {}", data.u8(4)?, data.u8(5)?);
    // As in tcpdump, the unknown bits are printed only if all of them are set.
    put!(p, ", Flags [{}]", bits(FLAGS, data.u16(6)?, ", ", "none"));
    put!(p, ", NS correction : {}", long(data, 8)?);
    put!(p, ", sub NS correction : {}", data.u16(14)?);
    put!(p, ", reserved2 : {}", data.u32(16)?);
    put!(p, ", clock identity : 0x{:x}", data.u64(20)?);
    put!(p, ", port id : {}", data.u16(28)?);
    put!(p, ", seq id : {}", data.u16(30)?);
    let control = data.u8(32)?;
    put!(p, ", control : {control} ({})", name(CONTROLS, control, "Reserved"));
    put!(p, ", log message interval : {}", data.u8(33)?);
    let body = data.skip(HEADER_LEN);
    match kind {
        0x0 | 0x1 => time(p, body, "originTimeStamp"),
        0x8 => time(p, body, "preciseOriginTimeStamp"),
        0x2 | 0xa => time_and_port(p, body, "preciseOriginTimeStamp"),
        0x3 | 0x9 => time_and_port(p, body, "receiveTimeStamp"),
        0xb => announcement(p, body),
        0xc => port(p, body, 0),
        0xd => {
            port(p, body, 0)?;
            put!(p, ", , start boundary hops  {}, , boundary hops  {}", body.u8(10)?, body.u8(11)?);
            put!(p, ", , flags  0x{:x}, , reserved  0x{:x}", body.u8(12)?, body.u8(13)?);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn time(p: &mut Printer, data: Data<'_>, what: &str) -> Done {
    put!(p, ", {what} : {} seconds, {} nanoseconds", long(data, 0)?, data.u32(6)?);
    Ok(())
}

fn time_and_port(p: &mut Printer, data: Data<'_>, what: &str) -> Done {
    time(p, data, what)?;
    port(p, data, 10)
}

fn port(p: &mut Printer, data: Data<'_>, at: usize) -> Done {
    put!(p, ", port identity : 0x{:x}, port id : {}", data.u64(at)?, data.u16(at + 8)?);
    Ok(())
}

/// Print an announcement, in which a clock offers itself as master.
fn announcement(p: &mut Printer, data: Data<'_>) -> Done {
    put!(p, ", originTimeStamp : {} seconds", long(data, 0)?);
    put!(p, " {} nanoseconds", data.u32(6)?);
    put!(p, ", origin cur utc :{}, rsvd : {}", data.u16(10)?, data.u8(12)?);
    put!(p, ", gm priority_1 : {}", data.u8(13)?);
    put!(p, ", gm clock class : {}", data.u8(14)?);
    put!(p, ", gm clock accuracy : {}", data.u8(15)?);
    put!(p, ", gm clock variance : {}", data.u16(16)?);
    put!(p, ", gm priority_2 : {}", data.u8(18)?);
    put!(p, ", gm clock id : 0x{:x}", data.u64(19)?);
    put!(p, ", steps removed : {}", data.u16(27)?);
    put!(p, ", time source : 0x{:x}", data.u8(29)?);
    Ok(())
}
