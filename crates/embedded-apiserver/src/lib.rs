//! An in-memory Kubernetes API server that speaks the real protocol on loopback.
