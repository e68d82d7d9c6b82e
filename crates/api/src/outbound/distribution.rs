//! The one shape that four kinds of routes share, in four sets of message types: a macro for each direction.

/// Defines `distribution` and `distribution_message` for the message types in `$module`, with a reader and a writer of a
/// backend: the two places where the kinds differ. Each gets the place of the backend.
macro_rules! distribution {
    ($module:ident) => {
        pub(super) fn distribution(
            message: Option<&message::$module::Distribution>,
            read_backend: impl Fn(usize, &message::$module::RouteBackend) -> Result<Backend, WireError>,
        ) -> Result<Distribution, WireError> {
            use message::$module::distribution::Kind;
            let kind = message.and_then(|distribution| distribution.kind.as_ref());
            match kind.ok_or(WireError::Missing("backends.kind"))? {
                Kind::Empty(_) => Ok(Distribution::Empty),
                Kind::FirstAvailable(first) => {
                    parts::at_most(first.backends.len(), BACKENDS_MAX, "backends")?;
                    let backends = first.backends.iter().enumerate();
                    let backends = backends.map(|(number, one)| read_backend(number, one));
                    Ok(Distribution::First(backends.collect::<Result<_, _>>()?))
                }
                Kind::RandomAvailable(random) => {
                    parts::at_most(random.backends.len(), BACKENDS_MAX, "backends")?;
                    let backends = random.backends.iter().enumerate().map(|(number, weighted)| {
                        let backend = weighted.backend.as_ref();
                        let backend = backend.ok_or(WireError::Missing("backends.backend"))?;
                        Ok((read_backend(number, backend)?, weighted.weight))
                    });
                    Ok(Distribution::Random(backends.collect::<Result<_, WireError>>()?))
                }
            }
        }

        pub(super) fn distribution_message(
            distribution: &Distribution,
            mut write_backend: impl FnMut(
                usize,
                &Backend,
            ) -> Result<message::$module::RouteBackend, WireError>,
        ) -> Result<message::$module::Distribution, WireError> {
            use message::$module::WeightedRouteBackend;
            use message::$module::distribution::{Empty, FirstAvailable, Kind, RandomAvailable};
            let kind = match distribution {
                Distribution::Empty => Kind::Empty(Empty {}),
                Distribution::First(backends) => Kind::FirstAvailable(FirstAvailable {
                    backends: (backends.iter().enumerate())
                        .map(|(number, backend)| write_backend(number, backend))
                        .collect::<Result<_, _>>()?,
                }),
                Distribution::Random(weighted) => {
                    let backends = weighted.iter().enumerate().map(|(number, (backend, weight))| {
                        Ok(WeightedRouteBackend {
                            backend: Some(write_backend(number, backend)?),
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
