//! The program of the fuzz target `udp`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("udp");
