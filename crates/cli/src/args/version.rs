//! `leno version`, and what `leno --version` shows.

use clap::{Args as ClapArgs, ValueEnum};
use leno_runtime::version::Version as Build;
use std::sync::LazyLock;

const BUILD: Build = leno_runtime::version!();

#[derive(Debug, ClapArgs)]
pub(crate) struct Version {
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One line
    Text,
    /// An object with `version`, `commit` and `profile`
    Json,
}

/// Version, commit and profile, as `leno --version` shows them after the name.
pub(super) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| BUILD.to_string());
    &TEXT
}

impl Version {
    /// What the verb prints.
    pub(crate) fn shown(&self) -> String {
        match self.output {
            Form::Text => format!("leno {BUILD}\n"),
            Form::Json => {
                let Build { version, commit, profile } = BUILD;
                let object =
                    serde_json::json!({"version": version, "commit": commit, "profile": profile});
                format!("{object:#}\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_version_commit_and_profile() {
        let shown = Version { output: Form::Json }.shown();
        let object: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(object["profile"], leno_runtime::version::PROFILE);
        assert_eq!(object.as_object().unwrap().len(), 3);
        let line = Version { output: Form::Text }.shown();
        let version = object["version"].as_str().unwrap();
        assert!(line.starts_with(&format!("leno {version} (commit ")), "{line}");
        assert!(line.contains(text()), "{line}");
    }
}
