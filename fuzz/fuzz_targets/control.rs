//! The program of the fuzz target `control`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("control");
