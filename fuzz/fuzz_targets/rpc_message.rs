//! The program of the fuzz target `rpc_message`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("rpc_message");
