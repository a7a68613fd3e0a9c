//! resolv.conf as resolv.conf(5) and glibc read it.

use super::*;

fn parse(text: &str) -> (Config, Vec<usize>) {
    let (config, notes) = Config::from_resolv_conf(text);
    (config, notes.into_iter().map(|note| note.line).collect())
}

#[test]
fn a_usual_file() {
    let text = "# made by hand\n; too\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n\
                search Example.net sub.example.net\noptions ndots:2 timeout:3 attempts:4 edns0\n";
    let (config, notes) = parse(text);
    assert_eq!(
        config.servers,
        ["192.0.2.53:53", "[2001:db8::53]:53"].map(|a| a.parse().expect("an address"))
    );
    assert_eq!(config.search, ["example.net", "sub.example.net"]);
    assert_eq!((config.ndots, config.attempts), (2, 4));
    assert_eq!(config.timeout, Duration::from_secs(3));
    assert!(notes.is_empty());
}

#[test]
fn the_last_of_domain_and_search_counts() {
    assert_eq!(parse("search a b\ndomain c d\n").0.search, ["c"]);
    assert_eq!(parse("domain c\nsearch a b\n").0.search, ["a", "b"]);
    assert!(parse("search a\nsearch .\n").0.search.is_empty());
}

#[test]
fn values_are_limited_and_wrong_lines_skipped() {
    let text = "nameserver\nnameserver x\nnameserver fe80::1%eth0\noptions ndots:99 ndots:x\n\
                options timeout:0 attempts:0 bogus rotate\nbogus\nsearch a..b ok\n";
    let (config, notes) = parse(text);
    assert!(config.servers.is_empty());
    assert_eq!((config.ndots, config.attempts), (15, 1));
    assert_eq!(config.timeout, Duration::from_secs(1));
    assert_eq!(config.search, ["ok"]);
    assert_eq!(notes, [1, 2, 3, 4, 5, 6, 7]);
    let servers = (1..=9).map(|i| format!("nameserver 192.0.2.{i}\n")).collect::<String>();
    let domains: String = (0..99).map(|i| format!(" d{i}")).collect();
    let (config, _) = parse(&format!("{servers}search{domains}\n"));
    assert_eq!((config.servers.len(), config.search.len()), (SERVERS_MAX, SEARCH_MAX));
}
