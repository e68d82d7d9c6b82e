//! Flags of `leno version`, and what `leno --version` shows.

use super::home::ClusterFlags;
use clap::{Args as ClapArgs, ValueEnum};
use leno_runtime::version::Version as Build;
use std::sync::LazyLock;

const BUILD: Build = leno_runtime::version!();

#[derive(Debug, ClapArgs)]
pub(crate) struct Version {
    /// Only the version of this program; no mesh is asked
    #[arg(long)]
    pub(crate) client: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub(crate) output: Form,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// One line for each kind of program
    Text,
    /// JSON for programs; docs/cli.md describes it
    Json,
}

/// The build of this program.
pub(crate) fn build() -> Build {
    BUILD
}

/// Version, commit and profile, as `leno --version` shows them after the name.
pub(super) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| BUILD.to_string());
    &TEXT
}
