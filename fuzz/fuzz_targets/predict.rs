//! The program of the fuzz target `predict`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("predict");
