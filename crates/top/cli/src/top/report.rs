//! The screen of `top`: tables of the last interval's traffic.
//!
//! Called by: `top.rs`. The whole screen is drawn each time; rows that do not fit are left out at
//! the bottom. Small screens have a layout of their own. `listing` has the tables, also as text for
//! `--batch`.

mod cells;
mod listing;

use cells::{drops, fitted, ports, rtt, short, talker_cells};
use listing::Listing;
pub(super) use listing::text;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, Wrap};

use super::interval::Interval;
use super::limits::Id;
use super::view::{KEYS, View};
use crate::show::{self, Full};

/// Smaller screens than this are drawn by [`draw_small`].
const WIDE: (u16, u16) = (104, 32);

/// Draw an interval.
pub(super) fn draw(frame: &mut Frame<'_>, interval: &Interval, view: &View) {
    let area = frame.area();
    match (view.help, view.detail, area.width >= WIDE.0 && area.height >= WIDE.1) {
        (true, _, _) => draw_help(frame, view),
        (false, Some(id), _) => draw_detail(frame, interval, id),
        (false, None, true) => draw_wide(frame, interval, view),
        (false, None, false) => draw_small(frame, interval, view),
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
    let lines = vec![Line::from(heading).bold(), Line::from(listing::said(interval))];
    frame.render_widget(Paragraph::new(lines), title);
    bordered(frame, Listing::ports(interval, view), &[22, 12, 9, 13, 9, 9, 11, 9], top);
    let [sizes, protocols, talkers] =
        Layout::horizontal([Constraint::Length(30), Constraint::Length(36), Constraint::Min(38)])
            .areas(middle);
    bordered(frame, Listing::sizes(interval), &[8, 6, 12], sizes);
    let [protocols, drops] =
        Layout::vertical([Constraint::Length(9), Constraint::Min(3)]).areas(protocols);
    bordered(frame, Listing::protocols(interval), &[10, 9, 9], protocols);
    bordered(frame, Listing::drops(interval, view), &[18, 8, 6], drops);
    // Border and head take three lines.
    let room = usize::from(talkers.height.saturating_sub(3));
    let ends = talkers.width.saturating_sub(22);
    bordered(frame, Listing::talkers(interval, view, room), &[ends, 9, 8], talkers);
    let widths = [23, 23, 12, 7, 7, 8, 9, 7];
    bordered(frame, Listing::connections(interval, view), &widths, bottom);
}

/// A table with a border; rows that do not fit are left out.
fn bordered(frame: &mut Frame<'_>, listing: Listing, widths: &[u16], area: Rect) {
    let cells = |row: Vec<String>| {
        Row::new(row.into_iter().zip(widths).map(|(text, &width)| Cell::from(fitted(text, width))))
    };
    let head = Row::new(listing.head.iter().map(|name| Cell::from(*name)));
    let columns = widths.iter().map(|&width| Constraint::Length(width));
    let table = Table::new(listing.rows.into_iter().map(cells), columns)
        .header(head.style(Style::new().dim()))
        .block(Block::bordered().title(format!(" {} ", listing.title)));
    frame.render_widget(table, area);
}

/// One connection: what limits it, what helps, and its figures.
fn draw_detail(frame: &mut Frame<'_>, interval: &Interval, id: Id) {
    let mut lines = Vec::new();
    match interval.limits.get(&id) {
        Some(words) => {
            lines.push(Line::from(words.answer.clone()).bold());
            lines.extend(words.advice.iter().map(|advice| Line::from(advice.clone())));
        }
        None => {
            lines.push(Line::from("Its limit will be known after two seconds of looks.").bold())
        }
    }
    lines.push(Line::from(""));
    let mut figures = String::new();
    match interval.connections.iter().find(|connection| connection.id == id) {
        Some(one) => {
            let full = Full { connection: one.row.clone(), ..Full::default() };
            show::connection(&mut figures, &one.stack, &full);
        }
        None => figures.push_str("It has ended."),
    }
    lines.extend(figures.lines().map(|line| Line::from(line.to_owned())));
    lines.push(Line::from(""));
    lines.push(Line::from("e goes back, j and k go to other connections").dim());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), frame.area());
}

/// The help screen.
fn draw_help(frame: &mut Frame<'_>, view: &View) {
    let mut lines = vec![
        Line::from("wirespeed top: keys").bold(),
        Line::from(format!("Tables are ordered by {}.", view.order.name())),
        Line::from(""),
    ];
    lines.extend(KEYS.iter().map(|(key, what)| Line::from(format!("  {key:<3}  {what}"))));
    frame.render_widget(Paragraph::new(lines), frame.area());
}

#[cfg(test)]
mod tests;

/// Maximum lines of tables, heads included; connections get the rest.
const PORTS: u16 = 3;
const TALKERS: u16 = 4;
const DROPS: u16 = 3;

fn draw_small(frame: &mut Frame<'_>, interval: &Interval, view: &View) {
    let lines = |rows: usize, most: u16| (rows as u16).saturating_add(1).min(most);
    let [title, of_ports, of_talkers, of_drops, of_connections] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines(interval.ports.len(), PORTS)),
        Constraint::Length(lines(interval.traffic.pairs.len(), TALKERS)),
        Constraint::Length(lines(interval.drops.len(), DROPS)),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    let heading = format!("{}  by {}  ? help", interval.what, view.order.name());
    frame.render_widget(Paragraph::new(Line::from(heading).bold()), title);
    port_rows(frame, interval, view, of_ports);
    let room = usize::from(of_talkers.height.saturating_sub(1));
    let name = of_talkers.width.saturating_sub(18);
    let rows = talker_cells(interval, view, room);
    rest(frame, &["who talks", "frames/s", "b/s"], &[name, 8, 8], rows, of_talkers);
    let name = of_drops.width.saturating_sub(18);
    let rows = drops(interval, view).into_iter().map(|dropped| {
        let per_s = short(dropped.now as f64 / interval.seconds);
        vec![dropped.name.clone(), per_s, short(dropped.total as f64)]
    });
    rest(frame, &["drops", "a second", "so far"], &[name, 8, 8], rows.collect(), of_drops);
    connection_rows(frame, interval, view, of_connections);
}

fn port_rows(frame: &mut Frame<'_>, interval: &Interval, view: &View, area: Rect) {
    let rows = ports(interval, view).into_iter().map(|port| {
        let [received, sent] = port.amounts;
        let per_s = |n: u64| short(n as f64 / interval.seconds);
        let of_link = match port.share(interval.seconds) {
            _ if port.link.is_down => "down".to_owned(),
            share => share.map_or("-".to_owned(), |share| format!("{share:.0} %")),
        };
        vec![
            port.name.clone(),
            per_s(received.frames),
            per_s(received.bytes * 8),
            per_s(sent.frames),
            per_s(sent.bytes * 8),
            of_link,
        ]
    });
    let head = ["port", "in f/s", "in b/s", "out f/s", "out b/s", "of link"];
    let name = area.width.saturating_sub(40);
    rest(frame, &head, &[name, 7, 7, 7, 7, 7], rows.collect(), area);
}

fn connection_rows(frame: &mut Frame<'_>, interval: &Interval, view: &View, area: Rect) {
    let rows = interval.connections(view).into_iter().map(|c| {
        let per_s = short(c.moved.bytes as f64 * 8.0 / interval.seconds);
        // ss's name: there is no room for the long one.
        let row = &c.row;
        let state = if row.state == "ESTABLISHED" { "ESTAB" } else { &row.state }.to_owned();
        let retransmits = short(row.retransmits as f64);
        vec![row.local.clone(), row.remote.clone(), state, per_s, rtt(c), retransmits]
    });
    let ends = area.width.saturating_sub(28) / 2;
    let head = ["local", "remote", "state", "b/s", "RTT ms", "retr"];
    rest(frame, &head, &[ends, ends, 6, 6, 6, 4], rows.collect(), area);
}

/// Draw a table without borders, as far as there is room.
fn rest(frame: &mut Frame<'_>, head: &[&str], widths: &[u16], rows: Vec<Vec<String>>, area: Rect) {
    let head = head.iter().map(|name| Cell::from((*name).to_owned()));
    let head = Row::new(head).style(Style::new().dim().underlined());
    let row = |row: Vec<String>| {
        Row::new(row.into_iter().zip(widths).map(|(text, &width)| Cell::from(fitted(text, width))))
    };
    let columns = widths.iter().map(|&width| Constraint::Length(width));
    frame.render_widget(Table::new(rows.into_iter().map(row), columns).header(head), area);
}
