//! Parses the text of `--so_flags`, the options of one packetdrill interface.
//!
//! Called by: `interface.rs`. Parsing does not fail: unknown words are ignored, as the scripts
//! themselves ignore sysctls that a kernel does not know.

use base::Mtu;

use super::profile::{Profile, System};

/// Maximum payload of a super-segment on Linux, unless `tso=` sets another.
const TSO_BYTES: usize = 65_535;

/// The words of `--so_flags`, separated by commas: `linux`, `freebsd`, `local=ADDRESS` (repeatable;
/// replaces the default addresses), `mtu=BYTES`, `tso=BYTES`, `sysctls=FILE`.
pub(super) fn parse(text: &str) -> Profile {
    let mut profile = Profile::default();
    let mut locals = Vec::new();
    for word in text.split(',').map(str::trim) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "linux" => profile.system = System::Linux,
            "freebsd" => profile.system = System::FreeBsd,
            "local" => locals.extend(value.parse::<core::net::IpAddr>().ok()),
            "mtu" => {
                let mtu = value.parse().ok().and_then(Mtu::new);
                profile.mtu = mtu.unwrap_or(profile.mtu);
            }
            "tso" => profile.tso_max_bytes = value.parse().unwrap_or(0).min(65_535),
            "sysctls" => profile.sysctls = Some(value.into()),
            _ => {}
        }
    }
    if profile.system == System::Linux && !text.contains("tso=") {
        profile.tso_max_bytes = TSO_BYTES;
    }
    if !locals.is_empty() {
        profile.locals = locals;
    }
    profile
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn so_flags_are_words_between_commas() {
        let profile = parse("freebsd, mtu=1520,local=fd::1,nonsense,sysctls=/tmp/x");
        assert_eq!(profile.system, System::FreeBsd);
        assert_eq!(profile.mtu.bytes(), 1520);
        assert_eq!(profile.locals, ["fd::1".parse::<core::net::IpAddr>().unwrap()]);
        assert_eq!(profile.sysctls.as_deref(), Some(Path::new("/tmp/x")));
        assert_eq!(parse("").locals.len(), 2);
    }
}
