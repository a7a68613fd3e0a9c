//! Bidirectional forwarding detection (RFC 5880, 5881, 5883, 7130).
//!
//! Called by: `app`.

use crate::data::{Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const HEADER_LEN: usize = 24;

const PORTS: Names = &[(3784, "Control"), (4784, "Multihop"), (6784, "Lag")];

const ECHO: u16 = 3785;

const DIAGNOSTICS: Names = &[
    (0, "No Diagnostic"),
    (1, "Control Detection Time Expired"),
    (2, "Echo Function Failed"),
    (3, "Neighbor Signaled Session Down"),
    (4, "Forwarding Plane Reset"),
    (5, "Path Down"),
    (6, "Concatenated Path Down"),
    (7, "Administratively Down"),
    (8, "Reverse Concatenated Path Down"),
];

const FLAGS_0: Names = &[
    (0x80, "I Hear You"),
    (0x40, "Demand"),
    (0x20, "Poll"),
    (0x10, "Final"),
    (0x08, "Control Plane Independent"),
    (0x04, "Authentication Present"),
    (0x02, "Reserved"),
    (0x01, "Reserved"),
];

const FLAGS_1: Names = &[
    (0x20, "Poll"),
    (0x10, "Final"),
    (0x08, "Control Plane Independent"),
    (0x04, "Authentication Present"),
    (0x02, "Demand"),
    (0x01, "Multipoint"),
];

const STATES: Names = &[(0, "AdminDown"), (1, "Down"), (2, "Init"), (3, "Up")];

pub(super) fn print(p: &mut Printer, data: Data<'_>, port: u16) -> Done {
    p.protocol = "bfd";
    if port == ECHO {
        put!(p, "BFD, Echo, length: {}", data.len);
        if p.is_verbose() {
            hex::only_indented(&mut p.out, "\n\t", data.bounded().bytes);
        }
        return Ok(());
    }
    if !data.has(0, HEADER_LEN) {
        p.cut();
        return Ok(());
    }
    let (version, flags) = (data.u8(0)? >> 5, data.u8(1)?);
    let diagnostic = data.u8(0)? & 0x1f;
    let what = match version {
        0 => format!("Control, Flags: [{}]", bits(FLAGS_0, flags, ", ", "none")),
        1 => {
            let (port, state) =
                (name(PORTS, port, "unknown ({})"), name(STATES, flags >> 6, "unknown ({})"));
            let flags = bits(FLAGS_1, flags & 0x3f, ", ", "none");
            format!("{port}, State {state}, Flags: [{flags}]")
        }
        _ => {
            put!(p, "BFDv{version}, Control, length: {}", data.len);
            if p.is_verbose() {
                hex::only_indented(&mut p.out, "\n\t", data.bounded().bytes);
            }
            return Ok(());
        }
    };
    if !p.is_verbose() {
        put!(p, "BFDv{version}, {what}, length: {}", data.len);
        return Ok(());
    }
    let why = name(DIAGNOSTICS, diagnostic, "unknown");
    put!(p, "BFDv{version}, length: {}\n\t{what}", data.len);
    put!(p, ", Diagnostic: {why} (0x{diagnostic:02x})");
    let (multiplier, interval) = (data.u8(2)?, data.u32(12)?);
    let detection = u32::from(multiplier).wrapping_mul(interval) / 1000;
    put!(p, "\n\tDetection Timer Multiplier: {multiplier} ({detection} ms Detection time)");
    put!(p, ", BFD Length: {}", data.u8(3)?);
    put!(p, "\n\tMy Discriminator: 0x{:08x}", data.u32(4)?);
    put!(p, ", Your Discriminator: 0x{:08x}", data.u32(8)?);
    put!(p, "\n\t  Desired min Tx Interval:    {:4} ms", interval / 1000);
    put!(p, "\n\t  Required min Rx Interval:   {:4} ms", data.u32(16)? / 1000);
    put!(p, "\n\t  Required min Echo Interval: {:4} ms", data.u32(20)? / 1000);
    Ok(())
}
