//! Manifests as people write them: YAML of any number of documents, or JSON, which is YAML. The only reader, splitter and editor.
//!
//! - [`documents`]: a file to its documents, with their lines. [`read()`]: a document to its value. [`read_all`]: both at once.
//! - [`change()`]: a [`patch`] made in the text itself, so that order and comments stay.
//! - [`line_of`]: on which line a field stands.
//! - [`fields`]: the fields of a published type, for documentation.
//! - [`typed`]: a value as a published type, with the fields that the type does not know.
//!
//! Pure. Not here: what objects mean, and which of them a program uses.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod change;
mod document;
mod edit;
pub mod fields;
mod line;
mod node;
pub mod patch;
mod read;
pub mod typed;
mod write;

pub use change::{Changed, change};
pub use document::{Document, documents, is_blank};
pub use line::line_of;
pub use read::{Unreadable, read, read_all};

#[cfg(test)]
mod tests;
