//! The program of the fuzz target `dns`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("dns");
