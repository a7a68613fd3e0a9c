//! When an estimate of the peer's send space is put to the test.
//!
//! Called by: output. Decision 0016.

/// An estimate of what the peer can send at most that is acted on at once can never be proved
/// wrong: a peer that sends a segment now and then is not waiting for the ACK it gets for each. So
/// one ACK in 8, then one in 64, and so on, is left to the delayed-ACK timer; if more comes
/// meanwhile, the estimate grows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlyAcks {
    sent: u16,
    until: u16,
}

impl Default for EarlyAcks {
    fn default() -> EarlyAcks {
        EarlyAcks { sent: 0, until: 8 }
    }
}

impl EarlyAcks {
    /// Is this the one to leave to the timer?
    #[inline(always)]
    pub(crate) fn holds(self) -> bool {
        self.sent == self.until
    }

    /// An ACK for data went out.
    #[inline(always)]
    pub(crate) fn sent(&mut self) {
        if self.holds() {
            *self = EarlyAcks { sent: 0, until: self.until.saturating_mul(8) };
        } else {
            self.sent += 1;
        }
    }
}
