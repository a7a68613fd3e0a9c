//! Measures what the device adds to the cost of the system call: frames to and from a TAP by plain
//! `writev` and `readv`, and through [`Tap`], in turn on one thread.
//!
//! As root, in a network namespace of its own: `cargo build --release -p wirespeed-device --example
//! tap_raw`, then `unshare -n taskset -c 1 target/release/examples/tap_raw`. Times are CPU time of
//! the thread, user and system. The kernel copies sent frames and then drops them, because they are
//! for another station. Compare the two values of a row; the absolute figures say little.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("TAP is a device of Linux");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{IoSlice, IoSliceMut};
    use std::net::UdpSocket;

    use base::Cidr;
    use mbuf::{Flags, Mbuf, Pool};
    use rustix::io::{readv, writev};
    use rustix::time::{ClockId, clock_gettime};
    use wirespeed_device::tap::{Config, Setup, Tap};
    use wirespeed_device::{Burst, Device};

    const ROUNDS: usize = 15;
    /// Fewer frames than a TAP's queue holds.
    const WAITING: usize = 256;

    fn cpu_ns() -> i64 {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// Prints the medians of both ways in ns per frame. Each call handles `count` frames.
    fn compare(
        what: &str,
        count: usize,
        mut raw: impl FnMut() -> i64,
        mut ours: impl FnMut() -> i64,
    ) {
        let (mut raws, mut ourss, mut added) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (a, b) = (raw() as f64 / count as f64, ours() as f64 / count as f64);
            raws.push(a);
            ourss.push(b);
            added.push(b - a);
        }
        let (raw, ours, added) = (median(raws), median(ourss), median(added));
        println!("{what}: raw {raw:.0} ns, device {ours:.0} ns, in pairs {added:+.0} ns");
    }

    /// A frame for another station, with the TCP header fields that the kernel reads.
    fn frame(pool: &mut Pool, len: usize, segment_size: u16) -> Option<Mbuf> {
        let mut bytes = vec![0; len];
        bytes[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes[14] = 0x45;
        bytes[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
        bytes[23] = 6;
        bytes[46] = 5 << 4;
        let mut frame = pool.copy_of(&bytes)?;
        frame.set(Flags::CSUM_PARTIAL);
        frame.set_csum(34);
        frame.set_segment_size(segment_size);
        Some(frame)
    }

    fn sending(tap: &mut Tap, pool: &mut Pool, what: &str, len: usize, size: u16) {
        const FRAMES: usize = 2_048;
        let fd = tap.as_fd().and_then(|fd| fd.try_clone_to_owned().ok());
        let (Some(fd), Some(mut one)) = (fd, frame(pool, len, size)) else { return };
        let gso = if size > 0 { 1 } else { 0 };
        let [s0, s1] = size.to_ne_bytes();
        let Some(mut again) = pool.share(&mut one) else { return };
        let header = [1, gso, 54, 0, s0, s1, 34, 0, 16, 0];
        let raw = || {
            let start = cpu_ns();
            for _ in 0..FRAMES {
                let pieces = [IoSlice::new(&header), IoSlice::new(one.as_slice())];
                assert_eq!(writev(&fd, &pieces), Ok(10 + len));
            }
            cpu_ns() - start
        };
        let ours = || {
            let mut spent = 0;
            for _ in 0..FRAMES / 32 {
                // These are the same bytes as in the raw call, so they are as hot in the cache.
                let mut burst: Burst = (0..32).filter_map(|_| pool.share(&mut again)).collect();
                let start = cpu_ns();
                assert_eq!(tap.tx_burst(pool, &mut burst), 32);
                spent += cpu_ns() - start;
            }
            spent
        };
        compare(what, FRAMES, raw, ours);
    }

    fn receiving(tap: &mut Tap, pool: &mut Pool, socket: &UdpSocket) -> std::io::Result<()> {
        let fd = tap.as_fd().ok_or(std::io::ErrorKind::NotFound)?.try_clone_to_owned()?;
        let fill = || (0..WAITING).for_each(|_| drop(socket.send(&[7; 1400])));
        let raw = || {
            fill();
            let (mut header, mut bytes) = ([0; 10], [0; 2048]);
            let start = cpu_ns();
            let mut pieces = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut bytes)];
            while readv(&fd, &mut pieces).is_ok() {}
            cpu_ns() - start
        };
        let ours = || {
            fill();
            let mut burst = Burst::new();
            let start = cpu_ns();
            while tap.rx_burst(pool, &mut burst) > 0 {
                burst.drain(..).for_each(|frame| pool.free(frame));
            }
            cpu_ns() - start
        };
        compare("receive 1,442 bytes", WAITING, raw, ours);
        Ok(())
    }

    pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let mut tap = Tap::open(&Config::default())?;
        let addresses = vec!["192.0.2.1/24".parse::<Cidr>()?];
        tap.configure(&Setup { addresses, up: true, ..Setup::default() })?;
        let mut pool = Pool::new(64 << 20);
        sending(&mut tap, &mut pool, "send 64 KB super-segments", 65_000, 1_400);
        sending(&mut tap, &mut pool, "send 1,514 bytes", 1_514, 0);
        // The directed broadcast address needs no neighbour.
        let socket = UdpSocket::bind("192.0.2.1:0")?;
        socket.set_broadcast(true)?;
        socket.connect("192.0.2.255:9")?;
        receiving(&mut tap, &mut pool, &socket)?;
        Ok(())
    }
}
