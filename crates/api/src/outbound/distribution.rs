//! The one shape that four kinds of routes share, in four sets of message types: a macro for each direction.

/// Defines `distribution`, `distribution_message` and `backends` for the message types in `$module`, with a reader of a
/// backend's filters and a writer of a backend: the two places where the kinds differ.
macro_rules! distribution {
    ($module:ident, $read_backend:path, $write_backend:path) => {
        pub(super) fn distribution(
            message: Option<&message::$module::Distribution>,
        ) -> Result<Distribution, WireError> {
            use message::$module::distribution::Kind;
            let kind = message.and_then(|distribution| distribution.kind.as_ref());
            match kind.ok_or(WireError::Missing("backends.kind"))? {
                Kind::Empty(_) => Ok(Distribution::Empty),
                Kind::FirstAvailable(first) => {
                    parts::at_most(first.backends.len(), BACKENDS_MAX, "backends")?;
                    let backends = first.backends.iter().map($read_backend);
                    Ok(Distribution::First(backends.collect::<Result<_, _>>()?))
                }
                Kind::RandomAvailable(random) => {
                    parts::at_most(random.backends.len(), BACKENDS_MAX, "backends")?;
                    let backends = random.backends.iter().map(|weighted| {
                        let backend = weighted.backend.as_ref();
                        let backend = backend.ok_or(WireError::Missing("backends.backend"))?;
                        Ok(($read_backend(backend)?, weighted.weight))
                    });
                    Ok(Distribution::Random(backends.collect::<Result<_, WireError>>()?))
                }
            }
        }

        pub(super) fn distribution_message(
            distribution: &Distribution,
        ) -> Result<message::$module::Distribution, WireError> {
            use message::$module::WeightedRouteBackend;
            use message::$module::distribution::{Empty, FirstAvailable, Kind, RandomAvailable};
            let kind = match distribution {
                Distribution::Empty => Kind::Empty(Empty {}),
                Distribution::First(backends) => Kind::FirstAvailable(FirstAvailable {
                    backends: backends.iter().map($write_backend).collect::<Result<_, _>>()?,
                }),
                Distribution::Random(weighted) => {
                    let backends = weighted.iter().map(|(backend, weight)| {
                        Ok(WeightedRouteBackend {
                            backend: Some($write_backend(backend)?),
                            weight: *weight,
                        })
                    });
                    Kind::RandomAvailable(RandomAvailable {
                        backends: backends.collect::<Result<_, WireError>>()?,
                    })
                }
            };
            Ok(message::$module::Distribution { kind: Some(kind) })
        }
    };
}

pub(super) use distribution;
