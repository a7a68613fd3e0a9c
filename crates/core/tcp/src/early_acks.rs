//! Decides now and then to delay an ACK, to see whether the send-space estimate is too low.
//!
//! Called by: output. Decision 0016.

/// The send-space estimate is the most data that the peer ever sent between two of our ACKs. If
/// every ACK is sent as soon as that much data has arrived, the estimate can never grow. So after 8
/// ACKs one is left to the delayed-ACK timer, then one after 64 more, and so on. If more data
/// arrives meanwhile, the estimate grows.
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
    /// Is the next ACK left to the timer?
    #[inline(always)]
    pub(crate) fn holds(self) -> bool {
        self.sent == self.until
    }

    /// An ACK of data was sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self) {
        if self.holds() {
            *self = EarlyAcks { sent: 0, until: self.until.saturating_mul(8) };
        } else {
            self.sent += 1;
        }
    }
}
