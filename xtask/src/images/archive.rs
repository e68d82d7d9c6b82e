//! An image as one file: an OCI image layout (`oci-layout`, `index.json`, blobs) in a tar archive, with Docker's `manifest.json`, which
//! names the same blobs. The same image is the same bytes, whenever and wherever it is written.

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use leno_text::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::io::Write as _;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Of everything: what is the same shall not differ by when it was made.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// What goes in.
pub(crate) struct Image {
    /// Whole names with tags; it is known by each.
    pub(crate) names: Vec<String>,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) version: String,
    pub(crate) entry_point: String,
    /// User and group.
    pub(crate) user: u32,
    /// Programs, by their path without the first slash.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

/// What came out.
pub(super) struct Written {
    pub(super) bytes: Vec<u8>,
    /// The one layer, compressed: what a node fetches.
    pub(super) layer_bytes: usize,
}

/// Content by its digest.
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self { digest: digest(&bytes), bytes }
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn described(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": format!("sha256:{}", self.digest), "size": self.bytes.len()})
    }
}

/// Makes the archive.
///
/// # Errors
/// When a path does not fit into a tar header.
pub(super) fn write(image: &Image) -> Result<Written> {
    let plain = layer(&image.files)?;
    let layer = Blob::new(compressed(&plain)?);
    let config = Blob::new(config(image, &digest(&plain)).to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.described(CONFIG),
        "layers": [layer.described(LAYER)],
    });
    let manifest = Blob::new(manifest.to_string().into_bytes());
    let index =
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": named(image, &manifest)});
    let docker =
        json!([{"Config": config.path(), "RepoTags": image.names, "Layers": [layer.path()]}]);
    let mut archive = tar::Builder::new(Vec::new());
    for directory in ["blobs", "blobs/sha256"] {
        add_directory(&mut archive, directory)?;
    }
    for blob in [&config, &layer, &manifest] {
        add_file(&mut archive, &blob.path(), &blob.bytes, 0o644)?;
    }
    for (name, content) in [
        ("index.json", index),
        ("manifest.json", docker),
        ("oci-layout", json!({"imageLayoutVersion": "1.0.0"})),
    ] {
        add_file(&mut archive, name, content.to_string().as_bytes(), 0o644)?;
    }
    Ok(Written { bytes: archive.into_inner()?, layer_bytes: layer.bytes.len() })
}

/// The manifest under each name, as containerd and skopeo read names.
fn named(image: &Image, manifest: &Blob) -> Vec<Value> {
    let described = image.names.iter().map(|name| {
        let tag = name.rsplit_once(':').map_or("", |(_, tag)| tag);
        let mut entry = manifest.described(MANIFEST);
        entry["platform"] = json!({"architecture": architecture(), "os": "linux"});
        entry["annotations"] = json!({
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": tag,
        });
        entry
    });
    described.collect()
}

fn config(image: &Image, layer_digest: &str) -> Value {
    json!({
        "created": CREATED,
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": format!("{0}:{0}", image.user),
            "Env": ["PATH=/usr/local/bin:/"],
            "Entrypoint": [image.entry_point],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": image.title,
                "org.opencontainers.image.description": image.description,
                "org.opencontainers.image.version": image.version,
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
        "history": [{"created": CREATED, "created_by": "cargo xtask images"}],
    })
}

/// As Go and Debian call it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The file system, uncompressed.
fn layer(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    let mut made = BTreeSet::new();
    for (path, bytes) in files {
        for (end, _) in path.match_indices('/') {
            if made.insert(&path[..end]) {
                add_directory(&mut layer, &path[..end])?;
            }
        }
        add_file(&mut layer, path, bytes, 0o755)?;
    }
    Ok(layer.into_inner()?)
}

fn add_directory(archive: &mut tar::Builder<Vec<u8>>, path: &str) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o755);
    header.set_size(0);
    Ok(archive.append_data(&mut header, format!("{path}/"), std::io::empty())?)
}

fn add_file(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &str,
    bytes: &[u8],
    mode: u32,
) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_mode(mode);
    header.set_size(bytes.len() as u64);
    Ok(archive.append_data(&mut header, path, bytes)?)
}

fn compressed(plain: &[u8]) -> Result<Vec<u8>> {
    let mut compressor = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    compressor.write_all(plain)?;
    Ok(compressor.finish()?)
}

fn digest(bytes: &[u8]) -> String {
    hex::lower(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::{Image, digest, write};
    use std::collections::BTreeMap;
    use std::io::Read as _;

    fn image() -> Image {
        Image {
            names: vec!["localhost/a:1".to_owned(), "docker.io/b/a:dev".to_owned()],
            title: "a".to_owned(),
            description: "an a".to_owned(),
            version: "1".to_owned(),
            entry_point: "/bin/a".to_owned(),
            user: 7,
            files: vec![("bin/a".to_owned(), b"program".to_vec())],
        }
    }

    fn files(archive: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, (entry.header().mode().unwrap(), content));
        }
        files
    }

    fn json(files: &BTreeMap<String, (u32, Vec<u8>)>, path: &str) -> serde_json::Value {
        serde_json::from_slice(&files[path].1).unwrap()
    }

    #[test]
    fn the_same_image_is_the_same_bytes() {
        assert!(write(&image()).unwrap().bytes == write(&image()).unwrap().bytes);
    }

    #[test]
    fn every_blob_is_what_its_name_says_and_both_lists_name_it() {
        let written = write(&image()).unwrap();
        let files = files(&written.bytes);
        for (path, (_, content)) in &files {
            if let Some(name) = path.strip_prefix("blobs/sha256/").filter(|name| !name.is_empty()) {
                assert_eq!(name, digest(content), "{path}");
            }
        }
        let index = json(&files, "index.json");
        let names: Vec<_> = (0..2)
            .map(|i| &index["manifests"][i]["annotations"]["io.containerd.image.name"])
            .collect();
        assert_eq!(names, ["localhost/a:1", "docker.io/b/a:dev"]);
        let place = |digest: &serde_json::Value| {
            digest.as_str().unwrap().replace("sha256:", "blobs/sha256/")
        };
        let manifest = json(&files, &place(&index["manifests"][0]["digest"]));
        let docker = json(&files, "manifest.json");
        assert_eq!(docker[0]["Config"], place(&manifest["config"]["digest"]));
        let layer = place(&manifest["layers"][0]["digest"]);
        assert_eq!(docker[0]["Layers"][0], layer);
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&files[&layer].1[..]).read_to_end(&mut plain).unwrap();
        let config = json(&files, docker[0]["Config"].as_str().unwrap());
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", digest(&plain)));
        assert_eq!(config["config"]["User"], "7:7");
        assert_eq!(self::files(&plain)["bin/a"], (0o755, b"program".to_vec()));
    }
}
