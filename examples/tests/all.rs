//! The tests of the examples, one program, so that all is linked once.

mod board;
mod timeouts;
mod words;
