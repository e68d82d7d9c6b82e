//! Certificates that a test brings into the mesh.

use crate::ground::kubectl;
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leno_tests::authority::issuer_below;
use serde_json::{Value, json};
use time::Duration;

/// What makes them the content of a Secret.
pub(crate) fn pair(certificate: &str, key: &str) -> Value {
    let data = json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)});
    json!({"data": data})
}

/// The same, with whom its clients trust.
pub(crate) fn pair_below(authority: &str, certificate: &str, key: &str) -> Value {
    let mut secret = pair(certificate, key);
    secret["data"]["ca.crt"] = STANDARD.encode(authority).into();
    secret
}

/// An issuer that the mesh's own root has signed, until then from now.
///
/// # Errors
/// When the root is not in the cluster.
pub(crate) fn issuer(until: Duration) -> Result<Value> {
    let root = kubectl::json(&["-n", "leno", "get", "secret/leno-identity-root", "-o", "json"])?;
    let field = |name: &str| -> Result<String> {
        let text = root["data"][name].as_str().unwrap_or_default();
        Ok(String::from_utf8(STANDARD.decode(text)?)?)
    };
    let (certificate, key) = issuer_below(&field("tls.crt")?, &field("tls.key")?, until)?;
    Ok(pair(&certificate, &key))
}
