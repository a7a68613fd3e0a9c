//! Counts of crates that have no part in a stack: structures whose fields have a name and a
//! meaning, for who shows them.
//!
//! Called by: crates of a gateway. Their names stand in docs/counters.md beside the stack's.

/// Makes a structure of counts from fields with a line of documentation or more each.
///
/// ```
/// wirespeed_base::counts! {
///     /// How often each event happened.
///     pub struct Counts {
///         /// Doors that were opened.
///         opened;
///         /// Doors that were shut.
///         shut;
///     }
/// }
/// let counts = Counts { opened: 3, ..Counts::default() };
/// assert_eq!(counts.rows().collect::<Vec<_>>(), [("opened", 3), ("shut", 0)]);
/// assert_eq!(Counts::MEANINGS[0], ("opened", " Doors that were opened."));
/// ```
#[macro_export]
macro_rules! counts {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $($(#[doc = $doc:literal])+ $field:ident;)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name { $($(#[doc = $doc])+ $vis $field: u64,)* }

        impl $name {
            /// Names, and what is counted by each.
            $vis const MEANINGS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), concat!($($doc),+)),)*];

            /// Names and values, in order.
            $vis fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }
    };
}
