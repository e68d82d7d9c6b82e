//! A container of a manifest to the process that is started: command, environment, files; pure.

use crate::manifest::{Key, Objects};
use k8s_openapi::api::core::v1::{Container, EnvVarSource, PodSpec, Volume};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the last step before the program needs to know; written as JSON for [`crate::stage`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Empty: the root directory.
    pub working_directory: String,
    /// The user it runs as.
    pub user: u32,
    /// The group it runs as.
    pub group: u32,
    /// A root of its own; without one it sees the machine's files.
    pub root: Option<Root>,
    /// Files that a program without a root of its own sees instead of the machine's: source, and place.
    pub over: Vec<(PathBuf, PathBuf)>,
}

/// The private, writable view of the machine's files that a container gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Where the layers are kept; on the pod's own tmpfs, so that nothing outlives the pod.
    pub directory: PathBuf,
    /// Where `emptyDir` volumes are kept; on the same tmpfs.
    pub scratch: PathBuf,
    /// Directories of the machine that look empty inside.
    pub hidden: Vec<PathBuf>,
    /// Volumes.
    pub mounts: Vec<Mount>,
    /// Files with their content that replace the machine's (`/etc/resolv.conf`, …).
    pub files: Vec<(String, String)>,
}

/// A volume at its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Name of the volume.
    pub volume: String,
    /// Where it appears.
    pub target: String,
    /// A file or directory inside the volume, instead of all of it.
    pub sub_path: String,
    /// Nothing can be written.
    pub read_only: bool,
    /// For a ConfigMap or Secret: the directory that holds its files.
    pub files: Option<PathBuf>,
}

/// What a container may ask about its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Name of the pod.
    pub pod: String,
    /// Namespace of the pod.
    pub namespace: String,
    pub service_account: String,
    /// Main address.
    pub address: String,
    /// All addresses, separated by commas.
    pub addresses: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// The container's environment, in order, with references resolved.
///
/// # Errors
/// Names the ConfigMap, Secret, key or field that does not exist.
pub fn environment(
    container: &Container,
    facts: &Facts,
    objects: &Objects,
) -> Result<Vec<(String, String)>, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or("");
        let (name, optional, values) = if let Some(map) = &source.config_map_ref {
            (&map.name, map.optional, config_map(objects, facts, &map.name))
        } else if let Some(secret) = &source.secret_ref {
            (&secret.name, secret.optional, self::secret(objects, facts, &secret.name))
        } else {
            continue;
        };
        match values {
            Some(values) => {
                for (key, value) in values {
                    set(&mut found, format!("{prefix}{key}"), value);
                }
            }
            None if optional == Some(true) => {}
            None => return Err(format!("envFrom: there is no ConfigMap or Secret {name:?}")),
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) => Some(expand(value, &found)),
            (None, Some(source)) => from_source(source, facts, objects)
                .map_err(|problem| format!("env {}: {problem}", variable.name))?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            set(&mut found, variable.name.clone(), value);
        }
    }
    Ok(found)
}

fn set(environment: &mut Vec<(String, String)>, name: String, value: String) {
    environment.retain(|(known, _)| *known != name);
    environment.push((name, value));
}

fn from_source(
    source: &EnvVarSource,
    facts: &Facts,
    objects: &Objects,
) -> Result<Option<String>, String> {
    if let Some(field) = &source.field_ref {
        return self::field(&field.field_path, facts).map(Some);
    }
    let (name, key, optional, values) = if let Some(wanted) = &source.config_map_key_ref {
        let values = config_map(objects, facts, &wanted.name);
        (&wanted.name, &wanted.key, wanted.optional, values)
    } else if let Some(wanted) = &source.secret_key_ref {
        let values = secret(objects, facts, &wanted.name);
        (&wanted.name, &wanted.key, wanted.optional, values)
    } else {
        return Err("valueFrom: leno up does not support this source".to_owned());
    };
    match values.and_then(|mut values| values.remove(key)) {
        Some(value) => Ok(Some(value)),
        None if optional == Some(true) => Ok(None),
        None => Err(format!("{name:?} has no key {key:?}")),
    }
}

fn field(path: &str, facts: &Facts) -> Result<String, String> {
    let keyed = |prefix: &str, values: &BTreeMap<String, String>| {
        let key = path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']")?;
        Some(values.get(key).cloned().unwrap_or_default())
    };
    Ok(match path {
        "metadata.name" => facts.pod.clone(),
        "metadata.namespace" => facts.namespace.clone(),
        "spec.serviceAccountName" => facts.service_account.clone(),
        "status.podIP" => facts.address.clone(),
        "status.podIPs" => facts.addresses.clone(),
        "status.hostIP" => crate::address::NODE_V4.to_string(),
        "spec.nodeName" => "leno".to_owned(),
        _ => keyed("metadata.labels", &facts.labels)
            .or_else(|| keyed("metadata.annotations", &facts.annotations))
            .ok_or_else(|| format!("fieldRef {path:?} is not supported"))?,
    })
}

fn config_map(objects: &Objects, facts: &Facts, name: &str) -> Option<BTreeMap<String, String>> {
    let key: Key = (facts.namespace.clone(), name.to_owned());
    Some(objects.config_maps.get(&key)?.data.clone().unwrap_or_default())
}

fn secret(objects: &Objects, facts: &Facts, name: &str) -> Option<BTreeMap<String, String>> {
    let key: Key = (facts.namespace.clone(), name.to_owned());
    let secret = objects.secrets.get(&key)?;
    let mut values = secret.string_data.clone().unwrap_or_default();
    for (name, bytes) in secret.data.iter().flatten() {
        values
            .entry(name.clone())
            .or_insert_with(|| String::from_utf8_lossy(&bytes.0).into_owned());
    }
    Some(values)
}

/// Kubernetes' expansion: `$(NAME)` of a known variable, `$$` for `$`; what is not known stays as it is.
#[must_use]
pub fn expand(text: &str, environment: &[(String, String)]) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            result.push('$');
            rest = escaped;
            continue;
        }
        let named = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        let known = named.and_then(|(name, tail)| {
            let value = environment.iter().find(|(known, _)| known == name)?;
            Some((&value.1, tail))
        });
        if let Some((value, tail)) = known {
            result.push_str(value);
            rest = tail;
        } else {
            result.push('$');
            rest = after;
        }
    }
    result.push_str(rest);
    result
}

/// `command` and `args` together, expanded.
///
/// # Errors
/// The container says nothing to run.
pub fn command(
    container: &Container,
    environment: &[(String, String)],
) -> Result<Vec<String>, String> {
    let words = container.command.iter().flatten().chain(container.args.iter().flatten());
    let command: Vec<String> = words.map(|word| expand(word, environment)).collect();
    if container.command.as_ref().is_none_or(Vec::is_empty) {
        return Err("needs `command`, because leno up uses no images".to_owned());
    }
    Ok(command)
}

/// The files of a volume, by name, where it is made of a ConfigMap or Secret; `None` for an `emptyDir`.
///
/// # Errors
/// Names what does not exist, or a kind of volume that is not known.
pub fn volume_files(
    volume: &Volume,
    facts: &Facts,
    objects: &Objects,
) -> Result<Option<BTreeMap<String, String>>, String> {
    let (values, items, name, optional) = if let Some(map) = &volume.config_map {
        (config_map(objects, facts, &map.name), &map.items, map.name.clone(), map.optional)
    } else if let Some(source) = &volume.secret {
        let name = source.secret_name.clone().unwrap_or_default();
        (secret(objects, facts, &name), &source.items, name, source.optional)
    } else if volume.empty_dir.is_some() {
        return Ok(None);
    } else {
        return Err(format!(
            "volume {:?}: only emptyDir, configMap and secret are supported",
            volume.name
        ));
    };
    let Some(mut values) = values else {
        return if optional == Some(true) {
            Ok(Some(BTreeMap::new()))
        } else {
            Err(format!("volume {:?}: there is no {name:?}", volume.name))
        };
    };
    let Some(items) = items else { return Ok(Some(values)) };
    let mut chosen = BTreeMap::new();
    for item in items {
        let value = values.remove(&item.key).ok_or_else(|| {
            format!("volume {:?}: {name:?} has no key {:?}", volume.name, item.key)
        })?;
        chosen.insert(item.path.clone(), value);
    }
    Ok(Some(chosen))
}

/// User and group: the container's setting, then the pod's, then root.
#[must_use]
pub fn user(container: &Container, pod: &PodSpec) -> (u32, u32) {
    let own = container.security_context.as_ref();
    let pods = pod.security_context.as_ref();
    let wanted = |own: Option<i64>, pods: Option<i64>| {
        own.or(pods).and_then(|id| u32::try_from(id).ok()).unwrap_or(0)
    };
    (
        wanted(own.and_then(|c| c.run_as_user), pods.and_then(|c| c.run_as_user)),
        wanted(own.and_then(|c| c.run_as_group), pods.and_then(|c| c.run_as_group)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expansion() {
        let environment = [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "two".to_owned())];
        for (text, expected) in [
            ("$(A)-$(B)", "1-two"),
            ("$$(A)", "$(A)"),
            ("$(C) $A $", "$(C) $A $"),
            ("$(A", "$(A"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &environment), expected, "{text}");
        }
    }

    #[test]
    fn environment_from_everywhere() {
        let mut objects = Objects::default();
        let map = serde_json::from_value(
            json!({"metadata": {"name": "m"}, "data": {"K": "v", "L": "w"}}),
        );
        objects.config_maps.insert(("n".into(), "m".into()), map.unwrap());
        let facts = Facts { pod: "p".into(), namespace: "n".into(), ..Facts::default() };
        let container = |value| serde_json::from_value::<Container>(value).unwrap();
        let all = container(json!({"name": "c",
            "envFrom": [{"prefix": "X_", "configMapRef": {"name": "m"}}],
            "env": [{"name": "A", "value": "$(X_K)!"}, {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "L"}}}]}));
        let found = environment(&all, &facts, &objects).unwrap();
        let found: Vec<String> =
            found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, ["X_K=v", "X_L=w", "A=v!", "P=p", "M=w"]);
        let missing = container(
            json!({"name": "c", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "Z"}}}]}),
        );
        assert_eq!(
            environment(&missing, &facts, &objects),
            Err("env A: \"m\" has no key \"Z\"".to_owned())
        );
    }
}
