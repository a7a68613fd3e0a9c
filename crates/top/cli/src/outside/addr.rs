//! The values of `--addr`.
//!
//! Called by: clap.

use std::str::FromStr;

use wirespeed::Cidr;

/// An address of ours, or how to get one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addr {
    /// This one, with its network.
    Fixed(Cidr),
    /// As routers advertise.
    Auto,
    /// As a DHCP server says.
    Dhcp,
}

impl FromStr for Addr {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Addr, Self::Err> {
        match text {
            "auto" => Ok(Addr::Auto),
            "dhcp" => Ok(Addr::Dhcp),
            _ => text.parse().map(Addr::Fixed).map_err(
                |_| "expected ADDRESS/LENGTH, as in 192.0.2.1/24 or 2001:db8::1/64, auto or dhcp",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_how_to_get_one() {
        assert_eq!("auto".parse(), Ok(Addr::Auto));
        assert_eq!("dhcp".parse(), Ok(Addr::Dhcp));
        let fixed = "2001:db8::1/64".parse().expect("a network");
        assert_eq!("2001:db8::1/64".parse(), Ok(Addr::Fixed(fixed)));
        for bad in ["", "Auto", "192.0.2.1", "192.0.2.1/33", "dhcp6"] {
            assert!(bad.parse::<Addr>().is_err(), "{bad}");
        }
    }
}
