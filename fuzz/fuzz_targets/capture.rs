//! The program of the fuzz target `capture`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("capture");
