//! A load that the sender could not offer is not reported as offered.

use serde_json::json;

use super::*;

fn step(load: f64, offered: u64, delivered: u64) -> Step {
    let outcome = Outcome { offered, delivered, seconds: 1.0, ..Outcome::default() };
    Step { load, outcomes: vec![outcome] }
}

#[test]
fn what_was_offered_stands_beside_the_load_and_a_note_says_where_it_is_less() {
    let options = Options { work: 100 };
    let came = [step(1.0, 1_000, 1_000), step(10.0, 10_000, 990)];
    let report = report(&options, 1.0, &came);
    assert_eq!(report.rows[1][..2], [json!(10.0), json!(10.0)]);
    let said = [&report.shows, report.notes.lines()].concat().join("\n");
    assert!(said.contains("Offered 10.0 times what it can take"), "{said}");
    assert!(said.contains("99 % of its peak"), "{said}");
    assert!(!said.contains("Less was offered"), "{said}");
    let short = [step(1.0, 1_000, 1_000), step(10.0, 3_000, 990)];
    let report = super::report(&options, 1.0, &short);
    assert_eq!(report.rows[1][..2], [json!(10.0), json!(3.0)]);
    let said = [&report.shows, report.notes.lines()].concat().join("\n");
    assert!(said.contains("Offered 3.0 times what it can take"), "{said}");
    assert!(said.contains("the peak: 3.0 for 10."), "{said}");
}

#[test]
fn what_is_lost_at_the_highest_load_is_said_with_where() {
    let mut came = [step(1.0, 1_000, 1_000), step(10.0, 10_000, 900)];
    let said = |came: &[Step]| shows(came, peak_pps(came)).join(" ");
    assert!(said(&came).contains("Nothing was lost"), "{}", said(&came));
    came[1].outcomes[0].lost_in_ring = 3_000;
    came[1].outcomes[0].lost_later = 1_000;
    assert!(said(&came).contains("75 % is lost in the interface's ring"), "{}", said(&came));
    assert_eq!(shows(&[Step { load: 1.0, outcomes: Vec::new() }], 0.0), [] as [String; 0]);
}
