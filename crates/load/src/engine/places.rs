//! Where the requests of one thread go: one place, or any of several by weight. Pure.

use crate::client::target::Target;
use crate::plan::Choice;
use leno_runtime::random::Random;
use std::rc::Rc;

/// All places of a plan.
#[derive(Debug)]
pub(super) struct Places {
    targets: Vec<Rc<Target>>,
    /// The sum of weights up to each place; empty where there is one.
    bounds: Vec<u64>,
    /// How many hosts they are on.
    pub(super) hosts: usize,
}

impl Places {
    /// `choices` are those that the targets were made of, or none for a single one.
    pub(super) fn new(targets: &[Target], choices: &[Choice]) -> Self {
        let mut sum = 0;
        let bounds = choices.iter().map(|choice| {
            sum += u64::from(choice.weight);
            sum
        });
        Self {
            bounds: bounds.collect(),
            hosts: targets.iter().map(|target| target.host + 1).max().unwrap_or(1),
            targets: targets.iter().cloned().map(Rc::new).collect(),
        }
    }

    /// Where the next request goes.
    pub(super) fn pick(&self, random: &Random) -> &Rc<Target> {
        let drawn = match self.bounds.last() {
            Some(whole) => {
                let point = random.below(usize::try_from(*whole).unwrap_or(usize::MAX)) as u64;
                self.bounds.partition_point(|bound| *bound <= point)
            }
            None => 0,
        };
        &self.targets[drawn]
    }

    /// The one place, if there is only one.
    pub(super) fn only(&self) -> Option<&Rc<Target>> {
        match self.targets.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn places_are_drawn_by_weight() {
        let mut plan = Plan::new("http://127.0.0.1:1/0".parse().expect("a URL"));
        let places = [
            ("http://127.0.0.1:1/0", 10),
            ("http://127.0.0.1:2/1", 5),
            ("http://127.0.0.1:1/2", 5),
        ];
        plan.urls = places
            .map(|(url, weight)| Choice { url: url.parse().expect("a URL"), weight })
            .into_iter()
            .collect();
        let targets = Target::all(&plan).expect("addresses");
        let places = Places::new(&targets, &plan.urls);
        assert!(places.hosts == 2 && places.only().is_none());
        let random = Random::seeded(7);
        let mut drawn = [0_u32; 3];
        for _ in 0..20_000 {
            let place = places.pick(&random).path.trim_start_matches('/').parse::<usize>();
            drawn[place.expect("a number")] += 1;
        }
        for (seen, expected) in drawn.into_iter().zip([10_000_u32, 5_000, 5_000]) {
            assert!(seen.abs_diff(expected) < 400, "{drawn:?}");
        }
        plan.urls.clear();
        let one = Places::new(&Target::all(&plan).expect("an address"), &plan.urls);
        assert_eq!((one.pick(&random).path.as_str(), one.hosts), ("/0", 1));
        assert!(one.only().is_some());
    }
}
