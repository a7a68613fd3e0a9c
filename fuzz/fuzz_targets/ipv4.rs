//! The program of the fuzz target `ipv4`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("ipv4");
