//! An address that a DHCP server gave to a port. The stack checks that no other host has the
//! address, then the port uses it, and at the end it is removed from the port.
//!
//! Called by: `dhcp.rs` and `dhcp6.rs`, whose clients decide about the address. RFC 2131 section
//! 2.2, RFC 8415 section 18.2.10.1.

use core::net::IpAddr;

use base::DropReason;
use stack::{Address, AddressError, AddressState, PortId, Stack, UdpHandle};

/// The address of a port, and whether it is still being checked.
pub(crate) struct Given<A> {
    port: PortId,
    address: Option<A>,
}

impl<A: Copy + Into<IpAddr>> Given<A> {
    pub(crate) fn new(port: PortId) -> Given<A> {
        Given { port, address: None }
    }

    /// Give the address to the port, tentative or not, with these lifetimes.
    ///
    /// # Errors
    /// [`AddressError`]: then nothing has changed.
    pub(crate) fn set(
        &mut self,
        stack: &mut Stack,
        address: A,
        of_port: Address,
    ) -> Result<(), AddressError> {
        stack.add_address(self.port, of_port)?;
        self.address = Some(address);
        Ok(())
    }

    /// Has the stack found that another host has the address? Returns the address and the answer;
    /// `None` if there is no address, or while it is being checked.
    pub(crate) fn is_taken(&self, stack: &Stack) -> Option<(A, bool)> {
        let address = self.address?;
        let ip: IpAddr = address.into();
        let ours = stack.addresses(self.port).iter().find(|a| a.ip() == ip)?;
        match ours.state {
            AddressState::Tentative => None,
            state => Some((address, state == AddressState::Duplicated)),
        }
    }

    /// Remove the address from the port.
    pub(crate) fn forget(&mut self, stack: &mut Stack) {
        if let Some(address) = self.address.take() {
            stack.remove_address(self.port, address.into());
        }
    }
}

/// Pass the datagrams that the client's socket has received to `client`.
pub(crate) fn receive(
    stack: &mut Stack,
    socket: UdpHandle,
    mut client: impl FnMut(&[u8]) -> Result<(), DropReason>,
) {
    while let Some(datagram) = stack.udp_receive(socket) {
        // The client counts the datagrams that it drops.
        let _ = client(datagram.payload.as_slice());
        stack.give_back(datagram.payload);
    }
}

/// Put a client's socket into the VRF of its port: servers are reached there.
pub(crate) fn into_vrf(stack: &mut Stack, socket: UdpHandle, port: PortId) {
    let vrf = stack.vrf(port);
    if let Some(ip) = stack.udp_ip_mut(socket) {
        ip.vrf = vrf;
    }
}
