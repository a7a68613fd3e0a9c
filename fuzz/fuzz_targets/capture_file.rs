//! The program of the fuzz target `capture_file`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("capture_file");
