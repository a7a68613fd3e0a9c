//! The rows of bench `tcp`: the table of the issue about bad networks, word for word. Called by
//! `main.rs`. They run in virtual time in the simulator (`sim`), with the stack's default settings;
//! only the last row depends on the machine. `paths` has rows of goodput, `situations` those with
//! one scripted event, `response` the expectation of RFC 9438.

mod counts;
pub(crate) mod paths;
mod response;
mod situations;

use crate::harness::{Better, Spec, spec};

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec("100 Mb/s 100 ms 1 BDP queue CUBIC", Higher, 0.95, 0.985, "x", |b| {
            paths::share(b, &paths::path(100, 100, 1.0, "cubic"))
        }),
        spec("200 Mb/s 100 ms 0.25 BDP queue CUBIC", Higher, 0.82, 0.92, "x", |b| {
            paths::share(b, &paths::path(200, 100, 0.25, "cubic"))
        }),
        spec("200 Mb/s 100 ms 0.25 BDP queue BBR", Higher, 0.85, 0.93, "x", |b| {
            paths::share(b, &paths::path(200, 100, 0.25, "bbr"))
        }),
        spec("1 Gb/s 50 ms 1 BDP queue CUBIC", Higher, 0.93, 0.97, "x", |b| {
            paths::share(b, &paths::path(1_000, 50, 1.0, "cubic").slow())
        }),
        spec("10 Gb/s 20 ms 1 BDP queue CUBIC, 15 s, 3 seeds", Higher, 0.80, 0.90, "x", |b| {
            paths::share(b, &paths::path(10_000, 20, 1.0, "cubic").seconds(0, 15).seeds(3).slow())
        }),
        spec(
            "100 Mb/s 100 ms, 1 percent of packets 10 ms late, CUBIC",
            Higher,
            0.80,
            0.95,
            "x",
            |b| paths::share(b, &paths::path(100, 100, 1.0, "cubic").late_ms(10)),
        ),
        spec(
            "100 Mb/s 100 ms, 1 percent of packets 40 ms late, CUBIC",
            Higher,
            0.68,
            0.90,
            "x",
            |b| paths::share(b, &paths::path(100, 100, 1.0, "cubic").late_ms(40)),
        ),
        spec(
            "100 Mb/s 100 ms, 1 percent of packets 10 ms late, BBR",
            Higher,
            0.93,
            0.97,
            "x",
            |b| paths::share(b, &paths::path(100, 100, 1.0, "bbr").late_ms(10)),
        ),
        spec(
            "loss 0.01 percent CUBIC, last 240 of 300 s / RFC 9438 response function",
            Higher,
            1.0,
            1.25,
            "x",
            |b| paths::against_response(b, 1e-4),
        ),
        spec(
            "loss 0.1 percent CUBIC, last 240 of 300 s / RFC 9438 response function",
            Higher,
            1.0,
            1.15,
            "x",
            |b| paths::against_response(b, 1e-3),
        ),
        spec(
            "loss 1 percent CUBIC, last 240 of 300 s / RFC 9438 response function",
            Higher,
            0.95,
            1.05,
            "x",
            |b| paths::against_response(b, 1e-2),
        ),
        spec("loss 0.01 percent BBR", Higher, 0.92, 0.96, "x", |b| {
            paths::share(b, &paths::path(100, 100, 1.0, "bbr").loss(1e-4))
        }),
        spec("loss 0.1 percent BBR", Higher, 0.90, 0.95, "x", |b| {
            paths::share(b, &paths::path(100, 100, 1.0, "bbr").loss(1e-3))
        }),
        spec("loss 1 percent BBR", Higher, 0.82, 0.90, "x", |b| {
            paths::share(b, &paths::path(100, 100, 1.0, "bbr").loss(1e-2))
        }),
        spec("20 Mb/s 40 ms 150 KB queue, 4 flows CUBIC, total", Higher, 0.96, 0.99, "x", |b| {
            paths::share(b, &paths::four_flows())
        }),
        spec(
            "20 Mb/s 40 ms 150 KB queue, 4 flows CUBIC, Jain's index over the last 40 s",
            Higher,
            0.93,
            0.98,
            "x",
            |b| paths::fairness(b, &paths::four_flows().seconds(20, 60)),
        ),
        spec(
            "last segment of a 20 KB reply lost, 40 ms, warm connection: completion less the \
             peer's max ACK delay, in RTT",
            Lower,
            4.3,
            4.0,
            "RTT",
            situations::lost_tail,
        ),
        spec(
            "peer's window shut 5 s, then opened: resume time in RTT",
            Lower,
            1.1,
            1.0,
            "RTT",
            situations::window_opened,
        ),
        spec(
            "peer's window opened, update lost: resume time in probe intervals",
            Lower,
            1.1,
            1.0,
            "intervals",
            situations::update_lost,
        ),
        spec(
            "instructions per received ACK, 100,000 segments outstanding / 100",
            Lower,
            1.2,
            1.05,
            "x",
            |_| counts::ratio("ack"),
        ),
        spec(
            "instructions per SACK-bearing ACK in recovery, 100,000 outstanding / 100",
            Lower,
            3.0,
            1.5,
            "x",
            |_| counts::ratio("sack"),
        ),
        spec(
            "simulated minute of 200 Mb/s 100 ms, seconds",
            Lower,
            3.0,
            1.0,
            "s",
            situations::simulated_minute,
        ),
    ]
};
