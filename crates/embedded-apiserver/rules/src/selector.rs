//! Label and field selectors of query parameters. They are parsed once for a list or a watch and
//! match objects without allocating.

mod fields;
mod labels;

pub use fields::{FieldSelector, field_value, selectable_fields};
pub use labels::LabelSelector;
