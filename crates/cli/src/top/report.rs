//! The screen of `top`: tables of the last interval's traffic.
//!
//! Called by: `top.rs`. The whole screen is drawn each time; rows that do not fit are left out at
//! the bottom. `small` draws small screens.

mod cells;
mod small;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};

use super::besides::{Connection, Dropped};
use super::port::PortState;
use super::run::Interval;
use super::traffic::{Amount, SIZES};
use super::view::{KEYS, View};
use cells::{connections, drops, fitted, known, ports, rtt, short, talker_cells};
use small::draw_small;

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

/// Smaller screens than this are drawn by [`draw_small`].
const WIDE: (u16, u16) = (104, 32);

/// Draw an interval.
pub(super) fn draw(frame: &mut Frame<'_>, interval: &Interval, view: &View) {
    let area = frame.area();
    match (view.help, area.width >= WIDE.0 && area.height >= WIDE.1) {
        (true, _) => draw_help(frame, view),
        (false, true) => draw_wide(frame, interval, view),
        (false, false) => draw_small(frame, interval, view),
    }
}

/// All tables, with borders.
fn draw_wide(frame: &mut Frame<'_>, interval: &Interval, view: &View) {
    let ports = interval.ports.len() as u16 + 3;
    let connections = (interval.connections.len() as u16 + 3).clamp(3, 14);
    let [title, top, middle, bottom] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(ports),
        Constraint::Min(10),
        Constraint::Length(connections),
    ])
    .areas(frame.area());
    let heading = format!(
        "{}   every {:.1} s   by {}   ? help, q ends it",
        interval.what,
        interval.seconds,
        view.order.name()
    );
    let lines = vec![Line::from(heading).bold(), Line::from(said(interval))];
    frame.render_widget(Paragraph::new(lines), title);
    frame.render_widget(port_table(interval, view), top);
    let [sizes, protocols, talkers] =
        Layout::horizontal([Constraint::Length(30), Constraint::Length(36), Constraint::Min(38)])
            .areas(middle);
    frame.render_widget(size_table(interval), sizes);
    let [protocols, drops] =
        Layout::vertical([Constraint::Length(9), Constraint::Min(3)]).areas(protocols);
    frame.render_widget(protocol_table(interval), protocols);
    frame.render_widget(drop_table(interval, view), drops);
    talker_table(frame, interval, view, talkers);
    frame.render_widget(connection_table(interval, view, bottom), bottom);
}

/// The help screen.
fn draw_help(frame: &mut Frame<'_>, view: &View) {
    let mut lines = vec![
        Line::from("wirespeed top: keys").bold(),
        Line::from(format!("Tables are ordered by {}.", view.order.name())),
        Line::from(""),
    ];
    lines.extend(KEYS.iter().map(|(key, what)| Line::from(format!("  {key}   {what}"))));
    frame.render_widget(Paragraph::new(lines), frame.area());
}

/// A screen's characters as lines, with an empty line at the end.
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

/// The line of single figures.
fn said(interval: &Interval) -> String {
    let mut frames = format!("{} frames/s", short(interval.passed as f64 / interval.seconds));
    if interval.looked_at < interval.passed {
        let share = interval.looked_at as f64 * 100.0 / interval.passed as f64;
        frames += &format!(", {share:.3} % of them looked at");
    }
    let Some((woken_by, counts)) = interval.switches else { return frames };
    let [woken, switches] =
        [counts.woken, counts.switches].map(|n| short(n as f64 / interval.seconds));
    format!("{frames}   {woken_by} {woken}/s   context switches {switches}/s")
}

fn port_table<'a>(interval: &'a Interval, view: &View) -> Table<'a> {
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
    let rows = ports(interval, view).into_iter().map(row).collect();
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

fn drop_table<'a>(interval: &'a Interval, view: &View) -> Table<'a> {
    let row = |dropped: &Dropped| {
        let per_s = short(dropped.now as f64 / interval.seconds);
        vec![dropped.name.clone(), per_s, short(dropped.total as f64)]
    };
    let rows = drops(interval, view).into_iter().map(row).collect();
    table(" Drops ", &["name", "a second", "so far"], &[18, 8, 6], rows)
}

fn talker_table(frame: &mut Frame<'_>, interval: &Interval, view: &View, area: Rect) {
    // Border and head take three lines.
    let room = usize::from(area.height.saturating_sub(3));
    let wide = area.width.saturating_sub(22);
    let head = ["between", "frames/s", "b/s"];
    let rows = talker_cells(interval, view, room);
    frame.render_widget(table(" Who talks ", &head, &[wide, 9, 8], rows), area);
}

fn connection_table<'a>(interval: &'a Interval, view: &View, area: Rect) -> Table<'a> {
    let row = |c: &Connection| {
        vec![
            c.local.clone(),
            c.remote.clone(),
            c.state.clone(),
            short(c.moved.bytes as f64 * 8.0 / interval.seconds),
            known(c.cwnd),
            rtt(c),
            known(c.in_flight),
            c.retransmits.to_string(),
        ]
    };
    let all = connections(interval, view);
    let room = usize::from(area.height.saturating_sub(3));
    let head = ["local", "remote", "state", "b/s", "cwnd", "RTT ms", "in flight", "retrans"];
    let rows = all.into_iter().take(room).map(row).collect();
    table(" Connections ", &head, &[23, 23, 12, 7, 7, 8, 9, 7], rows)
}

#[cfg(test)]
mod tests;
