//! VRFs (virtual routing and forwarding): ports that share a routing table of their own, apart from
//! those of all other ports.
//!
//! Called by: `route`, which looks a packet up in the table of its VRF; `flow`, whose keys differ
//! by VRF; `stack`, whose ports and sockets belong to one. A VRF is named by the number of its
//! table, as a VRF device of Linux is. docs/decisions/0149.

use crate::route::MAIN_TABLE;

/// A VRF. The default is [`Vrf::NONE`], in which all ports and sockets are that belong to no VRF.
///
/// ```
/// # mod wirespeed { pub use wirespeed_inet::Vrf; }
/// use wirespeed::Vrf;
///
/// let blue = Vrf::of_table(10).expect("a table for a VRF");
/// assert_eq!(blue.table(), 10);
/// assert!(Vrf::of_table(254).is_none(), "the main table is that of all other ports");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vrf(u16);

impl Vrf {
    /// No VRF: packets are looked up in the main table.
    pub const NONE: Vrf = Vrf(0);

    /// The VRF with this table; `None` for table 0, the main table, and numbers above 65,535.
    #[must_use]
    pub const fn of_table(table: u32) -> Option<Vrf> {
        if table == 0 || table == MAIN_TABLE || table > u16::MAX as u32 {
            return None;
        }
        Some(Vrf(table as u16))
    }

    /// The table in which packets of the VRF are looked up.
    #[inline(always)]
    #[must_use]
    pub const fn table(self) -> u32 {
        if self.0 == 0 { MAIN_TABLE } else { self.0 as u32 }
    }

    /// Is it [`Vrf::NONE`]?
    #[inline(always)]
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// A number for keys; 0 for [`Vrf::NONE`].
    #[inline(always)]
    pub(crate) const fn number(self) -> u64 {
        self.0 as u64
    }
}
