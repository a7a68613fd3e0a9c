//! The program of the fuzz target `hello`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("hello");
