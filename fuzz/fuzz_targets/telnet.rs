//! The program of the fuzz target `telnet`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("telnet");
