//! The first bytes of a flow, which a policy wants to see: they stay here until it is content.
//!
//! Called by: `run.rs`, while a flow has [`bit::HELLO`]. Bytes of the outside go on to the guest,
//! because in some protocols the server speaks first.

use crate::around::Around;
use crate::flow::{Flow, FlowId, Leg, bit};
use crate::gateway::Gateway;
use crate::outside::Outside;
use crate::policy::{Glance, Policy};
use crate::report::End;
use crate::tcp::run::Legs;
use crate::tcp::up;

/// Bytes that a policy sees.
const BYTES_MAX: usize = 16 * 1024;

impl<T, S> Gateway<T, S> {
    /// Show the policy what the guest has sent.
    ///
    /// # Errors
    /// The flow ends: the policy refuses it, or the guest's connection has failed.
    pub(crate) fn glance<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) -> Result<(), End> {
        let Some(flow) = self.flows.get_mut(id) else { return Ok(()) };
        let Leg::Tcp(handle) = flow.guest else { return Ok(()) };
        if !flow.has(bit::GUEST_READABLE) {
            return Ok(());
        }
        let (stack, outside, spare) = (&mut *around.stack, &mut *around.outside, &mut self.spare);
        let mut legs = Legs { stack, outside, handle, spare };
        // The last buffer may bring more than the policy sees.
        let before = up::staged_bytes(flow);
        let room = BYTES_MAX.saturating_sub(before);
        up::gather(flow, &mut legs, room + up::BUFFER_BYTES_MAX - 1)
            .map_err(|_| End::ResetByGuest)?;
        let (bytes, is_all) = first_bytes(flow);
        if !is_all && up::staged_bytes(flow) == before {
            return Ok(());
        }
        match around.policy.hello(&flow.ends, &bytes, is_all) {
            Glance::More if !is_all => Ok(()),
            Glance::More | Glance::Pass => {
                flow.clear(bit::HELLO);
                Ok(())
            }
            Glance::Refuse => {
                self.counts.refused_by_hello += 1;
                Err(End::Refused)
            }
        }
    }
}

/// What the guest has sent, and whether the policy will not see more.
fn first_bytes<T>(flow: &Flow<T>) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let Some(staged) = &flow.staged else { return (bytes, flow.has(bit::GUEST_FIN)) };
    for m in &staged.up {
        let room = BYTES_MAX - bytes.len();
        bytes.extend(m.as_slice().iter().take(room));
    }
    let is_full = bytes.len() == BYTES_MAX || staged.up.len() >= up::BUFFERS_MAX;
    (bytes, is_full || staged.urgent.is_some() || flow.has(bit::GUEST_FIN))
}
