//! `cargo xtask images`: one static program to an image (two in that of benchmarks), as archives that need no container engine to be made.
//!
//! An archive is an OCI layout with Docker's own list beside it, so `ctr images import`, `docker load` and `skopeo copy oci-archive:…` take the
//! same file. There is no shell, no package and no library in an image: only the program, its user and its labels. `deploy/Dockerfile` is
//! the ordinary way to the same images, for those who have an engine.
//!
//! [`archive`] writes an image, [`elf`] says whether a program is static.

pub(crate) mod archive;
mod elf;

pub(crate) use archive::architecture;

use crate::budgets::Budgets;
use crate::{command, setup};
use anyhow::{Context as _, Result, bail, ensure};
use archive::Image;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What an image is made of.
struct Recipe {
    /// `localhost/NAME:VERSION`.
    name: &'static str,
    description: &'static str,
    /// Packages of the workspace.
    packages: &'static [&'static str],
    /// Programs of those packages, the first of which is the entry point, and where they are in the image.
    programs: &'static [(&'static str, &'static str)],
    /// User and group, in numbers: Kubernetes' `runAsNonRoot` asks for them.
    user: u32,
    /// Further names, with their tags.
    also: &'static [&'static str],
}

const RECIPES: [Recipe; 4] = [
    Recipe {
        name: "leno-proxy",
        description: "The data plane of the service mesh Leno",
        packages: &["leno-proxy"],
        programs: &[("leno-proxy", "leno-proxy")],
        user: 2102,
        also: &[],
    },
    Recipe {
        name: "leno-control",
        description: "The control plane of the service mesh Leno",
        packages: &["leno-control"],
        programs: &[("leno-control", "leno-control")],
        user: 2103,
        also: &[],
    },
    Recipe {
        name: "leno-worker",
        description: "The service node of Leno's examples and tests",
        packages: &["leno-testapp"],
        // In a directory of `PATH`: the examples name it without one.
        programs: &[("leno-worker", "usr/local/bin/leno-worker")],
        user: 65532,
        // As the examples name it.
        also: &["docker.io/leno/worker:dev"],
    },
    Recipe {
        name: "leno-bench",
        description: "Load generator and application of Leno's benchmark on a cluster",
        packages: &["leno-cli", "leno-testapp"],
        // Both roles are pods of one image, so that a node fetches it once.
        programs: &[("leno-worker", "usr/local/bin/leno-worker"), ("leno", "usr/local/bin/leno")],
        user: 65532,
        also: &[],
    },
];

/// What was asked for on the command line.
struct Request {
    out: Option<PathBuf>,
    profile: String,
    library: CLibrary,
}

/// The C library that is linked into the programs. Decision 11 has the figures of both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CLibrary {
    /// The one of every figure that was measured; no second toolchain is needed.
    Glibc,
    /// For those whose rules ask for it.
    Musl,
}

impl CLibrary {
    /// Rust's name of a target with it.
    pub(crate) fn target(self) -> String {
        let library = if self == Self::Musl { "musl" } else { "gnu" };
        format!("{}-unknown-linux-{library}", std::env::consts::ARCH)
    }
}

impl Request {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut request =
            Self { out: None, profile: "release".to_owned(), library: CLibrary::Glibc };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                words.next().map(|word| (*word).to_owned()).with_context(|| format!("{word} what?"))
            };
            match *word {
                "--out" => request.out = Some(value()?.into()),
                "--profile" => request.profile = value()?,
                "--libc" => {
                    request.library = match value()?.as_str() {
                        "glibc" => CLibrary::Glibc,
                        "musl" => CLibrary::Musl,
                        other => bail!("--libc {other}? glibc or musl"),
                    }
                }
                _ => bail!(
                    "{word}? cargo xtask images [--out DIR] [--profile PROFILE] [--libc glibc|musl]"
                ),
            }
        }
        Ok(request)
    }
}

/// Builds the programs, writes the archives and prints what they weigh.
///
/// # Errors
/// When a program is not static, or an image weighs more than its budget.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let request = Request::parse(words)?;
    let programs = build(&request.profile, request.library)?;
    let out = match request.out {
        Some(out) => out,
        None => command::target_directory()?.join("images"),
    };
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let budgets = Budgets::read()?;
    let mut over = Vec::new();
    println!("{:<34} {:>10} {:>10}  ARCHIVE", "IMAGE", "MIB", "BUDGET");
    for recipe in &RECIPES {
        let image = image(recipe, &programs)?;
        let written = archive::write(&image)?;
        let path = out.join(format!("{}.tar", recipe.name));
        fs::write(&path, &written.bytes).with_context(|| path.display().to_string())?;
        let mebibytes = written.layer_bytes as f64 / (1024.0 * 1024.0);
        let budget = budgets.number(&format!("image.{}", recipe.name), "mebibytes_max");
        let shown = budget.map_or("-".to_owned(), |budget| format!("{budget:.1}"));
        println!("{:<34} {mebibytes:>10.2} {shown:>10}  {}", image.names[0], path.display());
        if budget.is_some_and(|budget| mebibytes > budget) {
            over.push(recipe.name);
        }
    }
    // An unoptimized program says nothing about what is released.
    ensure!(over.is_empty() || request.profile == "dev", "over budget: {}", over.join(", "));
    Ok(())
}

fn image(recipe: &Recipe, programs: &Path) -> Result<Image> {
    let version = env!("CARGO_PKG_VERSION");
    let mut files = Vec::new();
    for (program, place) in recipe.programs {
        let path = programs.join(program);
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        elf::require_static(&bytes).with_context(|| path.display().to_string())?;
        files.push(((*place).to_owned(), bytes));
    }
    let mut names = vec![format!("localhost/{}:{version}", recipe.name)];
    names.extend(recipe.also.iter().map(|name| (*name).to_owned()));
    Ok(Image {
        names,
        title: recipe.name.to_owned(),
        description: recipe.description.to_owned(),
        version: version.to_owned(),
        entry_point: format!("/{}", recipe.programs[0].1),
        user: recipe.user,
        files,
    })
}

/// Writes one more image.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn store(image: &Image, path: &Path) -> Result<()> {
    fs::write(path, &archive::write(image)?.bytes).with_context(|| path.display().to_string())
}

/// The build of static programs, with more flags for the compiler.
pub(crate) fn static_build(
    profile: &str,
    library: CLibrary,
    packages: &[&str],
    more: &[String],
) -> Command {
    let target = library.target();
    let flags: Vec<&str> = ["-C", "target-feature=+crt-static"]
        .into_iter()
        .chain(more.iter().map(String::as_str))
        .collect();
    let flags = format!("target.{target}.rustflags={flags:?}");
    let mut words = vec!["build", "--locked", "--profile", profile, "--target", &target];
    words.extend(["--config", &flags]);
    for package in packages {
        words.extend(["--package", package]);
    }
    let mut cargo = command::cargo(&words);
    if library == CLibrary::Musl {
        cargo.env(format!("CC_{}", target.replace('-', "_")), "musl-gcc");
    }
    cargo
}

/// The archives of all images, by name, of programs that are built.
///
/// # Errors
/// When a program is missing or not static.
pub(crate) fn archives(programs: &Path) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let one = |recipe: &Recipe| {
        let written = archive::write(&image(recipe, programs)?)?;
        Ok((recipe.name, written.bytes))
    };
    RECIPES.iter().map(one).collect()
}

/// Static programs; answers with the directory that they are in.
///
/// Names are looked up in a pod without any shared library: musl does so by itself, and of glibc `files` and `dns` are part since 2.34.
fn build(profile: &str, library: CLibrary) -> Result<PathBuf> {
    let target = library.target();
    if library == CLibrary::Musl {
        setup::musl(&target)?;
    }
    let packages: Vec<&str> = RECIPES.iter().flat_map(|recipe| recipe.packages).copied().collect();
    let mut cargo = static_build(profile, library, &packages, &[]);
    cargo.env("LENO_COMMIT", command::commit());
    command::step(&mut cargo)?;
    // Cargo calls the directory of `dev` otherwise.
    let directory = if profile == "dev" { "debug" } else { profile };
    Ok(command::target_directory()?.join(target).join(directory))
}
