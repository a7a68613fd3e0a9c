//! One cell by number; which cells a command line means; the shape of what comes out.
