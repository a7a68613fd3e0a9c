//! The program of the fuzz target `rpc_record`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("rpc_record");
