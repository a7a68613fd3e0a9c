//! The program of the fuzz target `listener`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("listener");
