//! One list and watch per kind, indexed stores, and the index that finds a pod's Services.
