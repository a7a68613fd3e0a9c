//! The page of `lab all`: one file that needs no network. It opens with what the figures mean and
//! with each experiment's finding. A section for each experiment follows: its question, what it
//! shows, its plot, its table, its notes, and the command that made it. Links to all sections stay
//! in view.
//!
//! A browser runs only the scripts and styles that are in the page: its content security policy has
//! their hashes.
//!
//! Called by: `all`. The scripts in `assets` draw the plots, with uPlot, from the data in the
//! element `plots`. The element `manifest` tells programs what is on the page.

use std::fmt::Write as _;

use page::{NAMES_JS, THEME_CSS, UPLOT_CSS, UPLOT_JS, escaped, json_in_script, policy_source};
use serde_json::Value;

use super::ended::{End, Ended};
use super::{All, opening, series};
use crate::noise;
use crate::plot::{Plot, Tints};
use crate::report::{Format, Report};
use crate::table::{cell, grouped};

const CSS: &str = include_str!("../../assets/report.css");
/// The scripts that draw. Each may use those before it.
const PARTS: [&str; 4] = [
    NAMES_JS,
    include_str!("../../assets/draw.js"),
    include_str!("../../assets/dots.js"),
    include_str!("../../assets/report.js"),
];

/// The page as HTML. Writing into a string cannot fail.
pub(super) fn html(all: &All) -> String {
    let mut out = String::new();
    let style = [UPLOT_CSS, THEME_CSS, CSS].concat();
    let script = ["'use strict';\n", &PARTS.concat()].concat();
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
        policy_source(&script),
        escaped(&all.date)
    );
    navigation(all, &mut out);
    out.push_str("<main>\n");
    header(all, &mut out);
    let marks_real = all.machine.warning().is_some();
    for ended in &all.ended {
        section(ended, marks_real, &mut out);
    }
    let _ = writeln!(
        out,
        "<footer class=\"quiet\"><p>Drag in a plot to zoom, double-click for all of it; a click on \
         a name hides its series. The same thing has the same colour in all plots. Made by \
         <code>{}</code>.</p></footer>\n</main>",
        escaped(&all.command)
    );
    let mut tints = Tints::default();
    let plots: Vec<Value> = all.ended.iter().filter_map(|ended| data(ended, &mut tints)).collect();
    let json = |id: &str, value: &Value| {
        let text = json_in_script(&value.to_string());
        format!("<script type=\"application/json\" id=\"{id}\">{text}</script>\n")
    };
    out += &json("manifest", &all.manifest());
    out += &json("plots", &Value::Array(plots));
    let _ =
        write!(out, "<script>{UPLOT_JS}</script>\n<script>{script}</script>\n</body>\n</html>\n");
    out
}

/// The plot of an experiment, for the script.
fn data(ended: &Ended, tints: &mut Tints) -> Option<Value> {
    let plot = ended.report()?.plot.as_ref()?;
    Some(series::of(ended.experiment.name, plot, tints))
}

/// Links to all experiments, which stay in view.
fn navigation(all: &All, out: &mut String) {
    out.push_str(
        "<nav id=\"links\" aria-label=\"Experiments\">\n<a href=\"#\">wirespeed lab</a>\n",
    );
    for ended in &all.ended {
        let _ = writeln!(out, "<a href=\"#{0}\">{0}</a>", ended.experiment.name);
    }
    out.push_str("</nav>\n");
}

/// What the figures mean, how they were made, and the finding of each experiment.
fn header(all: &All, out: &mut String) {
    let _ = write!(
        out,
        "<header>\n<h1>wirespeed lab</h1>\n<p class=\"quiet\">{}</p>\n",
        escaped(&all.date),
    );
    let sentences = opening::sentences(all);
    if !sentences.is_empty() {
        out.push_str("<ol class=\"opening\">\n");
        for sentence in sentences {
            let _ = writeln!(
                out,
                "<li>{} <a href=\"#{1}\">{1}</a></li>",
                prose(&sentence.text),
                sentence.experiment
            );
        }
        out.push_str("</ol>\n");
    }
    remarks(all, out);
    out.push_str(
        "<table class=\"contents\">\n<thead><tr><th>experiment</th><th>finding</th>\
         <th class=\"number\">rows</th><th class=\"number\">time</th></tr></thead>\n<tbody>\n",
    );
    for ended in &all.ended {
        let (rows, measured) = ended.rows();
        let of = if rows == measured { String::new() } else { format!(" of {rows}") };
        let status = match ended.status() {
            "done" => String::new(),
            status => format!(" <br><span class=\"{}\">{status}</span>", mark(ended)),
        };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#{0}\">{0}</a>{status}</td><td>{1}</td>\
             <td class=\"number\">{measured}{of}</td><td class=\"number\">{2:.1} s</td></tr>",
            ended.experiment.name,
            prose(&ended.finding()),
            ended.seconds()
        );
    }
    out.push_str("</tbody>\n</table>\n</header>\n");
}

/// How the run was made, and warnings about its figures, once for the whole page.
fn remarks(all: &All, out: &mut String) {
    let _ = writeln!(out, "<p class=\"quiet\">{}.</p>", escaped(&all.line()));
    if let Some(warning) = all.machine.warning() {
        let _ = writeln!(
            out,
            "<p class=\"warning\"><strong>{}</strong> It matters to the experiments that are \
             marked <span class=\"time\">real time</span>: take differences smaller than that for \
             noise, and repeat the run on a quiet machine before you rely on it.</p>",
            escaped(&warning),
        );
    }
    if all.machine.build != "optimised" {
        let _ = writeln!(
            out,
            "<p class=\"warning\"><strong>A build {}.</strong> It is slower than an optimised one: \
             build it with <code>--profile bench</code>.</p>",
            all.machine.build,
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
}

/// Sentences as HTML: text between backquotes becomes `<code>`, and long numbers get commas.
fn prose(text: &str) -> String {
    let word = |word: &str| {
        let core = word.trim_matches([',', '.', ';', ':', '(', ')']);
        let at = word.find(core).unwrap_or(0);
        [&word[..at], &grouped(core), &word[at + core.len()..]].concat()
    };
    let words = |part: &str| part.split(' ').map(word).collect::<Vec<_>>().join(" ");
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => escaped(&words(part)),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    parts.collect()
}

/// The CSS class of a status.
fn mark(ended: &Ended) -> &'static str {
    match ended.status() {
        "done" => "good",
        "failed" => "bad",
        _ => "quiet",
    }
}

/// The section of an experiment. With `marks_real` it has a mark if its figures are in real time.
fn section(ended: &Ended, marks_real: bool, out: &mut String) {
    let experiment = ended.experiment;
    let name = experiment.name;
    let time = match marks_real && !noise::is_virtual(name) {
        true => " <span class=\"time\">real time</span>",
        false => "",
    };
    let _ = write!(
        out,
        "<section id=\"{name}\">\n<p class=\"name\"><strong>{name}</strong> \
         <span class=\"{}\">{}</span>{time}</p>\n<h2>{}</h2>\n",
        mark(ended),
        ended.status(),
        escaped(experiment.question)
    );
    let says = ended.says();
    if !says.is_empty() {
        let _ = writeln!(out, "<p class=\"shows\">{}</p>", prose(&says.join(" ")));
    }
    if let End::Done(done) = &ended.end {
        let report = &done.0;
        figure(name, report, out);
        rows(report, out);
        notes(report.notes.lines(), out);
    }
    let _ = write!(
        out,
        "<p class=\"made\"><code>{}</code> <span class=\"quiet\">{:.1} s</span></p>\n</section>\n",
        escaped(&ended.command),
        ended.seconds()
    );
}

/// The most notes that are shown unfolded.
const NOTES: usize = 4;

fn notes(lines: &[String], out: &mut String) {
    if lines.is_empty() {
        return;
    }
    let folded = lines.len() > NOTES;
    if folded {
        let _ = writeln!(out, "<details class=\"more\"><summary>{} notes</summary>", lines.len());
    }
    out.push_str("<ul class=\"notes\">\n");
    for note in lines {
        let _ = writeln!(out, "<li>{}</li>", prose(note));
    }
    out.push_str(if folded { "</ul></details>\n" } else { "</ul>\n" });
}

/// The element that the script draws a plot into.
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

/// The table that the plot is made of, unfolded if there is no plot.
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
        let _ = write!(out, "<th{}>{}", class(column.format), escaped(column.head));
        if !column.unit.is_empty() && column.unit != column.head {
            let _ = write!(out, "<small>{}</small>", escaped(column.unit));
        }
        out.push_str("</th>");
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
            let text = if column.format == Format::Text { text } else { grouped(&text) };
            let _ = write!(out, "<td{}>{}</td>", class(column.format), escaped(&text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div></details>\n");
}
