//! The layout for small screens: tables without borders, with the most important columns.
//!
//! Called by: `report.rs`. 60 by 15 characters have room for ports, talkers, drops and connections;
//! sizes and protocols need a larger screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::super::interval::Interval;
use super::super::view::View;
use super::cells::{drops, fitted, ports, rtt, short, talker_cells};

/// Maximum lines of tables, heads included; connections get the rest.
const PORTS: u16 = 3;
const TALKERS: u16 = 4;
const DROPS: u16 = 3;

pub(super) fn draw_small(frame: &mut Frame<'_>, interval: &Interval, view: &View) {
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
