use super::*;

const VIRTUAL: [u8; 6] = [0, 0, 0x5e, 0, 1, 51];

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Mirror `wan` with index 2, a macvlan above it with 3, something else with 4.
fn table(is_up: bool, held: &[(u32, &str)]) -> Table {
    let link = |index, name: &str, mac, above| {
        let name = name.to_owned();
        (index, Link { index, name, mac, above, is_up, is_running: true })
    };
    let links = [
        link(2, "wan", Some([2, 0, 0, 0, 0, 1]), None),
        link(3, "vrrp.51", Some(VIRTUAL), Some(2)),
        link(4, "lo", None, None),
    ];
    let held =
        held.iter().map(|(index, text)| Held { index: *index, ip: ip(text), prefix_len: 24 });
    Table { links: links.into(), held: held.collect() }
}

fn port() -> State {
    State {
        port: "wan".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1_500,
        carrier: true,
        addresses: [(ip("192.0.2.1"), 24), (ip("fe80::1"), 64)].into(),
        has_device: true,
    }
}

fn found(table: &Table, left: &[(u32, &str)]) -> Vec<(String, bool)> {
    let left = left.iter().map(|(index, text)| (*index, ip(text))).collect();
    let (found, _) = table.of_programs(&port(), &left);
    found.iter().map(|of| (of.ip.to_string(), of.mac == Some(VIRTUAL))).collect()
}

#[test]
fn what_the_port_has_is_no_programs() {
    let all = [(2, "192.0.2.1"), (2, "192.0.2.7"), (4, "127.0.0.1"), (2, "fe80::7")];
    let is = [("192.0.2.7".to_owned(), false), ("fe80::7".to_owned(), false)];
    assert_eq!(found(&table(true, &all), &[]), is);
    // One that an earlier router left may have been its port's.
    assert_eq!(found(&table(true, &all), &[(2, "192.0.2.7")]), is[1..]);
    let state = State { port: "lan".to_owned(), ..port() };
    assert_eq!(table(true, &all).of_programs(&state, &Left::new()), (Vec::new(), false));
}

#[test]
fn those_of_an_interface_above_have_its_link_address_while_it_is_up() {
    let all = [(2, "192.0.2.7"), (3, "192.0.2.7"), (3, "192.0.2.8"), (3, "fe80::1")];
    let both = [("192.0.2.7".to_owned(), true), ("192.0.2.8".to_owned(), true)];
    assert_eq!(found(&table(true, &all), &[]), both);
    assert_eq!(found(&table(false, &all), &[]), [("192.0.2.7".to_owned(), false)]);
    // The owner of the address (RFC 9568 section 8.3.2), and a virtual link-local address; not the
    // one that each router's kernel makes.
    let all = [(3, "192.0.2.1"), (3, "fe80::7"), (3, "fe80::200:5eff:fe00:133")];
    let both = [("192.0.2.1".to_owned(), true), ("fe80::7".to_owned(), true)];
    assert_eq!(found(&table(true, &all), &[]), both);
}

/// What an earlier router or a killed program left counts once somebody did something about it.
#[test]
fn what_was_left_counts_once_it_was_removed_or_its_interface_went_down() {
    let all = [(2, "192.0.2.7"), (3, "192.0.2.8"), (4, "127.0.0.1")];
    let mut left = table(true, &all).left_at("wan");
    assert_eq!(left.len(), 2);
    assert_eq!(table(true, &all).of_programs(&port(), &left).0, []);
    table(true, &all).forget_of(&mut left, "wan");
    assert_eq!(left.len(), 2);
    // The mirror has no carrier yet: all above it are down with it.
    let mut begins = table(false, &all);
    begins.links.get_mut(&2).expect("the mirror").is_running = false;
    begins.forget_of(&mut left, "wan");
    assert_eq!(left.len(), 2);
    // vrrpd takes the carrier of a macvlan; somebody removes an address of the mirror.
    table(false, &all).forget_of(&mut left, "wan");
    assert_eq!(left, [(2, ip("192.0.2.7"))].into());
    table(true, &all[1..]).forget_of(&mut left, "wan");
    assert_eq!(left, Left::new());
    assert_eq!(found(&table(true, &all), &[]).len(), 2);
}

#[test]
fn there_are_few_of_them() {
    let many: Vec<String> = (1..=65).map(|n| format!("10.0.0.{n}")).collect();
    let held: Vec<(u32, &str)> = many.iter().map(|text| (3, text.as_str())).collect();
    let none = Left::new();
    let (some, too_many) = table(true, &held[..64]).of_programs(&port(), &none);
    assert_eq!((some.len(), too_many), (64, false));
    let (some, too_many) = table(true, &held).of_programs(&port(), &none);
    assert_eq!((some.len(), too_many), (64, true));
}

/// The kernel of this machine answers as it is read here.
#[test]
fn the_loopback_interface_is_there() {
    let mut watch = Watch::open().expect("a kernel with netlink");
    for _ in 0..3 {
        let Some(table) = watch.table().expect("it answers") else { continue };
        let lo = table.link("lo").expect("each namespace has it");
        assert_eq!((lo.index, lo.above), (1, None));
    }
}
