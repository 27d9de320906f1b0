//! A deduplicating, delaying, rate-limited work queue with client-go's guarantees, and a worker loop.
