//! The program of the fuzz target `ipv6`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("ipv6");
