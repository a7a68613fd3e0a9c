use super::*;

fn parse(text: &str) -> Result<Option<Filter>, String> {
    Filter::parse(&[text.to_owned()])
}

/// The numbers of the rows that a filter matches.
fn admitted(text: &str) -> Vec<usize> {
    let connections = [
        ("ESTABLISHED", "192.0.2.1:80", "10.1.2.3:40000"),
        ("ESTABLISHED", "192.0.2.1:22", "10.1.2.3:40001"),
        ("TIME-WAIT", "192.0.2.1:80", "198.51.100.7:40000"),
        ("SYN-SENT", "[2001:db8::1]:9", "[2001:db8::2]:443"),
    ];
    let connections = connections.map(|(state, local, remote)| Connection {
        state: state.to_owned(),
        local: local.to_owned(),
        remote: remote.to_owned(),
        ..Connection::default()
    });
    let sockets = [("tcp", "*:80"), ("udp", "192.0.2.1:53")].map(|(protocol, local)| Socket {
        protocol: protocol.to_owned(),
        local: local.to_owned(),
        ..Socket::default()
    });
    let filter = parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    let filter = filter.expect("not empty");
    let of_connections = connections.iter().map(|row| filter.connection(row));
    let all = of_connections.chain(sockets.iter().map(|row| filter.socket(row)));
    all.enumerate().filter(|&(_, is_admitted)| is_admitted).map(|(n, _)| n).collect()
}

#[test]
fn states_have_the_names_of_ss() {
    assert_eq!(admitted("state established"), [0, 1]);
    assert_eq!(admitted("state ESTABLISHED"), [0, 1]);
    assert_eq!(admitted("state listening"), [4]);
    assert_eq!(admitted("state connected"), [0, 1, 2, 3]);
    assert_eq!(admitted("state synchronized"), [0, 1, 2]);
    assert_eq!(admitted("exclude established"), [2, 3, 4, 5]);
    assert_eq!(admitted("state all"), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn ends_are_compared() {
    assert_eq!(admitted("dst 10.0.0.0/8"), [0, 1]);
    assert_eq!(admitted("dst 10.1.2.3"), [0, 1]);
    assert_eq!(admitted("dst 10.1.2.3:40001"), [1]);
    assert_eq!(admitted("dst != 10.0.0.0/8"), [2, 3, 4, 5]);
    assert_eq!(admitted("src [2001:db8::1]:9"), [3]);
    assert_eq!(admitted("src 2001:db8::/32"), [3]);
    assert_eq!(admitted("src :80"), [0, 2, 4]);
    assert_eq!(admitted("sport = :80"), [0, 2, 4]);
    assert_eq!(admitted("sport 80"), [0, 2, 4]);
    assert_eq!(admitted("sport != 80 and sport < :1024"), [1, 3, 5]);
    assert_eq!(admitted("dport >= 40001"), [1]);
    assert_eq!(admitted("dport gt 40000"), [1]);
}

#[test]
fn predicates_are_joined_as_ss_joins_them() {
    assert_eq!(admitted("state established dport = :40000"), [0]);
    assert_eq!(admitted("state established and ( sport = :22 or sport = :443 )"), [1]);
    assert_eq!(admitted("sport = :22 or sport = :80 and state time-wait"), [1, 2]);
    assert_eq!(admitted("(sport=:22||sport=:80)&&!state time-wait"), [0, 1, 4]);
    assert_eq!(admitted("not ( dst 10.0.0.0/8 )"), [2, 3, 4, 5]);
}

#[test]
fn an_end_alone_is_either_end() {
    assert_eq!(admitted("192.0.2.1:80"), [0, 2]);
    assert_eq!(admitted("[2001:db8::2]:443"), [3]);
}

#[test]
fn what_is_not_understood_is_named() {
    assert_eq!(parse(""), Ok(None));
    for (text, says) in [
        ("state", "established"),
        ("state asleep", "established"),
        ("dst", "no address"),
        ("dst example.org", "example.org"),
        ("dport = ", "dport = :80"),
        ("dport = :99999", "dport = :80"),
        ("( sport = :80", "not closed"),
        ("sport = :80 )", "closes nothing"),
        ("sport = :80 and", "predicate"),
        ("not", "predicate"),
        ("colour red", "no predicate"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(says), "{text}: {error}");
    }
}
