//! The program of the fuzz target `wheel`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("wheel");
