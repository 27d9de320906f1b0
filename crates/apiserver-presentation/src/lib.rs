//! What an API server shows beside its objects: discovery documents, OpenAPI and tables.
