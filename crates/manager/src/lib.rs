//! Composition: options, wiring of the controllers over one informer layer, lifecycle.
