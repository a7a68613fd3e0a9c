//! The sentences that open the page: what the figures mean for somebody who pays for a network.
//!
//! Called by: `page`. Each sentence is made of the figures of one experiment and links to it. An
//! experiment that was not run, or has no figures, has no sentence; the next one takes its place.

use super::All;
use crate::figures::{Figure, Figures, ends};

/// A sentence, and the experiment that it is about.
pub(super) struct Sentence {
    pub(super) experiment: &'static str,
    pub(super) text: String,
}

/// How many sentences there are at most.
pub(super) const SENTENCES: usize = 5;

type Says = fn(&Figures<'_>) -> Option<String>;

/// The experiments that have a sentence, the most useful first.
const ALL: [(&str, Says); 7] = [
    ("wan", line),
    ("pps", core),
    ("forward", router),
    ("livelock", overload),
    ("explain", cause),
    ("fair", sharing),
    ("mitigation", interrupts),
];

/// The sentences of a run.
pub(super) fn sentences(all: &All) -> Vec<Sentence> {
    let said = ALL.iter().filter_map(|(name, says)| {
        let ended = all.ended.iter().find(|ended| ended.experiment.name == *name)?;
        let report = ended.report()?;
        let text = says(&Figures::of(&report.columns, &report.rows))?;
        Some(Sentence { experiment: ended.experiment.name, text })
    });
    said.take(SENTENCES).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A number in millions: one decimal below ten millions, else none.
fn millions(number: f64) -> String {
    let millions = number / 1e6;
    format!("{millions:.*}", if millions < 10.0 { 1 } else { 0 })
}

/// `1.0 to 2.5`, or just `1.0` if both texts are the same.
fn range(low: &str, high: &str) -> String {
    if low == high { low.to_owned() } else { format!("{low} to {high}") }
}

/// The congestion control that most senders use.
const USUAL: &str = "cubic";

/// The path on which another congestion control gains most over the usual one: how much of it each
/// uses.
fn line(figures: &Figures<'_>) -> Option<String> {
    let share = |row: &Figure<'_>| row.number("share");
    let usual = figures.rows().filter(|row| row.text("cc") == USUAL);
    let beside = usual.filter_map(|usual| {
        let alike = figures.rows().filter(|row| {
            row.text("path") == usual.text("path")
                && row.text("impairment") == usual.text("impairment")
        });
        let [_, (most, best)] = ends(alike, "share")?;
        Some((most, best, share(&usual)?))
    });
    let (most, best, usual) = beside.max_by(|a, b| (a.0 - a.2).total_cmp(&(b.0 - b.2)))?;
    let path: Vec<&str> = best.text("path").split(", ").take(2).collect();
    let (path, wrong) = (path.join(", "), best.text("impairment"));
    Some(match most - usual < 0.05 {
        true => format!(
            "Every line that was tried is used by {USUAL} as well as by any other congestion \
             control: the least is {}.",
            percent(usual)
        ),
        false => format!(
            "Of a line of {path}, with {wrong}, a transfer with {} uses {}, and one with {USUAL}, \
             the usual choice, {}: the sender's congestion control decides how much of the line is \
             used.",
            best.text("cc"),
            percent(most),
            percent(usual)
        ),
    })
}

/// How much one processor core carries over TCP.
fn core(figures: &Figures<'_>) -> Option<String> {
    let of = figures.rows().filter(|row| row.text("protocol") == "TCP");
    let [_, (gbps, row)] = ends(of, "gbps")?;
    Some(format!(
        "One processor core carries {gbps:.1} Gb/s over TCP from one program to another in \
         memory, the work of both ends included, in packets of {:.0} bytes.",
        row.number("payload")?
    ))
}

/// How much a core of the router forwards, and how much the kernel forwards.
fn router(figures: &Figures<'_>) -> Option<String> {
    let of = |part: &str| {
        let rows = figures.rows().filter(|row| row.text("over").contains(part));
        let [(low, _), (high, _)] = ends(rows, "pps")?;
        Some(range(&millions(low), &millions(high)))
    };
    let mut said = format!(
        "One core of the router forwards {} million packets a second in memory",
        of("mem to mem")?
    );
    if let Some(veths) = of("AF_XDP") {
        said += &format!(", and {veths} million between two virtual links of the kernel");
    }
    if let Some(kernel) = of("the kernel") {
        said += &format!("; the kernel itself forwards {kernel} million between two such links");
    }
    Some(said + ".")
}

/// How an overload affects a receiver.
fn overload(figures: &Figures<'_>) -> Option<String> {
    let [_, (times, row)] = ends(figures.rows(), "offered")?;
    let kept = row.number("of_peak")?;
    let so = if kept >= 0.5 { "slows it and does not stop it" } else { "nearly stops it" };
    Some(format!(
        "Offered {times:.0} times what it can take, a receiver still delivers {} of its best \
         rate: an overload {so}.",
        percent(kept)
    ))
}

/// How often the cause of a slow connection is found.
fn cause(figures: &Figures<'_>) -> Option<String> {
    let sum = |key| figures.rows().filter_map(|row| row.number(key)).sum::<f64>();
    let (right, draws) = (sum("right"), sum("draws"));
    (draws > 0.0).then(|| {
        format!(
            "`wirespeed explain` says why a connection is slow: it named the cause of {right:.0} \
             of {draws:.0} connections that were slowed down on purpose."
        )
    })
}

/// How two transfers share a line.
fn sharing(figures: &Figures<'_>) -> Option<String> {
    let [(low, _), (high, _)] = ends(figures.rows(), "share")?;
    let [_, (uneven, _)] = ends(figures.rows(), "imbalance")?;
    Some(format!(
        "Two transfers that share a line use {} of it together, and the larger gets at most \
         {uneven:.1} times what the smaller gets.",
        range(&percent(low), &percent(high))
    ))
}

/// How much processor time interrupt mitigation saves.
fn interrupts(figures: &Figures<'_>) -> Option<String> {
    let bulk = figures.rows().filter(|row| row.text("what").starts_with("bulk"));
    let bulk = bulk.filter(|row| row.number("busy_percent").is_some());
    let [(_, each), (_, gathered)] = ends(bulk, "level")?;
    Some(format!(
        "For the same transfer the receiver's processor is busy {:.0} % of the time if each frame \
         interrupts it, and {:.0} % if frames are gathered.",
        each.number("busy_percent")?,
        gathered.number("busy_percent")?
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::{Column, Format, column};

    fn said(says: Says, keys: &[&'static str], rows: &[Vec<Value>]) -> Option<String> {
        let columns: Vec<Column> =
            keys.iter().map(|key| column(key, "", "", Format::Text)).collect();
        says(&Figures::of(&columns, rows))
    }

    #[test]
    fn the_line_is_that_on_which_the_usual_control_loses_most() {
        let keys = ["path", "impairment", "cc", "share"];
        let row = |wrong: &str, cc: &str, share: f64| {
            vec![json!("1 Gb/s, 20 ms round trip, queue"), json!(wrong), json!(cc), json!(share)]
        };
        let mut rows = vec![row("nothing wrong", "cubic", 0.99), row("nothing wrong", "bbr", 0.97)];
        let alike = said(line, &keys, &rows).expect("figures");
        assert!(alike.contains("the least is 99 %"), "{alike}");
        rows.extend([row("1 % lost", "cubic", 0.08), row("1 % lost", "bbr", 0.92)]);
        let apart = said(line, &keys, &rows).expect("figures");
        let expected = "Of a line of 1 Gb/s, 20 ms round trip, with 1 % lost, a transfer with bbr \
                        uses 92 %, and one with cubic, the usual choice, 8 %:";
        assert!(apart.starts_with(expected), "{apart}");
    }

    #[test]
    fn an_overload_that_stops_a_receiver_is_not_praised() {
        let keys = ["offered", "of_peak"];
        let of = |kept: f64| {
            said(overload, &keys, &[vec![json!(1.0), json!(1.0)], vec![json!(10.0), json!(kept)]])
        };
        assert!(of(0.8).is_some_and(|text| text.contains("80 %") && text.contains("not stop it")));
        assert!(of(0.1).is_some_and(|text| text.contains("10 %") && text.contains("nearly stops")));
    }

    #[test]
    fn what_was_not_measured_is_not_spoken_of() {
        let keys = ["over", "pps", "protocol", "gbps", "right", "draws", "share", "offered"];
        let nothing: Vec<Value> = keys.iter().map(|_| Value::Null).collect();
        for (name, says) in ALL {
            assert_eq!(said(says, &keys, &[]), None, "{name}");
            assert_eq!(said(says, &keys, std::slice::from_ref(&nothing)), None, "{name}");
        }
        let rows = [
            vec![json!("ours, mem to mem"), json!(30e6)],
            vec![json!("the kernel between two veths"), Value::Null],
        ];
        let router = said(router, &["over", "pps"], &rows).expect("a figure");
        assert!(router.contains("30 million") && !router.contains("kernel"), "{router}");
    }
}
