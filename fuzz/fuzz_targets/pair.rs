//! The program of the fuzz target `pair`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("pair");
