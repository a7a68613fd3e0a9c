//! TLVs of LLDP with which a bridge describes its queues to a neighbour (IEEE 802.1Q, annex D):
//! priorities, their shares of the link, and virtual bridging.
//!
//! Called by: `lldp`, for the newer TLVs of IEEE 802.1.

use crate::data::{Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const EVB_MODES: Names = &[
    (0, "Not Supported"),
    (1, "EVB Bridge"),
    (2, "EVB Station"),
    (3, "Reserved for future Standardization"),
];

/// Print a TLV of this kind. A short TLV is printed up to the missing part.
pub(super) fn print(p: &mut Printer, kind: u8, body: Data<'_>) -> Done {
    match kind {
        8 => {
            body.get(0, 2)?;
            p.out.push_str("\n\t    Pre-Priority CNPV Indicator");
            of_priorities(p, body.u8(0)?);
            p.out.push_str("\n\t    Pre-Priority Ready Indicator");
            of_priorities(p, body.u8(1)?);
        }
        9 => {
            body.get(0, 21)?;
            let first = body.u8(0)?;
            put!(p, "\n\t    Willing:{}, CBS:{}", first >> 7, first >> 6 & 2);
            put!(p, ", RES:{}, Max TCs:{}", first >> 3 & 7, first & 7);
            transmission(p, body)?;
        }
        10 => {
            body.get(0, 21)?;
            put!(p, "\n\t    RES: {}", body.u8(0)?);
            transmission(p, body)?;
        }
        11 => {
            body.get(0, 2)?;
            let first = body.u8(0)?;
            put!(p, "\n\t    Willing: {}, MBC: {}", first >> 7, first >> 6 & 1);
            put!(p, ", RES: {}, PFC cap:{} ", first >> 4 & 3, first & 15);
            p.out.push_str("\n\t    PFC Enable");
            of_priorities(p, body.u8(1)?);
        }
        12 => applications(p, body)?,
        13 => virtual_bridging(p, body)?,
        14 => channels(p, body)?,
        _ => {}
    }
    Ok(())
}

/// Print one bit for each of eight priorities.
fn of_priorities(p: &mut Printer, set: u8) {
    p.out.push_str("\n\t     Priority : 0  1  2  3  4  5  6  7\n\t     Value    : ");
    for at in 0..8 {
        put!(p, "{:<2} ", set >> at & 1);
    }
}

/// Print enhanced transmission selection: the traffic class of each priority, and the share of each
/// class.
fn transmission(p: &mut Printer, body: Data<'_>) -> Done {
    const COLUMNS: &str = "0   1   2   3   4   5   6   7";
    let classes: Vec<u8> = body.get(1, 4)?.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
    put!(p, "\n\t    Priority Assignment Table\n\t     Priority : {COLUMNS}\n\t     Value    : ");
    row(p, &classes);
    put!(p, "\n\t    TC Bandwidth Table\n\t     TC%   : {COLUMNS}\n\t     Value : ");
    row(p, body.get(5, 8)?);
    put!(
        p,
        "\n\t    TSA Assignment Table\n\t     Traffic Class: {COLUMNS}\n\t     Value        : "
    );
    row(p, body.get(13, 8)?);
    Ok(())
}

fn row(p: &mut Printer, values: &[u8]) {
    let columns: Vec<String> = values.iter().map(|value| format!("{value:<3}")).collect();
    p.out.push_str(&columns.join(" "));
}

fn applications(p: &mut Printer, body: Data<'_>) -> Done {
    put!(p, "\n\t    RES: {}", body.u8(0)?);
    let table = body.skip(1);
    if table.len == 0 || !table.len.is_multiple_of(3) {
        return Ok(());
    }
    p.out.push_str("\n\t    Application Priority Table");
    for at in (0..table.len).step_by(3) {
        let (first, protocol) = (table.u8(at)?, table.u16(at + 1)?);
        put!(p, "\n\t      Priority: {}, RES: {}", first >> 5, first >> 3 & 3);
        put!(p, ", Sel: {}, Protocol ID: {protocol}", first & 7);
    }
    Ok(())
}

fn virtual_bridging(p: &mut Printer, body: Data<'_>) -> Done {
    let [bridge, station, retries, mode, keep_alive] = body.array(0)?;
    put!(p, "\n\t    EVB Bridge Status\n\t      RES: {}, BGID: {}", bridge >> 3, bridge >> 2 & 1);
    put!(p, ", RRCAP: {}, RRCTR: {}", bridge >> 1 & 1, bridge & 1);
    put!(
        p,
        "\n\t    EVB Station Status\n\t      RES: {}, SGID: {}",
        station >> 4,
        station >> 3 & 1
    );
    put!(p, ", RRREQ: {},RRSTAT: {}", station >> 2 & 1, station & 3);
    put!(p, "\n\t    R: {}, RTE: {}", retries >> 5, retries & 31);
    put!(p, ", EVB Mode: {} [{}]", name(EVB_MODES, mode >> 6, "unknown"), mode >> 6);
    put!(p, "\n\t    ROL: {}, RWD: {}", mode >> 5 & 1, mode & 31);
    let (reserved, local) = (keep_alive >> 6, keep_alive >> 5 & 1);
    put!(p, ", RES: {reserved}, ROL: {local}, RKA: {}", keep_alive & 31);
    Ok(())
}

fn channels(p: &mut Printer, body: Data<'_>) -> Done {
    body.get(0, 4)?;
    let first = body.u8(0)?;
    put!(p, "\n\t    Role: {}, RES: {}", first >> 7, first >> 4 & 7);
    put!(p, ", Scomp: {} ChnCap: {}", first >> 3 & 1, body.u16(2)? & 0xfff);
    let table = body.skip(4);
    if !table.len.is_multiple_of(3) {
        return Ok(());
    }
    for at in (0..table.len).step_by(3) {
        let pair = table.u24(at)?;
        put!(p, "\n\t    SCID: {}, SVID: {}", pair >> 12, pair & 0xfff);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Cut;
    use crate::tests::printed_by;

    fn printed(kind: u8, bytes: &[u8]) -> (String, Done) {
        printed_by(|p, body| print(p, kind, body), 1, bytes)
    }

    #[test]
    fn priorities_and_their_shares_are_tables() {
        let text = "\n\t    Willing: 1, MBC: 0, RES: 0, PFC cap:8 \n\t    PFC Enable\
                    \n\t     Priority : 0  1  2  3  4  5  6  7\
                    \n\t     Value    : 0  0  0  1  0  0  0  0  ";
        assert_eq!(printed(11, &[0x88, 0x08]), (text.to_owned(), Ok(())));
        let mut bytes = [0; 21];
        bytes[1] = 0x12;
        (bytes[5], bytes[6]) = (40, 60);
        let (text, _) = printed(10, &bytes);
        assert!(text.contains("\n\t     Value    : 1   2   0   0   0   0   0   0  \n"), "{text}");
        assert!(text.contains("\n\t     Value : 40  60  0   0   0   0   0   0  \n"), "{text}");
        assert_eq!(printed(9, &bytes[..20]), (String::new(), Err(Cut)));
        let text = "\n\t    RES: 0\n\t    Application Priority Table\
                    \n\t      Priority: 4, RES: 0, Sel: 4, Protocol ID: 3260";
        assert_eq!(printed(12, &[0, 0x84, 0x0c, 0xbc]).0, text);
        assert!(printed(14, &[1, 0, 0, 167, 0, 0x10, 1]).0.ends_with("SCID: 1, SVID: 1"));
        assert!(
            printed(13, &[2, 0, 0xf4, 0x5f, 31]).0.contains("RTE: 20, EVB Mode: EVB Bridge [1]")
        );
    }
}
