//! The screen of `top`: tables of the last interval's traffic.
//!
//! Called by: `top.rs`. The whole screen is drawn each time; rows that do not fit are left out at
//! the bottom. `small` draws small screens, `listing` has the tables, also as text for `--batch`.

mod cells;
mod listing;
mod small;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, Wrap};

use super::interval::Interval;
use super::limits::Id;
use super::view::{KEYS, View};
use crate::show::{self, Full};
use cells::fitted;
use listing::Listing;
pub(super) use listing::text;
use small::draw_small;

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
            lines.push(Line::from("What limits it is known after two seconds of looks.").bold())
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
