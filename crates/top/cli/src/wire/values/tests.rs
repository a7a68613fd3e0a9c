use link::units::{late, rate};

use super::*;

#[test]
fn a_value_may_be_for_one_direction() {
    let value = (0.01, Duration::from_millis(10));
    assert_eq!(one_way(late)("1%:10ms"), Ok(OneWay { direction: None, value }));
    let value = (0.5, Duration::from_secs(2));
    assert_eq!(one_way(late)("ba:50%:2s"), Ok(OneWay { direction: Some(1), value }));
}

#[test]
fn one_direction_or_both_but_each_once() {
    let parse = one_way(rate);
    let said = |texts: &[&str]| -> Vec<OneWay<u64>> {
        texts.iter().map(|text| parse(text).expect("a rate")).collect()
    };
    let both = said(&["100Mbit"]);
    assert_eq!((of(&both, 0), of(&both, 1)), (Some(100_000_000), Some(100_000_000)));
    let each = said(&["ba:10Mbit", "ab:100Mbit"]);
    assert_eq!((of(&each, 0), of(&each, 1)), (Some(100_000_000), Some(10_000_000)));
    assert!(once("--rate", &both).is_ok() && once("--rate", &each).is_ok());
    assert_eq!(of::<u64>(&[], 0), None);
    for twice in [["1M", "2M"], ["1M", "ba:2M"], ["ab:1M", "2M"], ["ab:1M", "ab:1M"]] {
        assert!(once("--rate", &said(&twice)).is_err_and(|e| e.0.contains("--rate")), "{twice:?}");
    }
    assert!(parse("xy:10M").is_err_and(|e| e.contains("ab: or ba:")));
}

#[test]
fn an_mtu_is_given_once_for_a_time() {
    let parse = one_way(mtu);
    let said = |texts: [&str; 2]| texts.map(|text| parse(text).expect("an MTU"));
    let once = |texts| once_unless("--mtu", &said(texts), |(_, a), (_, b)| a != b);
    assert!(once(["1500", "1280@1s"]).is_ok());
    assert!(once(["1500", "1280"]).is_err());
}

#[test]
fn an_mtu_may_come_later() {
    let of_ethernet = (Mtu::new(1500).expect("an MTU"), Duration::ZERO);
    assert_eq!(mtu("1500"), Ok(of_ethernet));
    assert_eq!(mtu("1280@5s").map(|(_, from)| from), Ok(Duration::from_secs(5)));
    assert!(mtu("67").is_err() && mtu("65536").is_err() && mtu("1500@5").is_err());
}
