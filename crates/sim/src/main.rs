fn main() {
    let mut p = wirespeed_sim::goodput::Goodput::new(100_000_000, base::Duration::from_millis(50));
    p.buffer_bytes = Some(8<<20);
    let t = std::time::Instant::now();
    println!("{:?}", wirespeed_sim::goodput::measure(&p));
    println!("{:?}", t.elapsed());
}
