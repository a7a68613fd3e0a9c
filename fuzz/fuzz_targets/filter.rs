//! The program of the fuzz target `filter`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("filter");
