//! The program of the fuzz target `forward`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("forward");
