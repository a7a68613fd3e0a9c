//! The page of `lab all`: one file that needs no network. A heading for each experiment, its
//! question; what it shows, its plot, its table, its notes, the command that made it.
//!
//! A browser runs the scripts and styles that stand in it and nothing else: its policy has their
//! hashes.
//!
//! Called by: `all`. Plots are drawn by `assets/report.js` with uPlot from the data in the element
//! `plots`; the element `manifest` says for programs what is on the page.

use std::fmt::Write as _;

use page::{THEME_CSS, UPLOT_CSS, UPLOT_JS, escaped, json_in_script, policy_source};
use serde_json::Value;

use super::ended::{End, Ended};
use super::{All, series};
use crate::noise;
use crate::plot::Plot;
use crate::report::{Format, Report};
use crate::table::cell;

const CSS: &str = include_str!("../../assets/report.css");
const JS: &str = include_str!("../../assets/report.js");

/// The file. Writing into a string cannot fail.
pub(super) fn html(all: &All) -> String {
    let mut out = String::new();
    let style = [UPLOT_CSS, THEME_CSS, CSS].concat();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src {}; script-src {} {}; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <title>wirespeed lab, {}</title>\n<style>{style}</style>\n</head>\n\
         <body>\n",
        policy_source(&style),
        policy_source(UPLOT_JS),
        policy_source(JS),
        escaped(&all.date)
    );
    header(all, &mut out);
    for ended in &all.ended {
        section(ended, &mut out);
    }
    let _ = writeln!(
        out,
        "<footer class=\"quiet\"><p>Drag in a plot to zoom, double-click for all of it; a name \
         above it hides its series. Made by <code>{}</code>.</p></footer>",
        escaped(&all.command)
    );
    let plots: Vec<Value> = all.ended.iter().filter_map(data).collect();
    let json = |id: &str, value: &Value| {
        let text = json_in_script(&value.to_string());
        format!("<script type=\"application/json\" id=\"{id}\">{text}</script>\n")
    };
    out += &json("manifest", &all.manifest());
    out += &json("plots", &Value::Array(plots));
    let _ = write!(out, "<script>{UPLOT_JS}</script>\n<script>{JS}</script>\n</body>\n</html>\n");
    out
}

/// The plot of an experiment, for the script.
fn data(ended: &Ended) -> Option<Value> {
    let plot = ended.report()?.plot.as_ref()?;
    Some(series::of(ended.experiment.name, plot))
}

/// The machine, and a table of contents that says how each ended.
fn header(all: &All, out: &mut String) {
    let _ = write!(
        out,
        "<header>\n<h1>wirespeed lab</h1>\n<p class=\"quiet\">{}<br>{}</p>\n",
        escaped(&all.date),
        escaped(&all.line())
    );
    if let Some(warning) = all.machine.warning() {
        let _ = writeln!(
            out,
            "<p class=\"warning\"><strong>{}</strong> Figures in real time are marked: take \
             differences smaller than that for noise.</p>",
            escaped(&warning)
        );
    }
    if all.machine.build != "optimised" {
        out.push_str(
            "<p class=\"warning\"><strong>A build with debug assertions.</strong> It is several \
             times slower than an optimised one.</p>\n",
        );
    }
    if all.quick {
        out.push_str(
            "<p class=\"quiet\">A quick run: a look, not a result. Without <code>--quick</code> \
             there is more of everything.</p>\n",
        );
    }
    if all.interrupted {
        out.push_str(
            "<p class=\"warning\"><strong>Stopped before its end.</strong> The rest has not been \
             run.</p>\n",
        );
    }
    out.push_str("<nav class=\"wide\"><table class=\"contents\">\n<tbody>\n");
    for ended in &all.ended {
        let (rows, measured) = ended.rows();
        let of = if rows == measured { String::new() } else { format!(" of {rows}") };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td class=\"{2}\">{3}</td>\
             <td class=\"number\">{measured}{of} rows</td><td class=\"number\">{4:.1} s</td></tr>",
            ended.experiment.name,
            escaped(ended.experiment.summary),
            mark(ended),
            ended.status(),
            ended.seconds()
        );
    }
    out.push_str("</tbody>\n</table></nav>\n</header>\n<main>\n");
}

/// The class of a status.
fn mark(ended: &Ended) -> &'static str {
    match ended.status() {
        "done" => "good",
        "failed" => "bad",
        _ => "quiet",
    }
}

fn section(ended: &Ended, out: &mut String) {
    let experiment = ended.experiment;
    let name = experiment.name;
    let _ = write!(
        out,
        "<section id=\"{name}\">\n<p class=\"name\">{name} <span class=\"{}\">{}</span></p>\n\
         <h2>{}</h2>\n",
        mark(ended),
        ended.status(),
        escaped(experiment.question)
    );
    let says = ended.says();
    if !says.is_empty() {
        let _ = writeln!(out, "<p class=\"shows\">{}</p>", escaped(&says.join(" ")));
    }
    if let End::Done(done) = &ended.end {
        let (report, envelope) = &**done;
        if let Some(warning) = envelope.warning() {
            let _ = writeln!(
                out,
                "<p class=\"warning\"><strong>{}</strong> {}</p>",
                escaped(&warning),
                noise::MEANING
            );
        }
        figure(name, report, out);
        rows(report, out);
        if !report.notes.lines().is_empty() {
            out.push_str("<ul class=\"notes\">\n");
            for note in report.notes.lines() {
                let _ = writeln!(out, "<li>{}</li>", escaped(note));
            }
            out.push_str("</ul>\n");
        }
    }
    let _ = write!(
        out,
        "<p class=\"made\"><code>{}</code> <span class=\"quiet\">{:.1} s</span></p>\n</section>\n",
        escaped(&ended.command),
        ended.seconds()
    );
}

/// The place of a plot, for the script to fill.
fn figure(name: &str, report: &Report, out: &mut String) {
    let (title, subtitle) = match &report.plot {
        Some(Plot::Dots(plot)) => (&plot.title, &plot.subtitle),
        Some(Plot::Lines(plot)) => (&plot.title, &plot.subtitle),
        None => return,
    };
    let _ = write!(
        out,
        "<figure>\n<figcaption><strong>{}</strong> <span class=\"quiet\">{}</span></figcaption>\n\
         <div class=\"plot\" id=\"plot-{name}\"></div>\n</figure>\n",
        escaped(title),
        escaped(subtitle)
    );
}

/// The table behind the plot; open where there is no plot.
fn rows(report: &Report, out: &mut String) {
    let shown: Vec<_> = report
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| !matches!(column.format, Format::Heading | Format::Hidden))
        .collect();
    let heading = report.columns.iter().position(|column| column.format == Format::Heading);
    let open = if report.plot.is_none() { " open" } else { "" };
    let _ = write!(
        out,
        "<details{open}><summary>Table, {} rows</summary>\n<div class=\"wide\"><table>\n\
         <thead><tr>",
        report.rows.len()
    );
    let class = |format| if format == Format::Text { "" } else { " class=\"number\"" };
    for (_, column) in &shown {
        let class = class(column.format);
        let (unit, head) = (escaped(column.unit), escaped(column.head));
        let _ = write!(out, "<th{class} title=\"{unit}\">{head}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut above = None;
    for row in &report.rows {
        let here = heading.and_then(|index| row.get(index)?.as_str());
        if let Some(here) = here.filter(|_| here != above) {
            let (span, here) = (shown.len(), escaped(here));
            let _ = writeln!(out, "<tr><th class=\"above\" colspan=\"{span}\">{here}</th></tr>");
        }
        above = here;
        out.push_str("<tr>");
        for (index, column) in &shown {
            let text = row.get(*index).map_or_else(|| "-".to_owned(), |value| cell(column, value));
            let _ = write!(out, "<td{}>{}</td>", class(column.format), escaped(&text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div></details>\n");
}
