//! Filters of packets by source and destination. Called by programs, which make them, and by
//! `Stack` for each packet that it is sent.

use core::net::IpAddr;

/// Returns whether a packet from the first address to the second one may pass.
pub type IpFilter<'a> = Box<dyn Fn(&IpAddr, &IpAddr) -> bool + Send + Sync + 'a>;

/// A list of filters, all of which a packet must pass.
#[derive(Default)]
pub struct IpFilters<'a> {
    filters: Vec<IpFilter<'a>>,
}

impl<'a> IpFilters<'a> {
    /// An empty list, which every packet passes.
    pub fn new() -> IpFilters<'a> {
        IpFilters::default()
    }

    /// A list with one filter, which refuses groups, the broadcast address and the unspecified
    /// addresses.
    pub fn with_non_broadcast() -> IpFilters<'a> {
        let mut filters = IpFilters::new();
        filters.add_fn(|src, dst| is_host(src) && is_host(dst));
        filters
    }

    /// Add a filter.
    pub fn add(&mut self, filter: IpFilter<'a>) {
        self.filters.push(filter);
    }

    /// Add a function as a filter.
    pub fn add_fn<F>(&mut self, filter: F)
    where
        F: Fn(&IpAddr, &IpAddr) -> bool + Send + Sync + 'a,
    {
        self.add(Box::new(filter));
    }

    /// Add several filters.
    pub fn add_all<I: IntoIterator<Item = IpFilter<'a>>>(&mut self, filters: I) {
        self.filters.extend(filters);
    }

    /// Does a packet from `src` to `dst` pass all filters?
    pub fn is_allowed(&self, src: &IpAddr, dst: &IpAddr) -> bool {
        self.filters.iter().all(|filter| filter(src, dst))
    }
}

fn is_host(addr: &IpAddr) -> bool {
    let is_broadcast = matches!(addr, IpAddr::V4(v4) if v4.is_broadcast());
    !(is_broadcast || addr.is_multicast() || addr.is_unspecified())
}
