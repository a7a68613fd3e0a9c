//! Ports as passt, pasta and pesto write them: `none`, `auto`, `[ADDR[%IF]/]PORTS`, where PORTS are
//! ports and ranges, joined by commas, with targets behind `:`, and exceptions that begin with `~`.
//! pesto's targets may have an address: `8080:10.88.0.2/80`.
//!
//! Called by: `pasta.rs`, `passt.rs`, `pesto.rs`. Turned into what `-p` takes.

use std::net::IpAddr;

/// Ports of one option at most: each has a socket.
const PORTS_MAX: usize = 4_096;
/// Ports of one published range.
const CHUNK: usize = 64;

/// What an option says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    /// No ports.
    None,
    /// Those at which the guest listens.
    Auto,
    /// These.
    Ports(Vec<Forward>),
}

/// Ports of the host with consecutive numbers, and where they lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forward {
    /// `ADDR%IF/`, or nothing.
    place: String,
    first: u16,
    /// How many, less one.
    more: u16,
    /// The guest, if it is not the first one.
    guest: Option<IpAddr>,
    to: u16,
}

impl Forward {
    /// The same as `-p` has it.
    pub(super) fn publish(&self, udp: bool) -> String {
        let Forward { place, first, more, guest, to } = self;
        let guest = match guest {
            None => String::new(),
            Some(IpAddr::V4(guest)) => format!("{guest}:"),
            Some(IpAddr::V6(guest)) => format!("[{guest}]:"),
        };
        let udp = if udp { "/udp" } else { "" };
        format!("{place}{first}-{}:{guest}{to}-{}{udp}", first + more, to + more)
    }

    /// Each port, and its target.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u16, u16)> {
        (0..=self.more).map(|number| (self.first + number, self.to + number))
    }
}

/// Read an option's value.
///
/// # Errors
/// What is wrong, and what to write.
pub(super) fn parse(text: &str) -> Result<Spec, String> {
    let (place, list) = place(text)?;
    match list {
        "none" => return Ok(Spec::None),
        "auto" => return Ok(Spec::Auto),
        "all" | "" => return Err(too_many(text)),
        _ => {}
    }
    let (mut excluded, mut ranges, mut is_auto) = (Vec::new(), Vec::new(), false);
    for item in list.split(',') {
        match item.strip_prefix('~') {
            Some(item) => excluded.push(range(item)?),
            None if item == "auto" => is_auto = true,
            None => ranges.push(forward(item)?),
        }
    }
    if ranges.is_empty() {
        return if is_auto { Ok(Spec::Auto) } else { Err(too_many(text)) };
    }
    let mut all = Vec::new();
    for ((first, more), guest, to) in ranges {
        let mut run: Option<Forward> = None;
        for number in 0..=more {
            let port = first + number;
            if excluded.iter().any(|&(first, more)| (first..=first + more).contains(&port)) {
                all.extend(run.take());
                continue;
            }
            match &mut run {
                Some(run) if usize::from(run.more) + 1 < CHUNK => run.more += 1,
                _ => {
                    let (place, to) = (place.clone(), to + number);
                    all.extend(run.replace(Forward { place, first: port, more: 0, guest, to }));
                }
            }
        }
        all.extend(run);
        if all.iter().map(|run| usize::from(run.more) + 1).sum::<usize>() > PORTS_MAX {
            return Err(format!("'{text}': give {PORTS_MAX} ports at most"));
        }
    }
    Ok(Spec::Ports(all))
}

fn too_many(text: &str) -> String {
    format!("'{text}': all ports cannot be forwarded: name ports and ranges, or give 'auto'")
}

/// The address and the interface in front of a list, as `-p` has them, and the list.
fn place(text: &str) -> Result<(String, &str), String> {
    let Some((before, list)) = text.split_once('/') else { return Ok((String::new(), text)) };
    let (address, interface) = match before.split_once('%') {
        Some((_, "")) => return Err(format!("'{before}': a name has to follow the %")),
        Some((address, interface)) => (address, format!("%{interface}")),
        None => (before, String::new()),
    };
    let bare = address.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(address);
    match bare.parse::<IpAddr>() {
        Ok(address) => Ok((format!("{address}{interface}/"), list)),
        Err(_) if bare.is_empty() && !interface.is_empty() => Ok((format!("{interface}/"), list)),
        // The slash is of a target's address.
        Err(_) if before.contains(':') => Ok((String::new(), text)),
        Err(_) => Err(format!("'{before}' is no address: write 127.0.0.1/8080 or ::1/8080")),
    }
}

/// A first port, and how many follow.
type Range = (u16, u16);

fn forward(text: &str) -> Result<(Range, Option<IpAddr>, u16), String> {
    let Some((host, target)) = text.split_once(':') else {
        let host = range(text)?;
        return Ok((host, None, host.0));
    };
    let (guest, ports) = match target.rsplit_once('/') {
        None => (None, target),
        Some((address, ports)) => {
            let bare = address.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            let guest = bare.unwrap_or(address).parse();
            (Some(guest.map_err(|_| format!("'{address}' is no address of a guest"))?), ports)
        }
    };
    let (host, to) = (range(host)?, range(ports)?);
    if host.1 != to.1 {
        return Err(format!("'{text}': both ranges have to have as many ports"));
    }
    Ok((host, guest, to.0))
}

fn range(text: &str) -> Result<Range, String> {
    let port = |text: &str| match text.parse::<u16>() {
        Ok(port @ 1..) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(port),
        _ => Err(format!("'{text}' is no port: write 8080, 8080:80 or 8000-8010:80-90")),
    };
    let Some((first, last)) = text.split_once('-') else { return Ok((port(text)?, 0)) };
    let (first, last) = (port(first)?, port(last)?);
    let more = last.checked_sub(first);
    Ok((first, more.ok_or_else(|| format!("'{text}': the last port is before the first"))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::parts::Publish;

    fn published(text: &str) -> Vec<String> {
        match parse(text).expect("good ports") {
            Spec::Ports(all) => all.iter().map(|one| one.publish(false)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ports_are_those_of_pasta_s_manual() {
        assert_eq!(parse("none"), Ok(Spec::None));
        assert_eq!(parse("auto"), Ok(Spec::Auto));
        assert_eq!(published("22"), ["22-22:22-22"]);
        assert_eq!(published("18080-18080:80-80"), ["18080-18080:80-80"]);
        assert_eq!(published("22,25"), ["22-22:22-22", "25-25:25-25"]);
        assert_eq!(published("22-80:32-90"), ["22-80:32-90"]);
        assert_eq!(published("192.0.2.1/22:23"), ["192.0.2.1/22-22:23-23"]);
        assert_eq!(published("192.0.2.1%eth0/22"), ["192.0.2.1%eth0/22-22:22-22"]);
        assert_eq!(published("%eth0/22"), ["%eth0/22-22:22-22"]);
        assert_eq!(published("::1/22"), ["::1/22-22:22-22"]);
        let but = ["192.0.2.1/20-24:20-24", "192.0.2.1/26-30:26-30"];
        assert_eq!(published("192.0.2.1/20-30,~25"), but);
        assert_eq!(published("1-100"), ["1-64:1-64", "65-100:65-100"]);
    }

    #[test]
    fn targets_of_pesto_have_addresses() {
        assert_eq!(published("80:10.88.0.2/8080"), ["80-80:10.88.0.2:8080-8080"]);
        assert_eq!(
            published("127.0.0.1/80:10.88.0.2/8080"),
            ["127.0.0.1/80-80:10.88.0.2:8080-8080"]
        );
        assert_eq!(published("::1/80:fd00::2/81"), ["::1/80-80:[fd00::2]:81-81"]);
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, says) in [
            ("all", "name ports"),
            ("", "name ports"),
            ("~80", "name ports"),
            ("x", "no port"),
            ("+80", "no port"),
            ("0", "no port"),
            ("80-70", "before the first"),
            ("80-81:80", "as many ports"),
            ("localhost/80", "no address"),
            ("10.0.0.1%/80", "a name"),
            ("80:host/80", "address of a guest"),
            ("1-65535", "4096 ports"),
            ("65535:65536", "no port"),
        ] {
            let why = parse(text).expect_err("a mistake");
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn what_is_read_can_be_published_and_nothing_panics() {
        let mut state = 7_u32;
        let words =
            ["80", "443", "65535", "1", "-", ":", ",", "~", "/", "%", "::1", "10.0.0.1", "auto"];
        for _ in 0..50_000 {
            let mut text = String::new();
            for _ in 0..7 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text += words[(state >> 16) as usize % words.len()];
            }
            if let Ok(Spec::Ports(all)) = parse(&text) {
                for one in all {
                    let written = one.publish(state.is_multiple_of(2));
                    assert!(written.parse::<Publish>().is_ok(), "{text}: {written}");
                }
            }
        }
    }
}
