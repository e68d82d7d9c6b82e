//! Two meshes with the same parameters, repetitions paired by block.

use super::bootstrap::{self, DRAWS, Draws};
use super::figure::Figure;
use super::metric::{self, COMPARED, Name, Source};
use super::rank;
use super::{Effect, noise, taken};
use crate::result::{Cell, Comparison, Run};

/// Below this p a difference counts.
const LEVEL: f64 = 0.05;

/// Every figure that both cells have, compared; `p_holm` is filled in when all of a campaign are known.
pub(super) fn compare(a: &Cell, b: &Cell, draws: usize, seed: u64) -> Vec<Comparison> {
    let (left, right) = paired(a, b);
    let (left, right) = (Source::new(left), Source::new(right));
    let draws = Draws::new(left.runs.len(), draws, seed);
    let cell = super::cell_words(a);
    COMPARED
        .iter()
        .filter_map(|metric| {
            let name = Name::parse(metric)?;
            if !left.quotable(&name) || !right.quotable(&name) {
                return None;
            }
            let figures = (left.figure(&name)?, right.figure(&name)?);
            let compared = one(&figures.0, &figures.1, &draws, seed, name.more_is_better())?;
            Some(Comparison {
                a: a.mesh.clone(),
                b: b.mesh.clone(),
                cell: cell.clone(),
                metric: (*metric).to_owned(),
                ..compared
            })
        })
        .collect()
}

/// One figure of both: the pooled difference, its interval over blocks, and the test of the blocks' own differences.
fn one(
    a: &Figure,
    b: &Figure,
    draws: &Draws,
    seed: u64,
    more_is_better: bool,
) -> Option<Comparison> {
    let (value_a, value_b) = (a.whole()?, b.whole()?);
    let ci95 = draws.interval(|weights| Some(b.at(weights)? - a.at(weights)?));
    let ratio_ci95 = draws.interval(|weights| {
        let below = a.at(weights)?;
        (below != 0.0).then_some(b.at(weights)? / below)
    });
    let own = |figure: &Figure| -> Option<Vec<f64>> {
        (0..figure.runs()).map(|block| figure.of_run(block)).collect()
    };
    let (own_a, own_b) = (own(a)?, own(b)?);
    let differences: Vec<f64> = own_a.iter().zip(&own_b).map(|(a, b)| b - a).collect();
    let p = rank::signed_rank(&differences);
    // Absent with too few blocks: a band of 0 would say that chance does nothing.
    let noise_band = noise::paired_band(&own_a, &own_b, seed)
        .map(|share| share * value_a.abs().max(value_b.abs()));
    let diff = value_b - value_a;
    let effect = noise_band.map_or(Effect::Unknown, |band| {
        let clear = p.is_none_or(|p| p < LEVEL);
        Effect::of(diff, ci95, if clear { band } else { f64::INFINITY }, more_is_better)
    });
    Some(Comparison {
        diff,
        ratio: (value_a != 0.0).then(|| value_b / value_a),
        ratio_ci95,
        ci95,
        p,
        noise_band,
        pairs: a.runs() as u64,
        effect: effect.to_string(),
        ..Comparison::default()
    })
}

/// One figure of the same cell in two campaigns, which had nothing in common but the machine (if that).
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) metric: &'static str,
    pub(crate) a: f64,
    pub(crate) b: f64,
    pub(crate) ci95: Option<[f64; 2]>,
    /// Absolute; absent if either side has too few repetitions.
    pub(crate) noise_band: Option<f64>,
    pub(crate) effect: Effect,
    /// Wilcoxon's rank sum of the repetitions, two-sided; absent with fewer than four in either.
    pub(crate) p: Option<f64>,
    /// The same, corrected for everything that was compared.
    pub(crate) p_holm: Option<f64>,
}

/// Every figure that a cell has in both of two campaigns and that the mesh answers for. A change below `tolerance` (a share of `a`) is none.
pub(crate) fn changes(a: &Cell, b: &Cell, tolerance: f64, seed: u64) -> Vec<Change> {
    let (left, right) = (Source::new(taken(a).collect()), Source::new(taken(b).collect()));
    COMPARED
        .iter()
        .filter_map(|metric| {
            let name = Name::parse(metric).filter(metric::is_judged)?;
            if !left.quotable(&name) || !right.quotable(&name) {
                return None;
            }
            let (a, b) = (left.figure(&name)?, right.figure(&name)?);
            let (value_a, value_b) = (a.whole()?, b.whole()?);
            let ci95 = bootstrap::unpaired(&a, &b, DRAWS, seed);
            let absolute = |figure: &Figure, value: f64| {
                noise::band(figure, seed).map(|share| share * value.abs())
            };
            // The wider one of the two; with one of them alone the wider one is not known.
            let noise_band = absolute(&a, value_a)
                .zip(absolute(&b, value_b))
                .map(|(one, other)| one.max(other).max(tolerance * value_a.abs()));
            let effect = noise_band.map_or(Effect::Unknown, |band| {
                Effect::of(value_b - value_a, ci95, band, name.more_is_better())
            });
            let own = |figure: &Figure| -> Option<Vec<f64>> {
                (0..figure.runs()).map(|run| figure.of_run(run)).collect()
            };
            let p = rank::rank_sum(&own(&a)?, &own(&b)?);
            let (a, b) = (value_a, value_b);
            Some(Change { metric, a, b, ci95, noise_band, effect, p, p_holm: None })
        })
        .collect()
}

/// The repetitions of both that ran in the same block.
fn paired<'a>(a: &'a Cell, b: &'a Cell) -> (Vec<&'a Run>, Vec<&'a Run>) {
    let others: Vec<&Run> = taken(b).collect();
    taken(a)
        .filter_map(|run| {
            others.iter().find(|other| other.block == run.block).map(|other| (run, *other))
        })
        .unzip()
}

/// Corrects all p of a comparison of campaigns together.
pub(crate) fn correct_changes<'a>(changes: impl Iterator<Item = &'a mut Change>) {
    let mut tested: Vec<&mut Change> = changes.filter(|one| one.p.is_some()).collect();
    let all: Vec<f64> = tested.iter().filter_map(|one| one.p).collect();
    for (one, corrected) in tested.iter_mut().zip(rank::holm(&all)) {
        one.p_holm = Some(corrected);
    }
}

/// Corrects all p of a campaign together.
pub(super) fn correct(comparisons: &mut [Comparison]) {
    let tested: Vec<f64> = comparisons.iter().filter_map(|one| one.p).collect();
    let mut corrected = rank::holm(&tested).into_iter();
    for one in comparisons.iter_mut().filter(|one| one.p.is_some()) {
        one.p_holm = corrected.next();
    }
}
