//! Carries a plan out against the API server: client-side rate limit, creates, updates, deletes, events.
