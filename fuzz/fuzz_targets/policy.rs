//! The program of the fuzz target `policy`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("policy");
