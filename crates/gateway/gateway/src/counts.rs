//! What a gateway has done, counted: every end of a flow and every refusal has a name.
//!
//! Called by: the engine. A program that shows them reads [`crate::Gateway::counts`], and the hits
//! of the limits from [`crate::Gateway::budget`].

base::counts! {
    /// How often each event happened.
    pub struct Counts {
        /// SYNs of guests that were looked at.
        syns;
        /// SYNs that the policy refused or dropped.
        refused_by_policy;
        /// Flows that the policy refused after their first bytes.
        refused_by_hello;
        /// SYNs without an answer because of a limit; the limits' hits say which.
        unanswered;
        /// SYNs without an answer because the outside had no descriptor or memory.
        outside_full;
        /// Connects that the outside refused.
        refused;
        /// Connects that failed for another reason of the network.
        unreachable;
        /// Connects that took longer than a SYN is held.
        timed_out;
        /// Flows of guests that opened.
        opened;
        /// Flows from outside to a published port that opened.
        opened_inbound;
        /// Flows from outside that the guest refused or did not answer.
        refused_inbound;
        /// Flows whose halves both ended.
        finished;
        /// Flows that the guest reset, or whose guest vanished.
        reset_by_guest;
        /// Flows that the outside reset.
        reset_by_outside;
        /// Flows that were reset to make room for another: idle for two hours.
        evicted;
        /// Bytes from guests that the outside took in TCP flows.
        bytes_up;
        /// Bytes from outside that were written to guests in TCP flows.
        bytes_down;
        /// Turns of a flow that ended because its budget was used up.
        budgets_used_up;
        /// Turns of a flow that ended without a buffer; they are tried again.
        no_buffer;
        /// Connections to the proxy that were taken.
        clients;
        /// Those whose first bytes were no request that we know.
        clients_malformed;
        /// Those without the name and the password.
        clients_unauthorized;
        /// Relays for datagrams that clients of the proxy have asked for.
        associations;
        /// Sessions of datagrams and echoes that began.
        sessions_opened;
        /// Sessions for which the outside had no socket.
        sessions_not_opened;
        /// Sessions that ended because their guest had sent nothing for their lifetime.
        sessions_expired;
        /// Sessions that ended early to make room for another.
        sessions_evicted;
        /// Datagrams and echo requests that the outside took.
        datagrams_up;
        /// Datagrams and echo replies that were sent to guests.
        datagrams_down;
        /// Bytes of payload from guests that the outside took in datagrams and echo requests.
        datagram_bytes_up;
        /// Bytes of payload that were sent to guests in datagrams and echo replies.
        datagram_bytes_down;
        /// Datagrams that the policy refused or dropped.
        datagrams_refused;
        /// Datagrams that were dropped because the policy has to see more of them.
        datagrams_held;
        /// Datagrams that were dropped because of a limit; the limits' hits say which.
        datagrams_without_room;
        /// Datagrams of clients of the proxy that are fragments or have no target.
        datagrams_malformed;
        /// Datagrams that the outside did not send.
        datagrams_not_sent;
        /// Datagrams of the outside from senders that the filter does not let in.
        datagrams_filtered;
        /// Datagrams of the outside that the guest's stack had no room for.
        datagrams_lost;
        /// Errors of guests about datagrams that were brought to them: their senders are not let in
        /// any more.
        datagrams_unwanted;
        /// Errors of the network about datagrams of guests.
        datagram_errors;
    }
}
