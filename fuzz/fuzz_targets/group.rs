//! The program of the fuzz target `group`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("group");
