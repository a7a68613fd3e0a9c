//! The program of the fuzz target `forwarder`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("forwarder");
