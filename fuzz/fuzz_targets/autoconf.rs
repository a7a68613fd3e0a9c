//! The program of the fuzz target `autoconf`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("autoconf");
