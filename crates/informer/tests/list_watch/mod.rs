//! Reflectors against a scripted server, under a paused clock.

mod failures;
mod lists;
mod outages;
mod protobuf;
mod retry_after;
mod script;
mod undecodable;
mod versions;
mod watches;
