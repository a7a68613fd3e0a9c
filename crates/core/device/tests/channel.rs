//! Channels: order, limits, either end dropped, waiting threads.

use std::thread;
use std::time::Duration;

use base::DropReason;
use mbuf::Pool;
use wirespeed_device::channel::{Config, RecvError, SendError, pair};
use wirespeed_device::{Burst, Device};

fn pool() -> Pool {
    Pool::new(4 << 20)
}

#[test]
fn bytes_go_in_and_out_in_order() {
    let mut pool = pool();
    let (mut device, end) = pair(&Config::default());
    for n in 0..100 {
        end.try_send(&[n; 60]).expect("room");
    }
    let mut burst = Burst::new();
    let (mut next, mut back) = (0..100u8, 0..100u8);
    while device.rx_ready() {
        device.rx_burst(&mut pool, &mut burst);
        assert!(
            burst.iter().all(|frame| Some(frame.as_slice())
                == next.next().map(|n| [n; 60]).as_ref().map(|b| &b[..]))
        );
        device.tx_burst(&mut pool, &mut burst);
        assert!(burst.is_empty());
    }
    let mut buffer = [0; 60];
    while end.try_recv(&mut buffer) == Ok(60) {
        assert_eq!(Some(buffer[0]), back.next());
    }
    assert_eq!((next.next(), back.next(), pool.outstanding()), (None, None, 0));
}

#[test]
fn both_directions_are_bounded_and_push_back() {
    let mut pool = pool();
    let (mut device, end) = pair(&Config { depth: 3, ..Config::default() });
    let results: Vec<_> = (0..4).map(|n| end.try_send(&[n])).collect();
    assert_eq!(results, [Ok(()), Ok(()), Ok(()), Err(SendError::Full)]);
    let mut burst = Burst::new();
    (0..5u8).for_each(|n| burst.push(pool.copy_of(&[n]).expect("room")));
    assert_eq!(device.tx_burst(&mut pool, &mut burst), 3);
    assert!(!device.tx_ready() && burst[0].as_slice() == [3]);
    let bell = device.waker();
    bell.arm();
    let mut buffer = [0; 8];
    assert_eq!(end.try_recv(&mut buffer), Ok(1));
    assert_eq!(bell.wakeups().0, 1, "a sleeping driver is woken for room");
    assert!(device.tx_ready());
    assert_eq!(end.try_recv(&mut []), Err(RecvError::TooSmall(1)));
    assert_eq!((end.try_recv(&mut buffer), buffer[0]), (Ok(1), 1), "it stayed");
}

#[test]
fn what_is_too_long_or_too_late_is_said() {
    let mut pool = pool();
    let (mut device, end) = pair(&Config::default());
    let longest = device.limits().max_frame;
    assert_eq!(end.try_send(&vec![0; longest + 1]), Err(SendError::TooLong(longest)));
    end.send(&vec![0; longest]).expect("it fits");
    let mut burst = Burst::new();
    burst.push(pool.copy_of(&vec![0; longest + 1]).expect("room"));
    burst.push(pool.copy_of(b"last").expect("room"));
    assert_eq!(device.tx_burst(&mut pool, &mut burst), 2);
    let drops = |device: &dyn Device, reason| device.drops().map_or(0, |drops| drops.of(reason));
    assert_eq!(drops(&device, DropReason::DeviceFrameTooBig), 1);
    assert_eq!(device.rx_burst(&mut Pool::new(0), &mut burst), 0);
    assert_eq!(drops(&device, DropReason::MbufExhausted), 1);
    drop(device);
    let mut buffer = [0; 8];
    assert_eq!(end.recv(&mut buffer), Ok(4), "frames sent before can still be received");
    assert_eq!(end.recv(&mut buffer), Err(RecvError::Closed));
    assert_eq!(end.send(b"more"), Err(SendError::Closed));

    let (mut device, end) = pair(&Config::default());
    drop(end);
    burst.push(pool.copy_of(b"nobody").expect("room"));
    assert!(!device.link_up() && device.tx_ready());
    assert_eq!(device.tx_burst(&mut pool, &mut burst), 1);
    assert_eq!(drops(&device, DropReason::DeviceLinkDown), 1);
}

#[test]
fn threads_wait_on_both_sides_and_no_frame_is_lost() {
    const FRAMES: u32 = if cfg!(wirespeed_unpooled) { 1_000 } else { 20_000 };
    let (mut device, end) = pair(&Config { depth: 8, ..Config::default() });
    let bell = device.waker();
    thread::scope(|scope| {
        let (end, sender) = (&end, &end);
        scope.spawn(move || (0..FRAMES).for_each(|n| sender.send(&n.to_be_bytes()).expect("up")));
        scope.spawn(move || {
            let mut buffer = [0; 4];
            for n in 0..FRAMES {
                assert_eq!(end.recv(&mut buffer), Ok(4));
                assert_eq!(u32::from_be_bytes(buffer), n);
            }
            let empty = end.recv_timeout(&mut buffer, Duration::from_millis(1));
            assert_eq!(empty, Err(RecvError::Empty));
        });
        let (mut pool, mut burst, mut echoed) = (pool(), Burst::new(), 0);
        while echoed < FRAMES as usize {
            device.rx_burst(&mut pool, &mut burst);
            echoed += device.tx_burst(&mut pool, &mut burst);
            bell.arm();
            if device.rx_ready() || (!burst.is_empty() && device.tx_ready()) {
                bell.disarm();
            } else if echoed < FRAMES as usize {
                bell.sleep(None);
            }
        }
    });
}

#[test]
#[should_panic(expected = "carries nothing")]
fn a_channel_of_no_frames_is_refused() {
    drop(pair(&Config { depth: 0, ..Config::default() }));
}
