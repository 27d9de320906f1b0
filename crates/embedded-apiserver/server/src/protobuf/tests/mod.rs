//! Tests of the codec: bodies made by hand, what a real server answered, and laws.

mod hand_made;
mod laws;
mod recorded;
