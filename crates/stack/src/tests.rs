//! Tests of whole stacks: transfers between two, and ladders against one.

mod ladder;
mod transfer;
