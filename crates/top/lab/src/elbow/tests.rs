//! The model has the elbows of 1989 and those of the remedy, at the published sizes. The fix has no
//! elbow, and our stack has none on the same wire.

use super::bsd::World;
use super::sizes::{PUBLISHED, PUBLISHED_REMEDY};
use super::*;

/// Milliseconds a call: the median of several seeds.
fn ms(library: Library, bytes: u32) -> f64 {
    let each = (1..=5).map(|seed| World::new(library, seed).calls(bytes, 100) as f64 / 1e8);
    crate::Span::of(each).expect("five").mid
}

/// A curve in virtual time, with the sizes of `--quick`.
fn curve(hosts: Hosts, transport: Transport) -> Curve {
    let case = Case { over: Over::Wire, hosts, transport };
    let mut curve = case.curve(true);
    let effort = Effort { calls: 20, averages: 1, seed: 1 };
    for point in &mut curve.points {
        wire_round(case, point, effort, 0).expect("it is measured");
    }
    curve
}

#[test]
fn the_library_as_delivered_has_the_elbows_of_1989_where_they_were() {
    // The report of 1989: from 4,045 to 4,952 and from 8,090 to 8,960 "5 to 10 times slower than
    // expected".
    for bytes in [4_045, 4_096, 4_952, 4_968, 8_041, 8_090, 8_192, 8_960, 8_964] {
        assert!(ms(Library::Delivered, bytes) > 180.0, "{bytes}");
    }
    for bytes in [4_000, 4_044, 4_969, 6_000, 8_000, 8_040, 8_965] {
        assert!(ms(Library::Delivered, bytes) < 60.0, "{bytes}");
    }
    for (bytes, published) in PUBLISHED {
        let share = ms(Library::Delivered, bytes) / published;
        assert!((0.85..1.45).contains(&share), "{bytes}: {share}");
    }
}

#[test]
fn an_elbow_is_a_delayed_ack_a_call_and_most_of_it_is_waiting() {
    let mut world = World::new(Library::Delivered, 1);
    world.calls(4_096, 100);
    let elbow = world.take_causes();
    assert!(elbow.delayed_acks > 90 && elbow.nagle_holds > 90, "{elbow:?}");
    let mut world = World::new(Library::Delivered, 1);
    world.calls(4_000, 100);
    let before = world.take_causes();
    assert!(before.delayed_acks < 10 && before.blocked_ns == 0, "{before:?}");
}

#[test]
fn the_remedy_moves_the_elbow_past_16_kb() {
    for (bytes, published) in PUBLISHED_REMEDY {
        let share = ms(Library::Remedy, bytes) / published;
        assert!((0.7..1.25).contains(&share), "{bytes}: {share}");
    }
    let step = ms(Library::Remedy, 16_400) / ms(Library::Remedy, 16_300);
    assert!(step > 1.2, "{step}");
    // With the remedy, an argument of this size needs a second write.
    assert!(ms(Library::Remedy, 24_700) > 180.0);
    assert!(ms(Library::Remedy, 24_969) < 120.0);
}

#[test]
fn the_fix_has_no_elbow() {
    let curve = curve(Hosts::Fixed, Transport::Tcp);
    let (point, ratio) = curve.worst().expect("measured");
    assert!(ratio <= ELBOW, "{point:?}: {ratio}");
    let (point, ratio) = self::curve(Hosts::Delivered, Transport::Tcp)
        .worst()
        .map_or_else(|| panic!("measured"), |(point, ratio)| (point.bytes, ratio));
    assert!(ratio > 5.0, "{point}: {ratio}");
}

#[test]
fn ours_has_no_elbow_on_the_same_wire() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let curve = curve(Hosts::Ours, transport);
        let (point, ratio) = curve.worst().expect("measured");
        assert!(ratio <= ELBOW, "{transport:?} {point:?}: {ratio}");
        assert!(curve.points.iter().all(|p| p.causes.nagle_holds == 0), "{transport:?}");
    }
}

#[test]
fn a_line_is_found_among_elbows() {
    let time = |x: u32| {
        let usual = 5.0 + 0.25 * f64::from(x);
        if x.is_multiple_of(4) { usual * 8.0 } else { usual }
    };
    let points: Vec<(f64, f64)> = (0..60).map(|x| (f64::from(x), time(x))).collect();
    let line = Line::through(&points).expect("many points");
    assert!((line.intercept - 5.0).abs() < 1e-9 && (line.slope - 0.25).abs() < 1e-9, "{line:?}");
    assert_eq!(Line::through(&points[..2]), None);
}

#[test]
fn sizes_are_on_both_sides_of_powers_of_two_and_of_full_packets() {
    let tcp = sizes(Transport::Tcp, 1_448, false);
    let has = |sizes: &[u32], wanted: &[u32]| wanted.iter().all(|w| sizes.contains(w));
    assert!(has(&tcp, &[0, 4_095, 4_096, 4_097, 8_193, 65_535, 65_536, 16_392]), "{tcp:?}");
    // 48 bytes are in front of the argument.
    assert!(has(&tcp, &[1_399, 1_400, 1_401, 2 * 1_448 - 48, 45 * 1_448 - 47]), "{tcp:?}");
    let udp = sizes(Transport::Udp, 1_480, false);
    assert!(has(&udp, &[1_427, 1_428, 1_429, 60_000]) && !udp.contains(&60_001), "{udp:?}");
    assert!(tcp.len() < 240 && udp.len() < 200, "{} {}", tcp.len(), udp.len());
}

#[test]
fn memory_is_measured_in_turns_and_counts_packets() {
    let case = Case { over: Over::Memory, hosts: Hosts::Ours, transport: Transport::Tcp };
    let mut curve = case.curve(true);
    in_memory(&mut curve, Effort { calls: 2, averages: 1, seed: 1 }, &|| false).expect("it is");
    let largest = curve.points.last().expect("sizes");
    assert!(largest.causes.segments >= 2 * 46, "{largest:?}");
    assert!(curve.points.iter().all(|point| point.ns().is_some()));
}

/// If the machine is half as fast for a while, no size becomes an elbow; a size that really takes
/// longer stays an elbow.
#[test]
fn averages_are_scaled_by_what_was_measured_beside_them() {
    let point = |averages: &[f64]| Point { averages_ns: averages.to_vec(), ..Point::default() };
    let mut points =
        [point(&[100.0, 200.0, 200.0]), point(&[100.0, 100.0, 200.0]), point(&[150.0])];
    let beside = [vec![10.0, 20.0, 20.0], vec![10.0, 10.0, 20.0], vec![10.0]];
    at_one_speed(&mut points, &beside);
    let ns: Vec<f64> = points.iter().filter_map(Point::ns).collect();
    assert_eq!(ns, [100.0, 100.0, 150.0]);
}

/// Retransmissions back off, so that they do not overload the cable.
#[test]
fn twenty_clients_on_a_cable_move_nearly_as_much_as_one() {
    let alone = shared(1, 1_024, 10, 1).expect("one client");
    let many = shared(20, 1_024, 10, 1).expect("twenty");
    assert!(alone.bytes_per_s > 900_000.0 && alone.given_up == 0, "{alone:?}");
    assert!(many.collisions > 100, "{many:?}");
    assert!(many.bytes_per_s > 0.7 * alone.bytes_per_s, "{alone:?} {many:?}");
    assert_eq!(shared(20, 1_024, 10, 1).expect("again"), many, "the same seed, the same frames");
}
