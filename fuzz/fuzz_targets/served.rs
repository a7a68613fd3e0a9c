//! The program of the fuzz target `served`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("served");
