//! `leno bench compare`: what changed between two results.

use anyhow::Context as _;
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code 0: nothing got worse. 1: something did, beyond the noise band, or an assertion of the second result failed.
/// 2: a result is invalid, or nothing can be compared. 3: wrong use.
#[derive(Debug, ClapArgs)]
pub(crate) struct Compare {
    /// The result before: its directory, or its `result.json`
    a: PathBuf,
    /// The result after
    b: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a page with a forest plot for each figure
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Ignore changes below this share: 0.02 is 2 %
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    tolerance: f64,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("the share must be between 0 and 1".to_owned()),
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: Compare) -> anyhow::Result<ExitCode> {
    let read = |path: &Path| leno_bench::compare::read(path).map_err(anyhow::Error::msg);
    let (a, b) = (read(&arguments.a)?, read(&arguments.b)?);
    let compared = leno_bench::compare::compare(&a, &b, arguments.tolerance);
    if let Some(file) = &arguments.html {
        std::fs::write(file, compared.html())
            .with_context(|| format!("--html {}", file.display()))?;
    }
    let text = match arguments.json {
        true => format!("{:#}\n", compared.json()),
        false => compared.table(),
    };
    crate::output::print(&text)?;
    Ok(ExitCode::from(compared.exit_code()))
}
