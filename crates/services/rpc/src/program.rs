//! [`program!`](crate::program): defines an RPC program by a list of its procedures.
//!
//! Called by: programs. It replaces `rpcgen`: from the list it makes a trait to implement, a
//! service and a client.

/// Define a version of a program: a trait with its procedures, the service that calls an
/// implementation of the trait, and a client over any [`crate::blocking::Caller`].
///
/// ```
/// use wirespeed_rpc::server::{Refusal, Request};
/// wirespeed_rpc::program! {
///     /// Sums.
///     pub trait Sums, service SumsService, client SumsClient, program 0x2000_0101, version 1 {
///         /// The sum of an array.
///         fn sum(Vec<u32>) -> u64 = 1;
///     }
/// }
/// struct Plain;
/// impl Sums for Plain {
///     fn sum(&mut self, args: Vec<u32>, _: &Request<'_>) -> Result<u64, Refusal> {
///         Ok(args.iter().copied().map(u64::from).sum())
///     }
/// }
/// let mut server = wirespeed_rpc::server::Server::new(base::KeyedHash::new(1, 2));
/// server.add(SumsService(Plain));
/// ```
#[macro_export]
macro_rules! program {
    ($(#[$meta:meta])* $vis:vis trait $name:ident, service $service:ident, client $client:ident,
        program $program:literal, version $version:literal {
        $($(#[$note:meta])* fn $call:ident($args:ty) -> $results:ty = $number:expr;)*
    }) => {
        $(#[$meta])*
        $vis trait $name {
            $($(#[$note])*
            ///
            /// # Errors
            /// Returns the answer to the caller that is sent instead of results.
            fn $call(
                &mut self,
                args: $args,
                request: &$crate::server::Request<'_>,
            ) -> Result<$results, $crate::server::Refusal>;)*
        }

        /// The service that calls an implementation of the procedures.
        $vis struct $service<T>(pub T);

        impl<T: $name> $crate::server::Service for $service<T> {
            fn program(&self) -> u32 {
                $program
            }
            fn versions(&self) -> core::ops::RangeInclusive<u32> {
                $version..=$version
            }
            fn call(
                &mut self,
                request: &$crate::server::Request<'_>,
                results: &mut Vec<u8>,
            ) -> Result<(), $crate::server::Refusal> {
                $(if request.procedure == $number {
                    let returned = self.0.$call(request.decode()?, request)?;
                    $crate::xdr::Encode::encode(&returned, results);
                    return Ok(());
                })*
                Err($crate::server::Refusal::ProcedureUnavailable)
            }
        }

        /// The client, over a [`crate::blocking::Caller`] of this program and version.
        $vis struct $client<C>(pub C);

        impl<C: $crate::blocking::Caller> $client<C> {
            $($(#[$note])*
            ///
            /// # Errors
            /// The call failed; there are no results.
            $vis fn $call(&mut self, args: &$args) -> Result<$results, $crate::client::CallError> {
                self.0.call($number, args)
            })*
        }
    };
}
