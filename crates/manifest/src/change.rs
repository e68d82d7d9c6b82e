//! A change made in the text itself, so that order, comments and everything else stay as they are.
//!
//! What comes out is read again and has to say what the patch says; where that fails (a template behind an alias, say) the
//! document is written anew in its own order, without comments.

use crate::patch::{Operation, apply};
use crate::read::read;
use crate::{edit, node, write};
use serde::de::IgnoredAny;

/// A changed document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The manifest with the change.
    pub text: String,
    /// The document was rewritten: its order is kept, its comments are lost.
    pub rewritten: bool,
}

/// Changes a document.
///
/// # Errors
/// The text is not valid YAML, or the patch does not fit it.
pub fn change(text: &str, patch: &[Operation]) -> Result<Changed, String> {
    let mut after = read(text).map_err(|wrong| wrong.to_string())?;
    apply(&mut after, patch).map_err(|error| error.to_string())?;
    // What was JSON is read as that by others.
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let was_json = is_json(text);
    let says_so =
        |text: &String| (!was_json || is_json(text)) && read(text).is_ok_and(|read| read == after);
    let node = node::parse(text);
    let edited = node.as_ref().and_then(|node| edit::edit(text, node, patch));
    if let Some(text) = edited.filter(says_so) {
        return Ok(Changed { text, rewritten: false });
    }
    let mut anew = write::document(&after, node.as_ref(), text);
    if was_json {
        anew = format!("{after:#}\n");
    } else if !says_so(&anew) {
        // With every scalar in quotes or plainly safe there is nothing left to misread.
        anew = write::document(&after, None, text);
    }
    if says_so(&anew) {
        Ok(Changed { text: anew, rewritten: true })
    } else {
        Err("it cannot be written as YAML".to_owned())
    }
}
