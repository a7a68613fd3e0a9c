//! Two outputs of the same capture, packet by packet and line by line.
//!
//! Called by: `dump_corpus/mod.rs`. A packet begins with its number, which `--number` prints. Its
//! lines are compared in their order, so that an extra line affects no other packet.

/// How many of tcpdump's lines `dump` prints too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) equal: u64,
    pub(super) lines: u64,
}

/// A line that differs, in both versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Example {
    pub(super) theirs: String,
    pub(super) ours: String,
}

/// The result of a comparison.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) share: Share,
    /// Each line that differs, with its kind.
    pub(super) differences: Vec<(String, Example)>,
}

/// Characters of a line that are shown.
const SHOWN_MAX: usize = 160;

/// Characters of a line that identify its kind.
const KIND_MAX: usize = 28;

pub(super) fn compare(theirs: &str, ours: &str) -> Compared {
    let (theirs, ours) = (packets(theirs), packets(ours));
    let mut compared = Compared { share: Share::default(), differences: Vec::new() };
    for (number, lines) in theirs.iter().enumerate() {
        let other = ours.get(number).map_or(&[][..], Vec::as_slice);
        for (at, line) in lines.iter().enumerate() {
            compared.share.lines += 1;
            let here = other.get(at).copied();
            if here == Some(*line) {
                compared.share.equal += 1;
                continue;
            }
            let example =
                Example { theirs: shown(line), ours: here.map_or("nothing".to_owned(), shown) };
            compared.differences.push((kind(lines[0], at > 0), example));
        }
    }
    compared
}

/// The lines of each packet.
fn packets(text: &str) -> Vec<Vec<&str>> {
    let mut packets: Vec<Vec<&str>> = Vec::new();
    // A carriage return does not end a line.
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        match packets.last_mut() {
            Some(packet) if !is_first(line) => packet.push(line),
            _ => packets.push(vec![line]),
        }
    }
    if text.is_empty() { Vec::new() } else { packets }
}

/// A number of five columns, and two spaces.
fn is_first(line: &str) -> bool {
    let digits = line.trim_start_matches(' ');
    let spaces = line.len() - digits.len();
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    let has_width = count > 0 && (spaces + count == 5 || spaces == 0 && count > 5);
    has_width && digits[count..].starts_with("  ")
}

fn shown(line: &str) -> String {
    line.chars().take(SHOWN_MAX).collect()
}

/// The kind of a packet: its first words without number, time and digits.
fn kind(first: &str, is_behind: bool) -> String {
    let words = first.trim_start_matches([' ', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    let rest = words.split_once(' ').map_or(words, |(_, rest)| rest);
    let what = match (rest.starts_with("IP"), rest.split_once(": ")) {
        (true, Some((_, what))) => what,
        _ => rest,
    };
    let mut kind = if is_behind { "behind ".to_owned() } else { String::new() };
    let mut was_number = false;
    for c in what.chars().take(KIND_MAX) {
        let is_number = c.is_ascii_digit();
        if !(is_number && was_number) {
            kind.push(if is_number { '#' } else { c });
        }
        was_number = is_number;
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_too_many_spoils_no_other_packet() {
        let theirs = "    1  00:00:01.0 IP a > b: UDP, length 1\n\tmore\n    2  00:00:02.0 x\n";
        let ours =
            "    1  00:00:01.0 IP a > b: UDP, length 1\n\tmore\n\tyet more\n    2  00:00:02.0 x\n";
        let compared = compare(theirs, ours);
        assert_eq!(compared.share, Share { equal: 3, lines: 3 });
        assert!(compared.differences.is_empty());
    }

    #[test]
    fn what_differs_is_counted_by_its_kind() {
        let theirs = "    1  00:00:01.0 IP a > b: NTPv4, length 48\n\tbehind it\n123456  t y\n";
        let compared = compare(theirs, "    1  00:00:01.0 IP a > b: UDP, length 48\n");
        assert_eq!(compared.share, Share { equal: 0, lines: 3 });
        let kinds: Vec<_> = compared.differences.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["NTPv#, length #", "behind NTPv#, length #", "y"]);
        assert_eq!(compared.differences[1].1.ours, "nothing");
        assert_eq!(compare("", "").share, Share::default());
    }

    #[test]
    fn a_line_of_numbers_is_no_packet() {
        assert!(is_first("    1  x") && is_first("1234567  x"));
        assert!(
            !is_first("\t0x0000:  4500") && !is_first("    192.0.2.1 > x") && !is_first("12  x")
        );
    }
}
