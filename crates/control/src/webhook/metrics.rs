//! What the webhook counts. Nothing is shown until it serves.

use crate::metrics::Family;
use leno_inject::review::Verdict;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const OUTCOMES: [(Verdict, &str); 4] = [
    (Verdict::Injected, "injected"),
    (Verdict::Untouched, "untouched"),
    (Verdict::Refused, "refused"),
    (Verdict::Malformed, "malformed"),
];

/// Counters of the webhook.
#[derive(Debug, Default)]
pub struct InjectorSeen {
    admissions: [AtomicU64; OUTCOMES.len()],
    handshakes_failed: AtomicU64,
    /// Last second of the certificate, Unix time; 0 while there is none.
    expiry: AtomicU64,
    /// Whether the configuration says what it should: 1, 0, or -1 while nobody looks (the leader does).
    current: AtomicI64,
}

impl InjectorSeen {
    /// A review was answered.
    pub fn admitted(&self, verdict: Verdict) {
        let at = OUTCOMES.iter().position(|(known, _)| *known == verdict).unwrap_or(0);
        self.admissions[at].fetch_add(1, Ordering::Relaxed);
    }

    /// A TLS handshake with the webhook failed.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A certificate is served that ends then.
    pub fn serves(&self, not_after: u64) {
        self.expiry.store(not_after, Ordering::Relaxed);
    }

    /// Whether there is a certificate to serve with.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.expiry.load(Ordering::Relaxed) != 0
    }

    /// Whether `caBundle` and the rest are as they should be; `None` where another replica looks after it.
    pub fn configuration(&self, current: Option<bool>) {
        self.current.store(current.map_or(-1, i64::from), Ordering::Relaxed);
    }

    /// For the text exposition.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        let expiry = self.expiry.load(Ordering::Relaxed);
        if expiry == 0 {
            return Vec::new();
        }
        let admissions = OUTCOMES.iter().zip(&self.admissions).map(|((_, outcome), count)| {
            (format!("{{outcome=\"{outcome}\"}}"), count.load(Ordering::Relaxed).to_string())
        });
        let one = |value: String| vec![(String::new(), value)];
        let mut families = vec![
            Family {
                name: "leno_injector_admissions_total",
                kind: "counter",
                help: "Pods that the webhook answered, by outcome.",
                samples: admissions.collect(),
            },
            Family {
                name: "leno_injector_handshakes_failed_total",
                kind: "counter",
                help: "Failed TLS handshakes with the webhook.",
                samples: one(self.handshakes_failed.load(Ordering::Relaxed).to_string()),
            },
            Family {
                name: "leno_injector_certificate_expiry_timestamp_seconds",
                kind: "gauge",
                help: "Expiry of the webhook's certificate, in seconds since 1970.",
                samples: one(expiry.to_string()),
            },
        ];
        let current = self.current.load(Ordering::Relaxed);
        if current >= 0 {
            families.push(Family {
                name: "leno_injector_ca_bundle_current",
                kind: "gauge",
                help: "1 if the webhook configuration trusts the certificate, otherwise 0; only on the leader.",
                samples: one(current.to_string()),
            });
        }
        families
    }
}
