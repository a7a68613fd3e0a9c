use explain::Words;
use std::collections::HashMap;

use super::cells::{short, talker_rows};
use super::listing::said;
use super::*;
use crate::top::besides::{Connection, Dropped};
use crate::top::port::PortState;
use crate::top::traffic::Amount;
use crate::top::traffic::Traffic;
use crate::top::view::Order;

#[test]
fn what_is_cut_off_says_so() {
    assert_eq!(fitted("2001:db8::12".to_owned(), 12), "2001:db8::12");
    assert_eq!(fitted("2001:db8::12".to_owned(), 11), "2001:db8::…");
    assert_eq!(fitted("a".to_owned(), 0), "…");
}

#[test]
fn who_finds_no_row_is_counted_in_the_last_one() {
    let mut traffic = Traffic::default();
    let address = |last: u8| std::net::IpAddr::from([192, 0, 2, last]);
    for n in 1..=4 {
        let amount = Amount { frames: 1, bytes: u64::from(n) * 100 };
        traffic.pairs.insert((address(0), address(n)), amount);
    }
    let rows = talker_rows(&traffic, &View::default(), 4);
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[3].0, "192.0.2.0 - 192.0.2.1", "who talks least");
    let rows = talker_rows(&traffic, &View::default(), 3);
    assert_eq!(rows[1].0, "192.0.2.0 - 192.0.2.3");
    assert_eq!(rows[2], ("others".to_owned(), Amount { frames: 2, bytes: 300 }));
    traffic.other_pairs = Amount { frames: 7, bytes: 700 };
    let rows = talker_rows(&traffic, &View::default(), 5);
    assert_eq!(rows[4], ("others".to_owned(), traffic.other_pairs));
    assert_eq!(talker_rows(&traffic, &View::default(), 4)[3].1, Amount { frames: 8, bytes: 800 });
}

#[test]
fn figures_have_three_places() {
    let shown = [0.0, 7.0, 999.0, 1_234.0, 56_789.0, 123_456.0, 2.5e9].map(short);
    assert_eq!(shown, ["0", "7", "999", "1.23k", "56.8k", "123k", "2.50G"]);
}

/// A busy program: three ports, four connections, five drops.
fn interval() -> Interval {
    let amount = |n: u64| Amount { frames: n, bytes: n * 1000 };
    let port = |name: &str, n: u64| PortState {
        name: name.to_owned(),
        amounts: [amount(n), amount(n / 2)],
        on_link: [amount(n), amount(n / 2)],
        link: super::super::port::Link::default(),
    };
    let mut traffic = Traffic::default();
    for n in 1..=9 {
        let address = |last: u8| std::net::IpAddr::from([192, 0, 2, last]);
        traffic.pairs.insert((address(0), address(n)), amount(u64::from(n)));
    }
    traffic.protocols.insert("TCP", amount(45));
    traffic.ports = vec![[amount(30), amount(15)]];
    let connection = |n: u64| {
        let local = format!("192.0.2.1:{}", 5000 + n);
        let mut connection = Connection::for_test(&local, "198.51.100.200:40000", n);
        connection.moved = amount(n);
        connection
    };
    let dropped = |name: &str, total: u64, now: u64| Dropped { name: name.to_owned(), total, now };
    Interval {
        what: "wirespeed ttcp, process 4711".to_owned(),
        seconds: 1.0,
        passed: 45,
        looked_at: 45,
        switches: None,
        ports: vec![port("sender:0", 10), port("receiver:0", 20), port("eth9", 5)],
        traffic,
        drops: vec![
            dropped("ip_not_for_us", 1000, 0),
            dropped("tcp_checksum", 7, 5),
            dropped("udp_no_socket", 9, 2),
        ],
        connections: (1..=4).map(connection).collect(),
        limits: HashMap::new(),
    }
}

/// The lines of a screen of this size.
fn screen(columns: u16, lines: u16, view: View) -> Vec<String> {
    let backend = ratatui::backend::TestBackend::new(columns, lines);
    let mut terminal = ratatui::Terminal::new(backend).expect("a screen of memory");
    terminal.draw(|frame| draw(frame, &interval(), &view)).expect("it is drawn");
    let buffer = terminal.backend().buffer();
    let line = |y: ratatui::layout::Rect| {
        y.columns().map(|cell| buffer[(cell.x, cell.y)].symbol()).collect::<String>()
    };
    buffer.area.rows().map(|row| line(row).trim_end().to_owned()).collect()
}

/// The first line that contains this.
fn line_of(lines: &[String], what: &str) -> usize {
    let found = lines.iter().position(|line| line.contains(what));
    found.unwrap_or_else(|| panic!("no {what} in {lines:#?}"))
}

#[test]
fn sixty_by_fifteen_has_ports_talkers_drops_and_connections() {
    let lines = screen(60, 15, View::default());
    let [ports, talkers, drops, connections] =
        ["receiver:0", "192.0.2.0 - 192.0.2.9", "tcp_checksum", "192.0.2.1:5004"]
            .map(|what| line_of(&lines, what));
    assert!(ports < talkers && talkers < drops && drops < connections, "{lines:#?}");
    assert!(lines[0].contains("? help"), "{lines:#?}");
    for line in &lines {
        assert!(!line.contains('…') || line.contains("198.51.100"), "cut off: {lines:#?}");
    }
}

#[test]
fn how_much_was_looked_at_is_said_where_it_was_not_all() {
    let mut interval = interval();
    assert_eq!(said(&interval), "45 frames/s");
    interval.passed = 90;
    assert_eq!(said(&interval), "90 frames/s, 50.000 % of them looked at");
    (interval.passed, interval.looked_at) = (0, 0);
    assert_eq!(said(&interval), "0 frames/s");
}

#[test]
fn every_table_is_there_where_there_is_room() {
    let lines = screen(120, 40, View::default());
    for table in ["Ports", "Sizes", "Protocols", "Drops", "Who talks", "Connections"] {
        line_of(&lines, &format!(" {table} "));
    }
    for (columns, rows) in [(1, 1), (20, 5), (60, 15), (80, 24), (104, 32), (300, 100)] {
        screen(columns, rows, View::default());
    }
}

#[test]
fn tables_are_in_the_order_that_was_asked_for() {
    let before = |order, one: &str, other: &str| {
        let lines = screen(120, 40, View { order, ..View::default() });
        let (one, other) = (line_of(&lines, one), line_of(&lines, other));
        assert!(one < other, "{order:?}: {lines:#?}");
    };
    before(Order::Bits, "192.0.2.1:5004", "192.0.2.1:5001");
    before(Order::Name, "192.0.2.1:5001", "192.0.2.1:5004");
    before(Order::Rtt, "192.0.2.1:5004", "192.0.2.1:5001");
    before(Order::Retransmits, "192.0.2.1:5004", "192.0.2.1:5001");
    before(Order::Bits, "receiver:0", "sender:0");
    before(Order::Bits, "tcp_checksum", "ip_not_for_us");
    before(Order::Name, "ip_not_for_us", "tcp_checksum");
    before(Order::Name, "192.0.2.0 - 192.0.2.1 ", "192.0.2.0 - 192.0.2.9");
}

#[test]
fn the_help_names_every_key_on_the_smallest_screen() {
    let lines = screen(60, 15, View { order: Order::Rtt, help: true, detail: None });
    line_of(&lines, "ordered by RTT");
    for (key, what) in KEYS {
        line_of(&lines, &format!("{key:<3}  {what}"));
    }
}

#[test]
fn drops_have_rates() {
    let lines = screen(120, 40, View::default());
    let line = &lines[line_of(&lines, "tcp_checksum")];
    let cells: Vec<&str> = line.split_whitespace().collect();
    let at = cells.iter().position(|cell| cell.contains("tcp_checksum")).expect("it is there");
    assert_eq!(cells[at + 1..at + 3], ["5", "7"], "{line}");
}

fn explained() -> Interval {
    let mut interval = interval();
    let words = Words { answer: "limited by the moon".to_owned(), advice: Some("wait".to_owned()) };
    interval.limits.insert(interval.connections[3].id, words);
    interval
}

#[test]
fn text_has_every_row_and_no_padding() {
    let text = text(&explained(), &View::default());
    for shown in ["sender:0", "192.0.2.0 - 192.0.2.1", "udp_no_socket", "192.0.2.1:5001"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.trim_end() == *line), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.is_empty()).count(), 1, "{lines:#?}");
    let last = "192.0.2.1:5004 - 198.51.100.200:40000: limited by the moon";
    assert_eq!(lines[lines.len() - 2], last);
}

#[test]
fn a_connection_alone_begins_with_what_limits_it() {
    let interval = explained();
    let shown = |detail: Id| {
        let backend = ratatui::backend::TestBackend::new(60, 24);
        let mut terminal = ratatui::Terminal::new(backend).expect("a screen of memory");
        let view = View { detail: Some(detail), ..View::default() };
        terminal.draw(|frame| draw(frame, &interval, &view)).expect("it is drawn");
        terminal.backend().to_string()
    };
    let first = shown(interval.connections[3].id);
    let lines: Vec<&str> = first.lines().collect();
    assert!(lines[0].contains("limited by the moon") && lines[1].contains("wait"), "{first}");
    assert!(first.contains("stack:receiver"), "{first}");
    assert!(shown(interval.connections[0].id).contains("after two seconds"));
    assert!(shown(Id { stack: 9, number: 9 }).contains("It has ended."));
}
