//! Trigger times, and which of a controller's own writes the cache has seen.
