//! The options of `proxy`.
//!
//! Called by: clap, then `proxy.rs`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::gateways::Outer;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed proxy                                     SOCKS5 and HTTP at 127.0.0.1:1080, then:
    curl --socks5-hostname 127.0.0.1:1080 https://www.example.org/
    https_proxy=http://127.0.0.1:1080 git clone https://...
    ssh -o ProxyCommand='nc -X 5 -x 127.0.0.1:1080 %h %p' HOST
  wirespeed proxy --allow '*.debian.org' --log -      fenced: nothing else can be reached
  wirespeed proxy --via wg:office.conf                the way out is a WireGuard tunnel
  wirespeed proxy --listen [::]:1080 --user me:secret for others, with a password

What a client speaks is told by its first byte: SOCKS5 with CONNECT and UDP ASSOCIATE, CONNECT of
HTTP, and requests for http:// URLs. The host's own services are reached with --allow host alone.
It runs until Ctrl-C.")]
pub(crate) struct Args {
    /// Where clients connect; may be given several times
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "127.0.0.1:1080",
          value_parser = address)]
    pub(super) listen: Vec<SocketAddr>,
    /// Clients have to give this name and password; others see it in the list of processes
    #[arg(long, value_name = "NAME:PASSWORD", value_parser = user)]
    pub(super) user: Option<(String, String)>,
    #[command(flatten)]
    pub(super) outer: Outer,
}

impl Args {
    /// A proxy at this address, without a password.
    pub(crate) fn of(listen: SocketAddr, outer: Outer) -> Args {
        Args { listen: vec![listen], user: None, outer }
    }
}

/// An address with a port; a port alone is one of 127.0.0.1.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    port.or_else(|_| text.parse()).map_err(|_| {
        format!("'{text}' is no address with a port: write 127.0.0.1:1080, [::1]:1080 or 1080")
    })
}

fn user(text: &str) -> Result<(String, String), String> {
    let is_short = |text: &str| (1..=255).contains(&text.len());
    match text.split_once(':') {
        Some((name, password)) if is_short(name) && is_short(password) => {
            Ok((name.to_owned(), password.to_owned()))
        }
        _ => Err("write NAME:PASSWORD, with 1 to 255 bytes each".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_say_what_to_write() {
        let local: SocketAddr = "127.0.0.1:1080".parse().expect("an address");
        assert_eq!(address("1080"), Ok(local));
        assert!(address("localhost").is_err_and(|why| why.contains("[::1]:1080")));
        assert_eq!(user("a:b:c"), Ok(("a".to_owned(), "b:c".to_owned())));
        for wrong in ["a", ":b", "a:"] {
            assert!(user(wrong).is_err_and(|why| why.contains("NAME:PASSWORD")), "{wrong}");
        }
    }
}
