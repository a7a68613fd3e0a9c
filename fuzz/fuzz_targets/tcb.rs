//! The program of the fuzz target `tcb`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("tcb");
