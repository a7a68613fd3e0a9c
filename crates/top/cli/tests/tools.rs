//! The tests of the program that need neither root nor other programs, one test program, so that
//! all is linked once.

mod common;
#[path = "dump/main.rs"]
mod dump;
mod ip;
mod lab;
mod lab_all;
mod manners;
mod nonsense;
mod pages;
mod running;
mod show;
#[allow(dead_code, reason = "each test program uses a part")]
mod terminal;
mod top;
mod trace;
mod transfers;
#[cfg(target_os = "linux")]
mod up;
