//! Random loss after the queue, independent or in bursts (Gilbert-Elliott).
//!
//! Called by: `direction`.

use device::fault::Rng;

use crate::Loss;

/// The state of the loss model, which begins in its good state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    bad: bool,
}

impl Losses {
    /// Is the next packet lost?
    #[inline]
    pub(crate) fn takes(&mut self, loss: Loss, rng: &mut Rng) -> bool {
        match loss {
            Loss::Never => false,
            Loss::Random(probability) => rng.happens(probability),
            Loss::Burst { begin, end, good, bad } => {
                if rng.happens(if self.bad { end } else { begin }) {
                    self.bad = !self.bad;
                }
                rng.happens(if self.bad { bad } else { good })
            }
        }
    }
}
