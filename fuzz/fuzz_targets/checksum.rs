//! The program of the fuzz target `checksum`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("checksum");
