//! The screen of `top`: tables of what passed in the last interval.
//!
//! Called by: `top.rs`. Must not know: where figures come from. It is drawn anew each time; what
//! does not fit is left out from below.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};

use super::port::PortState;
use super::run::Interval;
use super::traffic::{Amount, Pair, SIZES, Traffic};

/// Figures with three places: 12.3 M.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => return format!("{v:.0}"),
    };
    let places = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.places$}{unit}")
}

/// An address that is cut off shall not look like another one.
fn fitted(text: String, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn table<'a>(
    title: &'a str,
    head: &[&'a str],
    widths: &[u16],
    rows: Vec<Vec<String>>,
) -> Table<'a> {
    let cells = |row: Vec<String>| {
        Row::new(row.into_iter().zip(widths).map(|(text, &width)| Cell::from(fitted(text, width))))
    };
    let head = Row::new(head.iter().map(|name| Cell::from(*name))).style(Style::new().dim());
    let columns = widths.iter().map(|&width| Constraint::Length(width));
    Table::new(rows.into_iter().map(cells), columns)
        .header(head)
        .block(Block::bordered().title(title))
}

/// Draw an interval.
pub(super) fn draw(frame: &mut Frame<'_>, interval: &Interval) {
    let ports = interval.ports.len() as u16 + 3;
    let connections = (interval.connections.len() as u16 + 3).clamp(3, 14);
    let [title, top, middle, bottom] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(ports),
        Constraint::Min(10),
        Constraint::Length(connections),
    ])
    .areas(frame.area());
    let heading = format!("{}   every {:.1} s   q ends it", interval.what, interval.seconds);
    let lines = vec![Line::from(heading).bold(), Line::from(said(interval))];
    frame.render_widget(Paragraph::new(lines), title);
    frame.render_widget(port_table(interval), top);
    let [sizes, protocols, talkers] =
        Layout::horizontal([Constraint::Length(30), Constraint::Length(34), Constraint::Min(40)])
            .areas(middle);
    frame.render_widget(size_table(interval), sizes);
    let [protocols, drops] =
        Layout::vertical([Constraint::Length(9), Constraint::Min(3)]).areas(protocols);
    frame.render_widget(protocol_table(interval), protocols);
    frame.render_widget(drop_table(interval), drops);
    talker_table(frame, interval, talkers);
    frame.render_widget(connection_table(interval), bottom);
}

/// A screen's characters, a line each and an empty one behind the last.
pub(super) fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.rows() {
        let line: String = y.columns().map(|cell| buffer[(cell.x, cell.y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    text
}

/// What there is but one figure of.
fn said(interval: &Interval) -> String {
    let share = interval.looked_at as f64 * 100.0 / interval.passed.max(1) as f64;
    let frames =
        format!("{} frames, {share:.3} % of them looked at", short(interval.passed as f64));
    let Some((woken_by, counts)) = interval.switches else { return frames };
    let [woken, switches] =
        [counts.woken, counts.switches].map(|n| short(n as f64 / interval.seconds));
    format!("{frames}   {woken_by} {woken}/s   context switches {switches}/s")
}

fn port_table(interval: &Interval) -> Table<'_> {
    let row = |port: &PortState| {
        let [received, sent] = port.amounts;
        let per_s = |n: u64| short(n as f64 / interval.seconds);
        let bits = |amount: Amount| short(amount.bytes as f64 * 8.0 / interval.seconds);
        let share = match port.share(interval.seconds) {
            _ if port.link.is_down => "down".to_owned(),
            Some(share) => format!("{share:.1} %"),
            None => "-".to_owned(),
        };
        vec![
            port.name.clone(),
            per_s(received.frames),
            bits(received),
            per_s(sent.frames),
            bits(sent),
            share,
            port.link.collisions.map_or("-".to_owned(), |n| n.to_string()),
            port.link.errors.map_or("-".to_owned(), |n| n.to_string()),
        ]
    };
    let head = [
        "port",
        "in frames/s",
        "in b/s",
        "out frames/s",
        "out b/s",
        "of link",
        "collisions",
        "errors",
    ];
    let rows = interval.ports.iter().map(row).collect();
    table(" Ports ", &head, &[22, 12, 9, 13, 9, 9, 11, 9], rows)
}

fn size_table(interval: &Interval) -> Table<'_> {
    let all = interval.traffic.sizes.iter().map(|amount| amount.frames).sum::<u64>().max(1);
    let row = |((_, name), amount): (&(u32, &str), &Amount)| {
        let share = amount.frames as f64 / all as f64;
        let bar = "#".repeat((share * 12.0).round() as usize);
        vec![(*name).to_owned(), format!("{:.0} %", share * 100.0), bar]
    };
    let rows = SIZES.iter().zip(&interval.traffic.sizes).map(row).collect();
    table(" Sizes ", &["bytes", "frames", ""], &[8, 6, 12], rows)
}

fn protocol_table(interval: &Interval) -> Table<'_> {
    let row = |(name, amount): (&'static str, Amount)| {
        vec![
            name.to_owned(),
            short(amount.frames as f64 / interval.seconds),
            short(amount.bytes as f64 * 8.0 / interval.seconds),
        ]
    };
    let rows = interval.traffic.by_protocol().into_iter().map(row).collect();
    table(" Protocols ", &["name", "frames/s", "b/s"], &[10, 9, 9], rows)
}

fn drop_table(interval: &Interval) -> Table<'_> {
    let row = |(name, count): &(String, u64)| vec![name.clone(), count.to_string()];
    let rows = interval.drops.iter().map(row).collect();
    table(" Drops ", &["name", "so far"], &[22, 8], rows)
}

/// As many of those that talk most as there is room for; what all others say is the last row.
fn talker_rows(traffic: &Traffic, room: usize) -> Vec<(String, Amount)> {
    let all = traffic.talkers();
    let is_enough = all.len() <= room && traffic.other_pairs.frames == 0;
    let named = if is_enough { all.len() } else { all.len().min(room.saturating_sub(1)) };
    let mut others = traffic.other_pairs;
    all.iter().skip(named).for_each(|(_, amount)| others.include(*amount));
    let row = |((a, b), amount): &(Pair, Amount)| (format!("{a} - {b}"), *amount);
    let mut rows: Vec<_> = all.iter().take(named).map(row).collect();
    if others.frames > 0 {
        rows.push(("others".to_owned(), others));
    }
    rows
}

fn talker_table(frame: &mut Frame<'_>, interval: &Interval, area: Rect) {
    let row = |(name, amount): (String, Amount)| {
        vec![
            name,
            short(amount.frames as f64 / interval.seconds),
            short(amount.bytes as f64 * 8.0 / interval.seconds),
        ]
    };
    // The border and the head take three lines.
    let room = usize::from(area.height.saturating_sub(3));
    let rows = talker_rows(&interval.traffic, room).into_iter().map(row);
    let wide = area.width.saturating_sub(22);
    let head = ["between", "frames/s", "b/s"];
    frame.render_widget(table(" Who talks ", &head, &[wide, 9, 8], rows.collect()), area);
}

fn connection_table(interval: &Interval) -> Table<'_> {
    let head = ["local", "remote", "state", "cwnd", "RTT ms", "in flight", "again"];
    let rows = interval.connections.clone();
    table(" Connections ", &head, &[24, 24, 13, 9, 9, 10, 7], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let rows = talker_rows(&traffic, 4);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[3].0, "192.0.2.0 - 192.0.2.1", "who talks least");
        let rows = talker_rows(&traffic, 3);
        assert_eq!(rows[1].0, "192.0.2.0 - 192.0.2.3");
        assert_eq!(rows[2], ("others".to_owned(), Amount { frames: 2, bytes: 300 }));
        traffic.other_pairs = Amount { frames: 7, bytes: 700 };
        let rows = talker_rows(&traffic, 5);
        assert_eq!(rows[4], ("others".to_owned(), traffic.other_pairs));
        assert_eq!(talker_rows(&traffic, 4)[3].1, Amount { frames: 8, bytes: 800 });
    }

    #[test]
    fn figures_have_three_places() {
        let shown = [0.0, 7.0, 999.0, 1_234.0, 56_789.0, 123_456.0, 2.5e9].map(short);
        assert_eq!(shown, ["0", "7", "999", "1.23k", "56.8k", "123k", "2.50G"]);
    }
}
