//! The program of the fuzz target `release`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("release");
