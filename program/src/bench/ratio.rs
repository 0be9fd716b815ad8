//! A ratio that was measured in several rounds, and the budget that it should keep. Pure.

use serde::Serialize;

/// A ratio, or another figure, over all rounds of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Ratio {
    #[serde(rename = "ratio")]
    pub(super) median: f64,
    #[serde(rename = "ratio_min")]
    pub(super) min: f64,
    #[serde(rename = "ratio_max")]
    pub(super) max: f64,
}

/// A bound that a ratio should keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Budget {
    AtLeast(f64),
    AtMost(f64),
}

impl Ratio {
    /// Sums up the ratios of the rounds. The machine's speed affects both figures of a round, so they are not compared
    /// across rounds.
    pub(super) fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = rounds.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let nth = |nth: usize| all.get(nth).copied().unwrap_or(f64::NAN);
        Self { median: nth(all.len() / 2), min: nth(0), max: nth(all.len().saturating_sub(1)) }
    }
}

/// Returns the median, the upper one of two.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Ratio::of(values).median
}

impl Budget {
    /// Returns the budget, and whether the ratio keeps it.
    pub(super) fn judge(self, ratio: &Ratio) -> String {
        let (sign, bound) = match self {
            Self::AtLeast(bound) => ('≥', bound),
            Self::AtMost(bound) => ('≤', bound),
        };
        format!("{sign} {bound:.2} ({})", self.verdict(ratio))
    }

    /// Returns whether the figure keeps the budget. Rounds that differ by more than the distance to the budget decide
    /// nothing, and neither does a single round, whose noise is not known.
    pub(super) fn verdict(self, figure: &Ratio) -> &'static str {
        let (bound, kept) = match self {
            Self::AtLeast(bound) => (bound, figure.median >= bound),
            Self::AtMost(bound) => (bound, figure.median <= bound),
        };
        let spread = figure.max - figure.min;
        if spread <= 0.0 {
            "one round"
        } else if spread > (figure.median - bound).abs() {
            "noise"
        } else if kept {
            "met"
        } else {
            "missed"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_the_median_and_the_extremes_of_its_rounds() {
        let ratio = Ratio::of([0.5, 0.1, 0.4, 0.2, 0.3]);
        assert_eq!(ratio, Ratio { median: 0.3, min: 0.1, max: 0.5 });
        assert_eq!(Ratio::of([0.7]), Ratio { median: 0.7, min: 0.7, max: 0.7 });
        assert_eq!(median([2.0, 1.0]), 2.0);
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_spread_beyond_the_distance_to_the_budget_is_noise() {
        let judge = |budget: Budget, rounds: [f64; 3]| budget.judge(&Ratio::of(rounds));
        assert_eq!(judge(Budget::AtLeast(0.33), [0.40, 0.41, 0.42]), "≥ 0.33 (met)");
        assert_eq!(judge(Budget::AtLeast(0.33), [0.06, 0.07, 0.08]), "≥ 0.33 (missed)");
        assert_eq!(judge(Budget::AtLeast(0.33), [0.30, 0.34, 0.38]), "≥ 0.33 (noise)");
        assert_eq!(judge(Budget::AtMost(1.1), [1.01, 1.02, 1.03]), "≤ 1.10 (met)");
        assert_eq!(judge(Budget::AtMost(1.1), [1.20, 1.21, 1.22]), "≤ 1.10 (missed)");
        assert_eq!(Budget::AtLeast(0.33).judge(&Ratio::of([0.9])), "≥ 0.33 (one round)");
    }
}
