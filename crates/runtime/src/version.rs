//! Which build a program is: its version, commit and profile.
//!
//! The commit comes from the environment of the build (`LENO_COMMIT`), which `make release`, `make demo` and `cargo xtask images` set. Git is not
//! asked here: otherwise every commit would compile every program again. Other builds, such as those of a source archive, show `unknown`.

/// The build that a program is of. [`version!`](crate::version!) makes it, in the program's own crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Of the release, such as `0.1.0`.
    pub version: &'static str,
    /// The first digits of the commit; `-modified` follows where the work tree differed from it.
    pub commit: &'static str,
    /// Cargo's profile, such as `release`.
    pub profile: &'static str,
}

/// The profile of this build.
pub const PROFILE: &str = env!("LENO_PROFILE");

impl std::fmt::Display for Version {
    fn fmt(&self, form: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(form, "{} (commit {}, profile {})", self.version, self.commit, self.profile)
    }
}

/// The [`Version`](crate::version::Version) of the program that is compiled.
#[macro_export]
macro_rules! version {
    () => {
        $crate::version::Version {
            version: env!("CARGO_PKG_VERSION"),
            commit: match option_env!("LENO_COMMIT") {
                Some(commit) => commit,
                None => "unknown",
            },
            profile: $crate::version::PROFILE,
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_version_names_commit_and_profile() {
        let version = crate::version!();
        let shown = version.to_string();
        let begin = format!("{} (commit ", env!("CARGO_PKG_VERSION"));
        assert!(shown.starts_with(&begin), "{shown}");
        // Tests are built in `dev`, or in a profile that somebody has chosen by name.
        assert!(shown.ends_with(&format!(", profile {})", version.profile)), "{shown}");
        assert!(!version.profile.is_empty() && version.profile != "unknown", "{shown}");
    }
}
