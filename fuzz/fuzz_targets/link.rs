//! The program of the fuzz target `link`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("link");
