//! The program of the fuzz target `stack`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("stack");
