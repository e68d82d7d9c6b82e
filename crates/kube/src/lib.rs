//! The way to an API server: where it is and who we are there.
//!
//! One place decides this for the control plane and for `leno`. What `leno` asks on behalf of a person is here too: [`cluster`] (pods,
//! HTTP through a port-forward, logs), [`pod`] (a pod as a row), [`refused`] (errors that say what to look at).
//! Not here: what the control plane asks (its `source/kubernetes`), and how rows are printed (the commands of `leno`).
#![forbid(unsafe_code)]

pub mod cluster;
pub mod pod;
pub mod refused;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::{Path, PathBuf};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// The named file is not a kubeconfig, or its context does not exist.
    #[error("{file}: {why}")]
    File {
        file: PathBuf,
        /// What is wrong with it.
        why: kube::config::KubeconfigError,
    },
    /// Neither in a pod nor with a kubeconfig.
    #[error(
        "no cluster found: this is not a pod, and neither KUBECONFIG nor ~/.kube/config names a cluster ({0})"
    )]
    Nowhere(kube::config::KubeconfigError),
    /// The certificates or keys in the configuration cannot be used.
    #[error("the cluster's configuration cannot be used: {0}")]
    Unusable(#[from] kube::Error),
}

/// For a program that runs in the cluster: the file that is named, else the pod's own account, else the usual kubeconfig.
///
/// # Errors
/// See [`Unreachable`]. No request is made yet.
pub async fn of_service(file: Option<&Path>) -> Result<Client, Unreachable> {
    let config = match (file, Config::incluster()) {
        (Some(file), _) => named(file, &KubeConfigOptions::default()).await?,
        (None, Ok(config)) => config,
        (None, Err(_)) => usual(&KubeConfigOptions::default()).await?,
    };
    Ok(Client::try_from(config)?)
}

/// For a person at a terminal, in `kubectl`'s order: the file that is named, else the usual kubeconfig, else the pod's account.
///
/// # Errors
/// See [`Unreachable`]. No request is made yet.
pub async fn of_person(file: Option<&Path>, context: Option<&str>) -> Result<Client, Unreachable> {
    let person = cluster::Person {
        kubeconfig: file.map(Path::to_owned),
        context: context.map(str::to_owned),
        ..cluster::Person::default()
    };
    Ok(cluster::Cluster::of(&person).await?.client().clone())
}

async fn named(file: &Path, options: &KubeConfigOptions) -> Result<Config, Unreachable> {
    let wrong = |why| Unreachable::File { file: file.to_owned(), why };
    let read = Kubeconfig::read_from(file).map_err(wrong)?;
    Config::from_custom_kubeconfig(read, options).await.map_err(wrong)
}

async fn usual(options: &KubeConfigOptions) -> Result<Config, Unreachable> {
    Config::from_kubeconfig(options).await.map_err(Unreachable::Nowhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_named_is_the_only_one_that_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let check = async |text: Option<&str>, expected: &str| {
            let file = folder.path().join("config");
            text.map(|text| std::fs::write(&file, text)).transpose().unwrap();
            let outcome = of_service(Some(&file)).await;
            let shown = outcome.map_or_else(|wrong| wrong.to_string(), |_| "a client".to_owned());
            assert!(shown.contains(expected), "{shown}");
        };
        check(None, "failed to read").await;
        check(Some("a: ["), "config: ").await;
        check(Some("apiVersion: v1\nkind: Config\n"), "config: ").await;
        let whole = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
            clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n\
            users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n";
        check(Some(whole), "a client").await;
        let missing = of_person(Some(&folder.path().join("config")), Some("other")).await;
        assert!(missing.is_err());
    }
}
