//! A machine's network card by vhost-user: a frontend made of crate `vhost` with a small driver.

#![cfg(target_os = "linux")]

mod bare;
mod cards;
mod guest;
mod hostile;
mod stacks;
mod world;
