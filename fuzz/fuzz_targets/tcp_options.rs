//! The program of the fuzz target `tcp_options`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("tcp_options");
