//! The program of the fuzz target `ethernet`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("ethernet");
