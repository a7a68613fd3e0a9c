//! RPL, the routing protocol of lossy networks (RFC 6550).
//!
//! Called by: `icmp6`. Options are not printed.

use crate::data::{Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const MODES: Names =
    &[(0, "nonstoring"), (1, "nonstoring"), (2, "storing"), (3, "storing-multicast")];

pub(super) fn print(p: &mut Printer, data: Data<'_>, code: u8) -> Done {
    if code & 0x80 != 0 {
        p.out.push_str(", (SEC) [worktodo]");
        return Ok(());
    }
    p.out.push_str(", (CLR)");
    let body = data.skip(4);
    match code {
        0 => p.out.push_str("DODAG Information Solicitation"),
        1 => {
            p.out.push_str("DODAG Information Object");
            if p.is_verbose() {
                information(p, body)?;
            }
        }
        2 => {
            p.out.push_str("Destination Advertisement Object");
            if p.is_verbose() {
                advertisement(p, body, false)?;
            }
        }
        3 => {
            p.out.push_str("Destination Advertisement Object Ack");
            if p.is_verbose() {
                advertisement(p, body, true)?;
            }
        }
        code => put!(p, "RPL message, unknown code {code}"),
    }
    Ok(())
}

fn information(p: &mut Printer, data: Data<'_>) -> Done {
    if data.len < 24 {
        p.invalid();
        return Ok(());
    }
    let (mode, seq, instance) = (data.u8(4)?, data.u8(5)?, data.u8(0)?);
    put!(p, " [dagid:{},seq:{seq},instance:{instance}", data.v6(8)?);
    put!(p, ",rank:{},", data.u16(2)?);
    p.out.push_str(if mode & 0x80 != 0 { "grounded," } else { "" });
    put!(p, "mop:{},prf:{}]", name(MODES, mode >> 3 & 7, "mop{}"), mode & 7);
    Ok(())
}

fn advertisement(p: &mut Printer, data: Data<'_>, is_ack: bool) -> Done {
    let (instance, flags, reserved, seq) = (data.u8(0)?, data.u8(1)?, data.u8(2)?, data.u8(3)?);
    let (flags, seq, status) = if is_ack { (flags, reserved, seq) } else { (flags, seq, 0) };
    let has_id = flags & if is_ack { 0x80 } else { 0x40 } != 0;
    let id = if has_id { data.v6(4)?.to_string() } else { "<elided>".to_owned() };
    put!(p, " [dagid:{id},seq:{seq},instance:{instance}");
    if is_ack {
        put!(p, ",status:{status}]");
        return Ok(());
    }
    let ack = if flags & 0x80 != 0 { ",acK" } else { "" };
    let dag = if has_id { ",Dagid" } else { "" };
    put!(p, "{ack}{dag},{flags:02x}]");
    Ok(())
}
