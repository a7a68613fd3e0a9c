//! The program of the fuzz target `fpm`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("fpm");
