use cellgate_report::{Check, Claim, Rational, Tolerance, Value, dec};

use super::point::Point;
use super::{BEYOND, CONTRACT_BIT_S, HAZARD, PLATEAU, STREAM_BIT_S, pdu_s, saturation_mbit_s};

/// The points that the paper speaks of.
pub(super) struct Sweep<'a> {
    points: &'a [Point],
    base: &'a Point,
    rising: &'a Point,
    plateau: &'a Point,
    beyond: &'a Point,
}

impl<'a> Sweep<'a> {
    pub(super) fn of(points: &'a [Point]) -> Option<Self> {
        let at = |mbit_s: u32| points.iter().find(|point| point.hazard_mbit_s == mbit_s);
        Some(Self {
            points,
            base: at(0)?,
            rising: at(20)?,
            plateau: at(60)?,
            beyond: at(BEYOND)?,
        })
    }

    /// Where the line through nothing and half of the contract reaches the plateau.
    fn knee(&self) -> Option<Rational> {
        let (base, top) = (self.base.cpu_percent, self.plateau.cpu_percent);
        let slope = (self.rising.cpu_percent - base) / self.rising.hazard_mbit_s.into();
        (top - base).over(slope)
    }

    /// The largest deviation from the line through nothing and half of the contract, up to the
    /// contract, in per cent of it.
    fn bend(&self) -> Option<Rational> {
        let base = self.base.cpu_percent;
        let slope = (self.rising.cpu_percent - base) / self.rising.hazard_mbit_s.into();
        let off = |p: &Point| {
            let line = base + slope * Rational::from(p.hazard_mbit_s);
            let off = p.cpu_percent.over(line)? - Rational::ONE;
            Some(off.abs())
        };
        let up_to = CONTRACT_BIT_S / 1_000_000;
        let rising = self.points.iter();
        let rising = rising.filter(|p| u64::from(p.hazard_mbit_s) <= up_to);
        let all: Option<Vec<Rational>> = rising.map(off).collect();
        Some(all?.into_iter().max()? * Rational::whole(100))
    }

    /// The largest deviation from the plateau, in per cent of it.
    fn unevenness(&self) -> Option<Rational> {
        let flat = self
            .points
            .iter()
            .filter(|p| PLATEAU.contains(&p.hazard_mbit_s));
        let top = self.plateau.cpu_percent;
        let off = |p: &Point| (p.cpu_percent - top).abs();
        let most = flat.map(off).max()?;
        Some(most.over(top)? * Rational::whole(100))
    }

    /// The first rate with less than 95 % of the plateau.
    fn fall(&self) -> Rational {
        let low = self.plateau.cpu_percent * dec("0.95");
        let beyond = self
            .points
            .iter()
            .filter(|p| p.hazard_mbit_s > *PLATEAU.start());
        let first = beyond.into_iter().find(|p| p.cpu_percent < low);
        first.map_or(Rational::ZERO, |point| point.hazard_mbit_s.into())
    }

    pub(super) fn checks(&self, beyond: &[(&str, Point)]) -> Vec<Check> {
        let mbit_s = |number: Rational, decimals| Value::new(number, decimals, "x 10^6 bit/s");
        let near = |percent: &'static str| Tolerance::Percent(dec(percent));
        let derived = |id: &str, what: &str, paper: &str| Claim::derived(id, what, paper);
        let all = pdu_s(2 * STREAM_BIT_S + CONTRACT_BIT_S);
        let per_s = |rate: Rational| Value::new(rate, 1, "PDU/s");
        let two = self.rising.cpu_percent - self.base.cpu_percent;
        let at_2 = self.points.iter().find(|p| p.hazard_mbit_s == 2);
        let at_2 = at_2.map_or(Rational::ZERO, |p| p.cpu_percent - self.base.cpu_percent);
        let mut checks = vec![
            derived("P0.13", "PDUs told to the host, on the plateau", "").number(
                all,
                near("0.5"),
                &per_s(self.plateau.all_pdu_s()),
            ),
            derived("P0.13", "of one stream of 20 x 10^6 bit/s", "").number(
                pdu_s(STREAM_BIT_S),
                near("0.5"),
                &per_s(self.plateau.pdu_s[0]),
            ),
            derived(
                "P0.14",
                "the line meets the plateau at",
                "the negotiated rate, 40",
            )
            .number(
                dec("40"),
                near("2"),
                &Value::ratio(self.knee(), 1, "x 10^6 bit/s"),
            ),
            derived(
                "P0.14",
                "up to the contract: largest deviation from the line",
                "linear",
            )
            .number(
                dec("1"),
                Tolerance::AtMost,
                &Value::ratio(self.bend(), 2, "%"),
            ),
            derived(
                "P0.14",
                "plateau, 40 to 95: largest deviation",
                "remains constant",
            )
            .reading("what is discarded interrupts nobody (section 6.5)")
            .number(
                dec("1"),
                Tolerance::AtMost,
                &Value::ratio(self.unevenness(), 2, "%"),
            ),
            Claim::calibrated("P0.14", "first rate of the sweep in the fall", "above 100")
                .reading("rates of SDU: saturated at 95.4")
                .number(
                    saturation_mbit_s().rounded(1),
                    near("3"),
                    &mbit_s(self.fall(), 1),
                ),
            Claim::lost(
                "P0.14",
                "CPU above no hazard, at 2 and at 20 x 10^6 bit/s",
                "no significant load up to 2",
                &Value::new(at_2, 3, &format!("% and {} %", two.fixed(3))),
            ),
            derived("P0.15", "105 over 60 x 10^6 bit/s", "remarkable decrease")
                .reading("cells of the hazard are lost, PDUs go on (per-vc)")
                .number(
                    dec("0.5"),
                    Tolerance::Absolute(dec("0.05")),
                    &Value::ratio(
                        self.beyond.cpu_percent.over(self.plateau.cpu_percent),
                        3,
                        "times",
                    ),
                ),
        ];
        for (name, point) in beyond {
            checks.push(self.discard_check(name, point));
        }
        checks
    }

    /// The plateau if the host is interrupted when a receive queue is full.
    pub(super) fn told_check(&self, told: &Point) -> Check {
        let claim = Claim::derived(
            "P0.14",
            "plateau: interrupts for each PDU of the hazard, at most its own and one",
            "remains constant",
        );
        let hazard = told.interrupts_s - told.pdu_s[0] - told.pdu_s[1];
        claim
            .reading("a full receive queue interrupts (section 4.2)")
            .number(
                dec("2"),
                Tolerance::AtMost,
                &Value::ratio(hazard.over(told.pdu_s[HAZARD]), 2, "per PDU"),
            )
    }

    /// What would be seen at 105 behind another switch.
    fn discard_check(&self, name: &str, point: &Point) -> Check {
        let share = point.cpu_percent.over(self.plateau.cpu_percent);
        let a_share = point.pdu_s[0] / pdu_s(STREAM_BIT_S);
        let hazard = point.pdu_s[HAZARD] / pdu_s(CONTRACT_BIT_S);
        let shown = format!(
            "load {}, A1 {}, hazard {} of the contract",
            Value::ratio(share, 2, ""),
            a_share.fixed(2),
            hazard.fixed(2)
        );
        let (what, holds) = match name {
            "shared" => (
                "destroys all three",
                a_share < dec("0.2") && hazard < dec("0.2"),
            ),
            "per-vc" => ("destroys the hazard alone", {
                a_share > dec("0.98") && hazard < dec("0.1")
            }),
            _ => ("keeps the hazard's load up", hazard > dec("0.9")),
        };
        let what = format!("105 x 10^6 bit/s behind discard={name}: {what}");
        Claim::shape("P0.15", &what, "").holds(holds, &shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_beside_the_line_is_seen() {
        let point = |hazard_mbit_s: u32, cpu_percent: &'static str| Point {
            hazard_mbit_s,
            cpu_percent: dec(cpu_percent),
            interrupts_s: Rational::ZERO,
            full_s: Rational::ZERO,
            pdu_s: [Rational::ZERO; 3],
        };
        let mut points = [
            (0, "2"),
            (10, "2.5"),
            (20, "3"),
            (40, "4"),
            (60, "4"),
            (105, "2"),
        ]
        .map(|(mbit_s, cpu)| point(mbit_s, cpu));
        let bend = |points: &[Point]| Sweep::of(points).and_then(|sweep| sweep.bend());
        assert_eq!(bend(&points), Some(Rational::ZERO));
        points[1].cpu_percent = dec("2.55");
        assert_eq!(bend(&points), Some(dec("2")));
    }
}
