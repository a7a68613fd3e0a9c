//! t
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let t = std::time::Instant::now();
    if a.len() == 1 {
        let r = wirespeed_sim::run::replay(a[0], 60, None);
        for p in &r.plan { println!("{p}"); }
        for p in &r.rows { println!("{p}"); }
        println!("{:?}", r.verdict);
        return;
    }
    let c = wirespeed_sim::run::Campaign { first: a[0], seeds: a[1], shard: (0,1), jobs: 1 };
    let f = wirespeed_sim::run::campaign(&c, |v| if v.failure.is_some() || t.elapsed().as_secs() > 100 {println!("{:?}", v)});
    println!("{} failed {:?}", f.len(), t.elapsed());
}
