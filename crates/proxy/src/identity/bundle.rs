//! The file with the trust anchors, which changes while we run: in a pod it is a ConfigMap that the kubelet mounts, and
//! replaces a minute after the object has changed. Content that is not a bundle changes nothing.

use super::IdentityConfig;
use super::certify::{self, CertifyError};
use leno_tls::Anchors;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A bundle of [`leno_tls::anchors::ANCHORS_MAX`] roots with comments.
const BYTES_MAX: usize = 512 * 1024;

/// The file, and what was good in it.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    trust_domain: String,
    good: Option<Anchors>,
    /// Of the file that the last good ones are from.
    mark: Option<Mark>,
    /// The last warning about a file that is not a bundle, so that it is logged once.
    told: Option<String>,
}

impl Bundle {
    /// Nothing is read yet.
    #[must_use]
    pub fn of(config: &IdentityConfig) -> Self {
        Self {
            path: config.trust_anchors_file.clone(),
            trust_domain: config.identity.trust_domain().to_owned(),
            good: None,
            mark: None,
            told: None,
        }
    }

    /// The anchors of now: those in the file, or the last good ones where it holds none.
    ///
    /// # Errors
    /// There were never any.
    pub async fn newest(&mut self) -> Result<Anchors, CertifyError> {
        let mark = Mark::of(&self.path);
        if let Some(good) = &self.good
            && mark.is_some()
            && mark == self.mark
        {
            return Ok(good.clone());
        }
        // Until the file is good it is read each time: what failed may pass without a change of the file.
        self.mark = None;
        match (self.read().await, &self.good) {
            (Ok(read), known) => {
                self.told = None;
                self.mark = mark;
                let newest = known.clone().filter(|known| known.same(&read)).unwrap_or(read);
                self.good = Some(newest.clone());
                Ok(newest)
            }
            (Err(error), Some(good)) => {
                let reason = error.as_str();
                let error = error.to_string();
                if self.told.as_ref() != Some(&error) {
                    tracing::error!(
                        error,
                        reason,
                        "the new trust anchors were rejected; the previous ones stay in use"
                    );
                    self.told = Some(error);
                }
                Ok(good.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn read(&self) -> Result<Anchors, CertifyError> {
        let bundle = certify::read(&self.path, BYTES_MAX).await?;
        Anchors::from_pem(&bundle, &self.trust_domain)
            .map_err(|error| CertifyError::Anchors(self.path.clone(), error))
    }
}

/// By what a file is known from the one in its place before, without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    device: u64,
    inode: u64,
    bytes: u64,
    /// When it or its inode was changed, in seconds and nanoseconds: nobody can set this back.
    changed: (i64, i64),
}

impl Mark {
    /// Behind every link: the kubelet swaps one. It takes microseconds, and a thread for it would stay for good.
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}
