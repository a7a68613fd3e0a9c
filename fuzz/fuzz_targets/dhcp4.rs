//! The program of the fuzz target `dhcp4`.
#![cfg_attr(fuzzing, no_main)]

wirespeed_fuzz::target!("dhcp4");
