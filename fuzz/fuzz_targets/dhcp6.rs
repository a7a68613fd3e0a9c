//! The program of the fuzz target `dhcp6`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("dhcp6");
