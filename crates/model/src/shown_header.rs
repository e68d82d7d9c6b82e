//! Names of request headers that an operator may see. Headers that carry secrets are refused by name.

use std::sync::Arc;

/// Headers that carry secrets by their definition, or by wide use. No setting shows them.
const SECRET: [&str; 9] = [
    "authorization",
    "cookie",
    "proxy-authenticate",
    "proxy-authorization",
    "set-cookie",
    "www-authenticate",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
];
/// Characters of a name beside letters and digits.
const SEPARATORS: &str = "!#$%&'*+-.^_`|~";
/// Headers of one access log, or of one tap.
pub const NAMES_MAX: usize = 16;

/// A name in lower case.
pub type Name = Arc<str>;

/// Reads one name.
///
/// # Errors
/// It is not the name of a header, or the header carries secrets.
pub fn name(text: &str) -> Result<Name, String> {
    let name = text.trim().to_ascii_lowercase();
    let is_valid = |c: char| c.is_ascii_alphanumeric() || SEPARATORS.contains(c);
    if name.is_empty() || !name.chars().all(is_valid) {
        return Err(format!("{text:?} is not the name of a header"));
    }
    if SECRET.contains(&name.as_str()) {
        return Err(format!("the header {name} carries secrets and is never shown"));
    }
    Ok(name.into())
}

/// Reads names with commas between them.
///
/// # Errors
/// The first name that is refused, or that there are more than [`NAMES_MAX`].
pub fn names(text: &str) -> Result<Vec<Name>, String> {
    let names: Vec<Name> = text.split(',').map(name).collect::<Result<_, _>>()?;
    if names.len() > NAMES_MAX {
        return Err(format!("{} headers are more than {NAMES_MAX}", names.len()));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&[&str], &str>) {
        let found = names(text);
        let found = found.as_ref().map(|names| names.iter().map(AsRef::as_ref).collect::<Vec<_>>());
        assert_eq!(found.map_err(String::as_str), expected.map(<[&str]>::to_vec), "{text}");
    }

    #[test]
    fn names_that_may_be_shown() {
        check("x-request-id, X-Tenant", Ok(&["x-request-id", "x-tenant"]));
        check("", Err("\"\" is not the name of a header"));
        check("a b", Err("\"a b\" is not the name of a header"));
        check("x\u{e9}", Err("\"x\u{e9}\" is not the name of a header"));
        check(&["x"; 17].join(","), Err("17 headers are more than 16"));
        for secret in SECRET {
            let why = format!("the header {secret} carries secrets and is never shown");
            check(&secret.to_ascii_uppercase(), Err(&why));
        }
    }
}
