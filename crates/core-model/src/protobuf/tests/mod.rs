//! Tests the codec with answers of a real server, and with damaged input.

mod damaged;
mod recorded;
