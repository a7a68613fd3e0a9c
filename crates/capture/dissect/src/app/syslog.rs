//! Syslog over UDP: facility and severity; `-v` prints the message (RFC 3164, 5424).
//!
//! Called by: `app`.

use crate::data::{Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const SEVERITIES: Names = &[
    (0, "emergency"),
    (1, "alert"),
    (2, "critical"),
    (3, "error"),
    (4, "warning"),
    (5, "notice"),
    (6, "info"),
    (7, "debug"),
];

const FACILITIES: Names = &[
    (0, "kernel"),
    (1, "user"),
    (2, "mail"),
    (3, "daemon"),
    (4, "auth"),
    (5, "syslog"),
    (6, "lpr"),
    (7, "news"),
    (8, "uucp"),
    (9, "cron"),
    (10, "authpriv"),
    (11, "ftp"),
    (12, "ntp"),
    (13, "security"),
    (14, "console"),
    (15, "cron"),
    (16, "local0"),
    (17, "local1"),
    (18, "local2"),
    (19, "local3"),
    (20, "local4"),
    (21, "local5"),
    (22, "local6"),
    (23, "local7"),
];

/// Maximum number of digits of the priority, which is the facility times eight plus the severity.
const DIGITS_MAX: usize = 3;

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "syslog";
    let (mut priority, mut at) = (0_u32, 1);
    let is_message = data.u8(0)? == b'<';
    while is_message && at <= DIGITS_MAX && data.u8(at)?.is_ascii_digit() {
        priority = priority * 10 + u32::from(data.u8(at)? - b'0');
        at += 1;
    }
    if !is_message || data.u8(at)? != b'>' {
        p.invalid();
        return Ok(());
    }
    let (facility, severity) = (priority >> 3, priority & 7);
    let what = name(FACILITIES, facility, "unknown ({})");
    let how = name(SEVERITIES, severity, "unknown ({})");
    if !p.is_verbose() {
        put!(p, "SYSLOG {what}.{how}, length: {}", data.len);
        return Ok(());
    }
    put!(p, "SYSLOG, length: {}\n\tFacility {what} ({facility})", data.len);
    put!(p, ", Severity {how} ({severity})\n\tMsg: ");
    p.chars_of(data, at + 1, data.len.saturating_sub(at + 1))?;
    if p.style.verbose > 1 {
        hex::only_indented(&mut p.out, "\n\t", data.bounded().bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::printed_by;

    fn printed(verbose: u8, bytes: &[u8]) -> String {
        printed_by(print, verbose, bytes).0
    }

    #[test]
    fn a_message_says_who_and_how_bad() {
        assert_eq!(printed(0, b"<165>all is well"), "SYSLOG local4.notice, length: 16");
        let said = "SYSLOG, length: 7\n\tFacility user (1), Severity emergency (0)\n\tMsg: help";
        assert_eq!(printed(1, b"<8>help"), said);
        assert_eq!(printed(0, b"no priority"), " (invalid)");
        assert_eq!(printed(0, b"<1999>"), " (invalid)");
    }
}
