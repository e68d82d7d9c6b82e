//! Gives `src/version.rs` the name of the profile, which only the path of cargo's output has. It never runs again.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").map(std::path::PathBuf::from).unwrap_or_default();
    // …/PROFILE/build/PACKAGE-HASH/out; the profile `dev` is called `debug` there.
    let name = out.ancestors().nth(3).and_then(|path| path.file_name()?.to_str());
    let name = name.map_or("unknown", |name| if name == "debug" { "dev" } else { name });
    println!("cargo::rustc-env=LENO_PROFILE={name}");
}
