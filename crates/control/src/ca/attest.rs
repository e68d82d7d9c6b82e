//! A token to the workload that it names; and tokens made here. The shape is Kubernetes' bound service-account token.

use super::Refused;
use crate::limit::TOKEN_BYTES_MAX;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};

/// The audience of tokens; a token for another service is rejected.
pub const AUDIENCE: &str = "leno.dev/identity";
/// The issuer of tokens on one machine, without Kubernetes.
pub const ISSUER: &str = "leno-control";
/// Clocks of two machines differ by this much.
const CLOCK_SKEW_SECONDS: u64 = 10;

/// The workload that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attested {
    pub namespace: String,
    pub service_account: String,
    pub pod: String,
}

/// The claims of a bound service-account token.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Claims {
    aud: Vec<String>,
    exp: u64,
    iat: u64,
    iss: String,
    #[serde(rename = "kubernetes.io")]
    bound: Bound,
    nbf: u64,
    sub: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Bound {
    namespace: String,
    pod: Object,
    serviceaccount: Object,
}

#[derive(Clone, Serialize, Deserialize)]
struct Object {
    name: String,
    #[serde(default)]
    uid: String,
}

impl Claims {
    /// Whether the token was made for this mesh.
    pub(super) fn is_for_us(&self) -> bool {
        self.aud.iter().any(|audience| audience == AUDIENCE)
    }

    /// Whether the token is valid at `now`.
    pub(super) fn check_time(&self, now: u64) -> Result<(), Refused> {
        if now >= self.exp.saturating_add(CLOCK_SKEW_SECONDS) {
            return Err(Refused::Token("it has expired".to_owned()));
        }
        if now.saturating_add(CLOCK_SKEW_SECONDS) < self.nbf {
            return Err(Refused::Token("it is not valid yet".to_owned()));
        }
        Ok(())
    }
}

/// The claims of a token that names a pod. Its signature is not checked.
pub(super) fn claims_without_proof(token: &str) -> Option<Claims> {
    let claims = jsonwebtoken::dangerous::insecure_decode_claims::<Claims>(token).ok()?;
    (!claims.bound.pod.name.is_empty()).then_some(claims)
}

/// Makes and checks tokens with one ES256 key.
pub struct Tokens {
    signing: EncodingKey,
    checking: DecodingKey,
}

impl Tokens {
    /// With the key that is kept in the state directory.
    ///
    /// # Errors
    /// The key is not an ECDSA P-256 key.
    pub fn new(key: &KeyPair) -> Result<Self, String> {
        let signing = EncodingKey::from_ec_pem(key.serialize_pem().as_bytes())
            .map_err(|error| format!("the token key: {error}"))?;
        Ok(Self { signing, checking: DecodingKey::from_ec_der(key.public_key_raw()) })
    }

    /// A token for a workload, valid for `life_seconds` from `now` (seconds of Unix time).
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&self, who: &Attested, now: u64, life_seconds: u64) -> Result<String, String> {
        let named = |name: &str| Object { name: name.to_owned(), uid: String::new() };
        self.sign_claims(&Claims {
            aud: vec![AUDIENCE.to_owned()],
            exp: now.saturating_add(life_seconds),
            iat: now,
            iss: ISSUER.to_owned(),
            bound: Bound {
                namespace: who.namespace.clone(),
                pod: named(&who.pod),
                serviceaccount: named(&who.service_account),
            },
            nbf: now,
            sub: format!("system:serviceaccount:{}:{}", who.namespace, who.service_account),
        })
    }

    fn sign_claims(&self, claims: &Claims) -> Result<String, String> {
        jsonwebtoken::encode(&Header::new(Algorithm::ES256), claims, &self.signing)
            .map_err(|error| error.to_string())
    }

    /// The workload that the token names, at `now`.
    ///
    /// # Errors
    /// Why it proves nothing. The token itself is never part of a message.
    pub fn attest(&self, token: &[u8], now: u64) -> Result<Attested, Refused> {
        let wrong = |why: &str| Refused::Token(why.to_owned());
        if token.len() > TOKEN_BYTES_MAX {
            return Err(wrong("it is too large"));
        }
        let token = str::from_utf8(token).map_err(|_| wrong("it is not text"))?.trim();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[AUDIENCE]);
        validation.set_issuer(&[ISSUER]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        validation.validate_exp = false; // Below, with the time that is passed in.
        let claims = jsonwebtoken::decode::<Claims>(token, &self.checking, &validation)
            .map_err(|error| Refused::Token(error.to_string()))?
            .claims;
        claims.check_time(now)?;
        let Bound { namespace, pod, serviceaccount } = claims.bound;
        if claims.sub != format!("system:serviceaccount:{namespace}:{}", serviceaccount.name) {
            return Err(wrong("its subject does not match the pod that it is bound to"));
        }
        if pod.name.is_empty() {
            return Err(wrong("it is not bound to a pod"));
        }
        Ok(Attested { namespace, service_account: serviceaccount.name, pod: pod.name })
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn claims() -> Claims {
        let object = |name: &str| Object { name: name.to_owned(), uid: String::new() };
        Claims {
            aud: vec!["other".to_owned(), AUDIENCE.to_owned()],
            exp: NOW + 60,
            iat: NOW,
            iss: ISSUER.to_owned(),
            bound: Bound {
                namespace: "shop".into(),
                pod: object("web-1"),
                serviceaccount: object("web"),
            },
            nbf: NOW,
            sub: "system:serviceaccount:shop:web".to_owned(),
        }
    }

    #[test]
    fn tokens_name_their_workload_or_nothing() {
        let key = KeyPair::generate().unwrap();
        let tokens = Tokens::new(&key).unwrap();
        #[track_caller]
        fn verdict(tokens: &Tokens, token: &str, now: u64, expected: &str) {
            let shown = match tokens.attest(token.as_bytes(), now) {
                Ok(who) => format!("{}/{}/{}", who.namespace, who.service_account, who.pod),
                Err(refused) => refused.to_string(),
            };
            assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
        }
        let check = |change: &dyn Fn(&mut Claims), now: u64, expected: &str| {
            let mut claims = claims();
            change(&mut claims);
            verdict(&tokens, &tokens.sign_claims(&claims).unwrap(), now, expected);
        };
        check(&|_| (), NOW, "shop/web/web-1");
        check(&|_| (), NOW + 70, "it has expired");
        check(&|_| (), NOW - 11, "it is not valid yet");
        check(&|c| c.aud = vec!["https://kubernetes.default.svc".into()], NOW, "InvalidAudience");
        check(&|c| c.aud.clear(), NOW, "rejected");
        check(&|c| c.iss = "someone".into(), NOW, "InvalidIssuer");
        check(&|c| c.sub = "system:serviceaccount:shop:admin".into(), NOW, "does not match");
        check(&|c| c.bound.namespace = "kube-system".into(), NOW, "does not match");
        check(&|c| c.bound.pod.name.clear(), NOW, "not bound to a pod");
        let who = Attested {
            namespace: "shop".into(),
            service_account: "web".into(),
            pod: "web-1".into(),
        };
        let good = tokens.sign(&who, NOW, 60).unwrap();
        verdict(&tokens, &format!("{good}\n"), NOW, "shop/web/web-1");
        // Signed by another key; changed; unsigned; not a token.
        let stranger = Tokens::new(&KeyPair::generate().unwrap()).unwrap();
        verdict(&tokens, &stranger.sign(&who, NOW, 60).unwrap(), NOW, "InvalidSignature");
        let other =
            tokens.sign(&Attested { service_account: "admin".into(), ..who }, NOW, 60).unwrap();
        let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
        let (good, other) = (parts(&good), parts(&other));
        verdict(&tokens, &[&*good[0], &other[1], &good[2]].join("."), NOW, "InvalidSignature");
        let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
        verdict(&tokens, &format!("{none}.{}.", good[1]), NOW, "rejected");
        verdict(&tokens, "", NOW, "rejected");
        verdict(&tokens, &"a".repeat(TOKEN_BYTES_MAX + 1), NOW, "too large");
    }
}
