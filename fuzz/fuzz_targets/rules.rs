//! The program of the fuzz target `rules`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("rules");
