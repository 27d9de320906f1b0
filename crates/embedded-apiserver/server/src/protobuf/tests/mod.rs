//! Tests of the codec: bodies written by hand, recorded answers of a real server, and property
//! tests.

mod hand_made;
mod laws;
mod recorded;
