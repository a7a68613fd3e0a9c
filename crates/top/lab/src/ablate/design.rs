//! The combinations of switches that are run: all of them, or a fraction, with the effects that the
//! fraction cannot tell apart.
//!
//! Called by: `ablate`. A combination is a set of bits, one for each switch that is on.
//!
//! Source: G. E. P. Box, J. S. Hunter, W. G. Hunter, "Statistics for Experimenters", chapters on
//! two-level factorials and their fractions. docs/decisions/0098-ablation.md has the fractions.

/// The most switches.
pub(super) const FACTORS_MAX: usize = 10;

/// A set of combinations in which effects can be told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Design {
    pub(super) factors: usize,
    /// The combinations.
    pub(super) points: Vec<u32>,
    /// Products of switches that are the same in all combinations: a fraction's generators.
    pub(super) words: Vec<u32>,
}

/// The generators of a fraction, by the number of switches. Each generator decides one of the last
/// switches: that switch is on where the product of the generator's switches is on.
fn generators(factors: usize) -> &'static [u32] {
    match factors {
        5 => &[0b1111],
        6 => &[0b1_1111],
        7 => &[0b11_1111],
        // G = ABCD, H = ABEF.
        8 => &[0b1111, 0b11_0011],
        // H = ACDFG, J = BCEFG.
        9 => &[0b110_1101, 0b111_0110],
        // H = ABCG, J = BCDE, K = ACDF.
        10 => &[0b100_0111, 0b1_1110, 0b10_1101],
        _ => &[],
    }
}

impl Design {
    /// All combinations.
    pub(super) fn full(factors: usize) -> Design {
        Design { factors, points: (0..1 << factors).collect(), words: Vec::new() }
    }

    /// A half to an eighth of all combinations, in which no effect of one or two switches is mixed
    /// with another effect of one or two; all combinations for fewer than five switches.
    pub(super) fn fraction(factors: usize) -> Design {
        let generators = generators(factors);
        let base = factors - generators.len();
        let points = (0..1_u32 << base).map(|point| {
            let on = generators.iter().enumerate().filter(|(_, mask)| sign(point, **mask) > 0.0);
            on.fold(point, |all, (index, _)| all | 1 << (base + index))
        });
        let words = generators.iter().enumerate().map(|(index, mask)| mask | 1 << (base + index));
        Design { factors, points: points.collect(), words: words.collect() }
    }

    /// All products that are the same in every combination: two products are mixed with each other
    /// if they differ by one of these.
    pub(super) fn defining(&self) -> Vec<u32> {
        let subsets = 1_usize..1 << self.words.len();
        let product = |subset: usize| {
            let chosen = self.words.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1);
            chosen.fold(0, |all, (_, word)| all ^ word)
        };
        subsets.map(product).collect()
    }

    /// The number of switches in the shortest of these products. From 5 on, effects of one and two
    /// switches are mixed only with effects of three and more. `None` if nothing is mixed.
    pub(super) fn resolution(&self) -> Option<u32> {
        self.defining().into_iter().map(u32::count_ones).min()
    }

    /// The effect of a switch, or the interaction of several, from a value of each combination:
    /// the mean where the product is on, less the mean where it is off.
    pub(super) fn effect(&self, mask: u32, values: &[f64]) -> f64 {
        let terms = self.points.iter().zip(values).map(|(point, value)| sign(*point, mask) * value);
        terms.sum::<f64>() / (self.points.len() as f64 / 2.0)
    }

    /// One switch each, then pairs.
    pub(super) fn terms(&self) -> Vec<u32> {
        let bits = 0..self.factors;
        let pairs = bits.clone().flat_map(|a| (a + 1..self.factors).map(move |b| 1 << a | 1 << b));
        bits.map(|bit| 1 << bit).chain(pairs).collect()
    }
}

/// The product of the chosen switches of a combination, on being 1 and off -1.
fn sign(point: u32, mask: u32) -> f64 {
    if (!point & mask).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fraction_mixes_what_one_or_two_switches_do() {
        for factors in 2..=FACTORS_MAX {
            let design = Design::fraction(factors);
            assert!(design.resolution().is_none_or(|shortest| shortest >= 5), "{factors}");
            for word in design.defining() {
                let signs = design.points.iter().map(|point| sign(*point, word));
                assert!(signs.clone().all(|s| s > 0.0), "{factors}: {word:b}");
            }
            // Every term is as often on as off, with every other one.
            let terms = design.terms();
            for (index, a) in terms.iter().enumerate() {
                for b in &terms[..index] {
                    let together = design.points.iter().map(|p| sign(*p, *a) * sign(*p, *b));
                    assert_eq!(together.sum::<f64>(), 0.0, "{factors}: {a:b} and {b:b}");
                }
            }
        }
        let sizes = [5, 6, 7, 8, 9, 10].map(|factors| Design::fraction(factors).points.len());
        assert_eq!(sizes, [16, 32, 64, 64, 128, 128]);
    }

    /// The four figures of 1989: 600 alone, 520 and 530 with one each, 700 with both.
    #[test]
    fn two_switches_that_hurt_alone_and_help_together() {
        let design = Design::full(2);
        let values = [600.0, 520.0, 530.0, 700.0];
        let effects: Vec<f64> =
            design.terms().into_iter().map(|term| design.effect(term, &values)).collect();
        assert_eq!(effects, [45.0, 55.0, 125.0]);
    }
}
