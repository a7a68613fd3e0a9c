//! Proportional Rate Reduction, RFC 9937: during fast recovery cwnd shrinks to ssthresh in
//! proportion to the data delivered, neither in one step nor with a pause in sending.
//!
//! Called by: recovery, once for each ACK of an episode. Plain arithmetic in bytes.

/// State of one episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prr {
    /// Bytes delivered since the episode began ("prr_delivered").
    delivered: u64,
    /// Bytes in flight when the episode began ("RecoverFS").
    flight: u64,
    /// cwnd when the episode began. Recovery never exceeds it.
    most: u64,
}

/// The news of one ACK of an episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckReport {
    /// Bytes newly delivered.
    pub(crate) delivered: u32,
    /// Bytes estimated to be in the network ("pipe").
    pub(crate) pipe: u32,
    /// Bytes sent since the episode began ("prr_out").
    pub(crate) sent: u32,
    /// SND.UNA advanced and nothing more was found lost ("SafeACK").
    pub(crate) safe: bool,
}

impl Prr {
    pub(crate) const CLEAN: Prr = Prr { delivered: 0, flight: 0, most: 0 };

    /// Begin an episode with `flight` bytes in flight (without those SACKed before) and the window
    /// `cwnd`.
    pub(crate) fn begin(flight: u32, cwnd: u64) -> Prr {
        Prr { delivered: 0, flight: u64::from(flight.max(1)), most: cwnd }
    }

    /// Section 6.2: cwnd after an ACK.
    /// RFC 9937 6.2-a, 6.2-b.
    pub(crate) fn window(&mut self, report: &AckReport, ssthresh: u64, mss: u64) -> u64 {
        let (delivered, pipe, sent) =
            (u64::from(report.delivered), u64::from(report.pipe), u64::from(report.sent));
        self.delivered += delivered;
        let mut more = if pipe > ssthresh {
            (self.delivered * ssthresh).div_ceil(self.flight).saturating_sub(sent)
        } else {
            let mut more = self.delivered.saturating_sub(sent).max(delivered);
            if report.safe {
                more += mss;
            }
            more.min(ssthresh - pipe)
        };
        // RFC 9937 6.2-c.
        if sent == 0 && more == 0 {
            more = mss;
        }
        (pipe + more).min(self.most.max(mss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// A hundred segments are in flight, and the first `lost` of them are lost. There is an ACK for
    /// each of the others. Returns pipe, the bytes sent, and the segments sent for each ACK.
    fn episode(ssthresh: u64, lost: u32) -> (u32, u32, Vec<u32>) {
        let mut prr = Prr::begin(100 * MSS, 100_000);
        let (mut pipe, mut sent, mut each) = ((100 - lost) * MSS, 0, Vec::new());
        for _ in lost..100 {
            pipe -= MSS;
            let report = AckReport { delivered: MSS, pipe, sent, safe: false };
            let window = prr.window(&report, ssthresh, u64::from(MSS)) as u32;
            let now = (window - pipe) / MSS * MSS;
            pipe += now;
            sent += now;
            each.push(now / MSS);
        }
        (pipe, sent, each)
    }

    /// RFC 9937 6.2-a.
    #[test]
    fn the_window_shrinks_in_proportion_to_what_is_delivered() {
        let (pipe, sent, each) = episode(70_000, 1);
        assert!((69_000..=70_000).contains(&pipe), "{pipe} {sent}");
        // Seven segments for every ten ACKs, from the first ten on.
        for tenth in each.chunks(10).take(9) {
            assert!((6..=8).contains(&tenth.iter().sum::<u32>()), "{each:?}");
        }
    }

    /// RFC 9937 6.2-b.
    #[test]
    fn heavy_loss_sends_no_more_than_is_delivered() {
        let (pipe, sent, each) = episode(70_000, 60);
        assert!(sent <= 41 * MSS && pipe <= 41 * MSS, "{sent} {pipe}");
        assert!(each.iter().all(|&n| n <= 2), "{each:?}");
    }

    /// RFC 9937 6.2-b.
    #[test]
    fn a_safe_ack_catches_up_by_a_segment_more() {
        let mut prr = Prr::begin(10 * MSS, 10_000);
        let report = AckReport { delivered: MSS, pipe: 2 * MSS, sent: MSS, safe: true };
        assert_eq!(prr.window(&report, 7_000, 1000), 4_000);
        let report = AckReport { safe: false, ..report };
        assert_eq!(Prr::begin(10 * MSS, 10_000).window(&report, 7_000, 1000), 3_000);
    }

    /// Pipe equals ssthresh, and nothing was retransmitted yet.
    /// RFC 9937 6.2-c.
    #[test]
    fn the_first_retransmission_goes_whatever_is_on_the_way() {
        let report = AckReport { delivered: MSS, pipe: 7 * MSS, sent: 0, safe: false };
        assert_eq!(Prr::begin(10 * MSS, 10_000).window(&report, 7_000, 1000), 8_000);
        let report = AckReport { sent: MSS, ..report };
        assert_eq!(Prr::begin(10 * MSS, 10_000).window(&report, 7_000, 1000), 7_000);
    }
}
