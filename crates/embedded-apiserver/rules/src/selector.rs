//! Label and field selectors of query parameters. The server parses them once for a list or a
//! watch. They match objects without allocating.

mod fields;
mod labels;

pub use fields::{FieldSelector, field_value, selectable_fields};
pub use labels::LabelSelector;
