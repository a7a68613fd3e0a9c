//! A flow is what one connection moves one way. Its figures, those of all flows of a direction
//! together, and how both are printed.
//!
//! Called by: `host.rs` and `report/memory.rs` make [`Flow`]s of what was moved; the reports print
//! them.

use serde_json::{Map, Value, json};
use wirespeed::tcp::Info;

use super::plan::{Direction, Label};
use super::progress::{Interval, line, sum_of};
use super::report::{ratio, round_trip_json};

/// The figures of a flow. Over a device one end is ours, and what only the other one knows is
/// `None`.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) label: Label,
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    /// Until the last byte arrived.
    pub(super) seconds: f64,
    /// The last statistics of the connection at the end that sends, or at ours.
    pub(super) info: Option<Info>,
    pub(super) retransmits: Option<u64>,
    pub(super) intervals: Vec<Interval>,
}

impl Flow {
    fn bytes(&self) -> u64 {
        self.received.or(self.sent).unwrap_or(0)
    }

    fn json(&self) -> Map<String, Value> {
        let Value::Object(object) = json!({
            "direction": self.label.direction,
            "bytes_sent": self.sent,
            "bytes_received": self.received,
            "seconds": self.seconds,
            "bits_per_second": ratio(self.bytes() as f64 * 8.0, self.seconds),
            "retransmits": self.retransmits,
            "intervals": self.intervals,
        }) else {
            return Map::new();
        };
        object
    }

    fn line(&self, has_both: bool) -> String {
        let whole = Interval::whole(self.seconds, self.bytes(), self.retransmits.unwrap_or(0));
        format!("{} {}", self.label.text(has_both), line(&whole, None))
    }
}

/// Flows of one direction together, if there are any.
fn sum(flows: &[Flow], direction: Direction) -> Option<Flow> {
    let mut its = flows.iter().filter(|flow| flow.label.direction == direction);
    let mut sum = its.next()?.clone();
    sum.label.stream = None;
    let add = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
    for flow in its {
        sum.sent = add(sum.sent, flow.sent);
        sum.received = add(sum.received, flow.received);
        sum.retransmits = add(sum.retransmits, flow.retransmits);
        sum.seconds = sum.seconds.max(flow.seconds);
        sum.intervals = sum_of(&[&sum.intervals, &flow.intervals]);
    }
    Some(sum)
}

/// The sums of the directions that there are.
fn sums(flows: &[Flow]) -> impl Iterator<Item = Flow> + '_ {
    [Direction::Tx, Direction::Rx].into_iter().filter_map(|direction| sum(flows, direction))
}

/// `streams`, an object for each flow, and `sum`, one for each direction.
pub(super) fn json(flows: &[Flow]) -> (Value, Value) {
    let stream = |flow: &Flow| {
        let mut object = flow.json();
        object.insert("stream".to_owned(), json!(flow.label.stream));
        object.insert("rtt".to_owned(), round_trip_json(flow.info.as_ref()));
        Value::Object(object)
    };
    let sum = sums(flows).map(|sum| {
        let name = if sum.label.direction == Direction::Tx { "tx" } else { "rx" };
        (name.to_owned(), Value::Object(sum.json()))
    });
    (flows.iter().map(stream).collect(), Value::Object(sum.collect()))
}

/// A line for each flow, and one for each direction of several; none for a single flow.
pub(super) fn text(flows: &[Flow]) -> String {
    let sums: Vec<Flow> = sums(flows).collect();
    let has_both = sums.len() > 1;
    if flows.len() < 2 {
        return String::new();
    }
    let mut t: String = flows.iter().map(|flow| flow.line(has_both) + "\n").collect();
    if flows.len() > sums.len() {
        t.extend(sums.iter().map(|sum| sum.line(has_both) + "\n"));
    }
    t
}

/// What all flows moved, interval by interval.
pub(super) fn intervals(flows: &[Flow]) -> Vec<Interval> {
    let each: Vec<&[Interval]> = flows.iter().map(|flow| flow.intervals.as_slice()).collect();
    sum_of(&each)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(stream: usize, direction: Direction, bytes: u64) -> Flow {
        let label = Label { stream: Some(stream), direction };
        let intervals = vec![Interval::whole(1.0, bytes, 1)];
        let (sent, received) = match direction {
            Direction::Tx => (Some(bytes), None),
            Direction::Rx => (None, Some(bytes)),
        };
        Flow { label, sent, received, seconds: 1.0, info: None, retransmits: Some(1), intervals }
    }

    #[test]
    fn a_direction_is_the_sum_of_its_flows() {
        let flows = [
            flow(1, Direction::Tx, 1000),
            flow(2, Direction::Tx, 500),
            flow(1, Direction::Rx, 70),
            flow(2, Direction::Rx, 7),
        ];
        let (streams, sum) = json(&flows);
        assert_eq!(streams.as_array().map(Vec::len), Some(4));
        assert_eq!((&streams[3]["stream"], &streams[3]["direction"]), (&json!(2), &json!("rx")));
        assert_eq!(sum["tx"]["bytes_sent"], 1500);
        assert_eq!(sum["tx"]["bytes_received"], Value::Null);
        assert_eq!(sum["tx"]["bits_per_second"], 12_000.0);
        assert_eq!(sum["tx"]["intervals"][0]["bytes"], 1500);
        assert_eq!(
            (&sum["rx"]["bytes_received"], &sum["rx"]["retransmits"]),
            (&json!(77), &json!(2))
        );
        assert_eq!(intervals(&flows), [Interval::whole(1.0, 1577, 4)]);
    }

    #[test]
    fn a_single_flow_has_no_line_and_sums_stand_for_several() {
        assert_eq!(text(&[flow(1, Direction::Tx, 1)]), "");
        let starts = |flows: &[Flow]| -> Vec<String> {
            text(flows).lines().map(|line| line[..9].to_owned()).collect()
        };
        let both = [flow(1, Direction::Tx, 1), flow(1, Direction::Rx, 1)];
        assert_eq!(starts(&both), ["[  1][TX]", "[  1][RX]"]);
        let two = [flow(1, Direction::Tx, 1), flow(2, Direction::Tx, 1)];
        assert_eq!(starts(&two), ["[  1]    ", "[  2]    ", "[SUM]    "]);
    }
}
