//! Session persistence: the token of a request, the endpoint that it names, and the token of the response.
//!
//! A token counts only if its MAC is right, its times are over for neither timeout, and its backend is one of the rule.
//! Any other token is treated as none, and the response carries a new one. A proxy keeps nothing about sessions.

use crate::request::view::View;
use leno_model::name::Resource;
use leno_model::persistence::{
    Carrier, Keys, MAC_BYTES, Persistence, TOKENS_MAX, Token, cookie_path, cookies, regex_path,
};
use leno_model::route::{
    Backend, Distribution, HeaderChange, HttpRule, PathMatch, RequestView as _,
};
use leno_model::workload::Endpoint;
use leno_tls::mac::{MacKey, is_equal};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// The session of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    persistence: Arc<Persistence>,
    keys: Keys,
    /// What the client holds.
    held: Option<Token>,
    /// Hash of the backend that the request goes to.
    backend: u32,
    now_millis: u64,
    /// `Path` of the cookie.
    path: Option<Arc<str>>,
    /// The client has reached the mesh by HTTPS.
    is_secure: bool,
    /// Hash of the endpoint of the latest attempt.
    sent_to: Cell<Option<u64>>,
}

/// The backend of a request of a rule with sessions, and its session. `draw` chooses the backend of a new session.
#[must_use]
pub fn begin(
    rule: &HttpRule,
    view: &View<'_>,
    now: Duration,
    draw: impl FnOnce() -> Option<usize>,
) -> (Option<usize>, Option<Box<Session>>) {
    let now_millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let known = || rule.persistence.iter().filter_map(|one| Some((one, one.keys.as_ref()?)));
    let held = known().find_map(|(persistence, keys)| {
        let (number, token) = held(rule, (persistence, keys), view, now_millis)?;
        Some((number, token, persistence, keys))
    });
    let found = match held {
        Some((number, token, persistence, keys)) => Some((number, Some(token), persistence, keys)),
        None => {
            let Some(number) = draw() else { return (None, None) };
            let mut known = known();
            let Some((persistence, keys)) = known.find(|(one, _)| is_for(one, number)) else {
                return (Some(number), None);
            };
            Some((number, None, persistence, keys))
        }
    };
    let Some((number, held, persistence, keys)) = found else { return (None, None) };
    let Some(backend) = backends(&rule.backends).nth(number) else { return (Some(number), None) };
    let session = Session {
        persistence: persistence.clone(),
        keys: *keys,
        held,
        backend: backend_hash(keys, backend),
        now_millis,
        path: path(rule, persistence, view),
        is_secure: view.any_header("x-forwarded-proto", &mut |scheme| scheme == "https"),
        sent_to: Cell::new(None),
    };
    (Some(number), Some(Box::new(session)))
}

fn is_for(persistence: &Persistence, backend: usize) -> bool {
    persistence.backend.is_none_or(|number| number as usize == backend)
}

fn backends(distribution: &Distribution) -> impl Iterator<Item = &Backend> {
    let (first, weighted) = match distribution {
        Distribution::Empty => (&[][..], &[][..]),
        Distribution::First(backends) => (backends.get(..1).unwrap_or_default(), &[][..]),
        Distribution::Random(weighted) => (&[][..], weighted.as_slice()),
    };
    first.iter().chain(weighted.iter().map(|(backend, _)| backend))
}

/// The first good token of a request, and the place of its backend in the rule.
fn held(
    rule: &HttpRule,
    (persistence, keys): (&Persistence, &Keys),
    view: &View<'_>,
    now_millis: u64,
) -> Option<(usize, Token)> {
    let mac = MacKey::new(&keys.token);
    let mut looked_at = 0;
    let mut found = None;
    let mut look = |text: &str| {
        if looked_at == TOKENS_MAX {
            return true;
        }
        let Some((token, sent)) = Token::read(text) else { return false };
        looked_at += 1;
        if !is_equal(&sent, &mac_of(&mac, &token)) || !token.is_alive(persistence, now_millis) {
            return false;
        }
        let place = backends(&rule.backends).enumerate().find(|(number, backend)| {
            is_for(persistence, *number) && backend_hash(keys, backend) == token.backend
        });
        found = place.map(|(number, _)| (number, token));
        found.is_some()
    };
    match persistence.carrier {
        Carrier::Header => view.any_header(&persistence.name, &mut look),
        Carrier::Cookie { .. } => view
            .any_header("cookie", &mut |header| cookies(header, &persistence.name).any(&mut look)),
    };
    found
}

fn mac_of(key: &MacKey, token: &Token) -> [u8; MAC_BYTES] {
    let mut half = [0; MAC_BYTES];
    half.copy_from_slice(&key.mac(&[&token.fields()])[..MAC_BYTES]);
    half
}

fn backend_hash(keys: &Keys, backend: &Backend) -> u32 {
    let resource = &backend.resource;
    let port = match resource {
        Resource::Object { port, .. } => *port,
        _ => 0,
    };
    let (namespace, name) = (resource.namespace().as_bytes(), resource.name().as_bytes());
    let mac = MacKey::new(&keys.endpoint);
    let hash = mac.mac(&[b"backend\0", namespace, b"/", name, &port.to_be_bytes()]);
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// A pod keeps its hash when it changes its address, and has the same hash by its addresses of both families.
fn endpoint_hash(keys: &Keys, endpoint: &Endpoint) -> u64 {
    let mac = MacKey::new(&keys.endpoint);
    let port = endpoint.address.port().to_be_bytes();
    let hash = match &endpoint.resource {
        Some(pod) => {
            let (namespace, name) = (pod.namespace().as_bytes(), pod.name().as_bytes());
            mac.mac(&[b"pod\0", namespace, b"/", name, &port])
        }
        None => mac.mac(&[b"address\0", endpoint.address.to_string().as_bytes()]),
    };
    let [a, b, c, d, e, f, g, h, ..] = hash;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// `Path` of the cookie: the path that the route matched. The policy of a Service leaves it out, because many routes lead there.
fn path(rule: &HttpRule, persistence: &Persistence, view: &View<'_>) -> Option<Arc<str>> {
    let is_cookie = matches!(persistence.carrier, Carrier::Cookie { .. });
    if !is_cookie || persistence.backend.is_some() {
        return None;
    }
    let matching = rule.matches.iter().filter_map(|one| one.path.as_ref());
    let matching = matching.filter(|path| path.matches(view.path()));
    let longest = matching.max_by_key(|path| match path {
        PathMatch::Exact(path) => (2, path.len()),
        PathMatch::Prefix(path) => (1, path.len()),
        PathMatch::Regex(_) => (0, 0),
    });
    let path = match longest {
        None => "/",
        Some(PathMatch::Exact(path) | PathMatch::Prefix(path)) => cookie_path(path),
        Some(PathMatch::Regex(pattern)) => regex_path(pattern.as_str()),
    };
    Some(path.into())
}

/// The hash of one endpoint, for the key that it was made with.
#[derive(Debug, Default)]
pub struct EndpointHash(Cell<Option<(u64, u64)>>);

impl EndpointHash {
    fn get(&self, keys: &Keys, endpoint: &Endpoint) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = keys.endpoint;
        let key = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        match self.0.get() {
            Some((known, hash)) if known == key => hash,
            _ => {
                let hash = endpoint_hash(keys, endpoint);
                self.0.set(Some((key, hash)));
                hash
            }
        }
    }
}

impl Session {
    /// Whether the client's token names this endpoint.
    #[must_use]
    pub fn is_with(&self, endpoint: &Endpoint, hash: &EndpointHash) -> bool {
        self.held.is_some_and(|held| held.endpoint == hash.get(&self.keys, endpoint))
    }

    /// Whether the client holds a token.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// An attempt goes to this endpoint.
    pub fn sent_to(&self, endpoint: &Endpoint, hash: &EndpointHash) {
        self.sent_to.set(Some(hash.get(&self.keys, endpoint)));
    }

    /// What the response says of the session; `None` where the client's cookie is still right.
    #[must_use]
    pub fn response(&self) -> Option<HeaderChange> {
        let endpoint = self.sent_to.get()?;
        let stays = self.held.filter(|held| held.endpoint == endpoint);
        let is_cookie = matches!(self.persistence.carrier, Carrier::Cookie { .. });
        let is_timed = self.persistence.idle_timeout.is_some();
        if stays.is_some() && is_cookie && !is_timed {
            return None;
        }
        let fresh = Token {
            backend: self.backend,
            endpoint,
            begun_millis: self.now_millis,
            used_millis: self.now_millis,
        };
        let token = match stays {
            Some(held) if is_timed => Token { begun_millis: held.begun_millis, ..fresh },
            Some(held) => held,
            None => fresh,
        };
        let text = token.text(mac_of(&MacKey::new(&self.keys.token), &token));
        Some(match self.persistence.carrier {
            Carrier::Header => HeaderChange {
                set: vec![(self.persistence.name.clone(), text.into())],
                ..HeaderChange::default()
            },
            Carrier::Cookie { is_permanent } => HeaderChange {
                add: vec![("set-cookie".into(), self.cookie(&token, &text, is_permanent).into())],
                ..HeaderChange::default()
            },
        })
    }

    fn cookie(&self, token: &Token, text: &str, is_permanent: bool) -> String {
        let mut cookie = format!("{}={text}", self.persistence.name);
        if let Some(path) = &self.path {
            cookie.push_str("; Path=");
            cookie.push_str(path);
        }
        if let Some(life) = self.persistence.absolute_timeout.filter(|_| is_permanent) {
            let age = Duration::from_millis(self.now_millis.saturating_sub(token.begun_millis));
            cookie.push_str(&format!("; Max-Age={}", life.saturating_sub(age).as_secs()));
        }
        cookie.push_str("; HttpOnly; SameSite=Strict");
        if self.is_secure {
            cookie.push_str("; Secure");
        }
        cookie
    }
}

#[cfg(test)]
mod tests;
