use sim::units::rate;

use super::*;

#[test]
fn what_has_two_parts() {
    assert_eq!(late("1%,10"), Ok((0.01, Duration::from_millis(10))));
    assert_eq!(late("0.5,2s"), Ok((0.5, Duration::from_secs(2))));
    assert_eq!(burst("0.1%,20%"), Ok((0.001, 0.2)));
    assert!(burst("0.1,0").is_err(), "a burst without an end");
    assert!(late("0.1").is_err() && burst("0.1").is_err());
}

#[test]
fn one_direction_or_both_and_the_later_counts() {
    let parse = one_way(rate);
    let said: Vec<OneWay<u64>> =
        ["100M", "ba:10M"].map(|text| parse(text).expect("a rate")).to_vec();
    assert_eq!((of(&said, 0), of(&said, 1)), (Some(100_000_000), Some(10_000_000)));
    let said: Vec<OneWay<u64>> =
        ["ba:10M", "100M"].map(|text| parse(text).expect("a rate")).to_vec();
    assert_eq!((of(&said, 0), of(&said, 1)), (Some(100_000_000), Some(100_000_000)));
    assert_eq!(of::<u64>(&[], 0), None);
    assert!(parse("xy:10M").is_err_and(|e| e.contains("ab: or ba:")));
}

#[test]
fn an_mtu_may_come_later() {
    let of_ethernet = (Mtu::new(1500).expect("an MTU"), Duration::ZERO);
    assert_eq!(mtu("1500"), Ok(of_ethernet));
    assert_eq!(mtu("1280@5s").map(|(_, from)| from), Ok(Duration::from_secs(5)));
    assert!(mtu("67").is_err() && mtu("65536").is_err() && mtu("1500@5").is_err());
}
