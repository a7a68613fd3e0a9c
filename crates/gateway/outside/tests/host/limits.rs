pub(crate) const CASES: &[testbed::Case] = &[];
