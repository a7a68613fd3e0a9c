//! The program of the fuzz target `dissect`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("dissect");
