//! The program of the fuzz target `icmp`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("icmp");
