//! Label and field selectors, as query parameters carry them. They are parsed once for a list or a watch and then
//! match any number of objects without allocating.

mod fields;
mod labels;

pub use fields::{FieldSelector, field_value, selectable_fields};
pub use labels::LabelSelector;
