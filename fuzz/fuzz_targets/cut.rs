//! The program of the fuzz target `cut`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("cut");
