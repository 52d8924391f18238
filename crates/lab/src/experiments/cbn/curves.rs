use cellgate_report::{Axis, Entry, Figure, Look, Panel, Rational, Series, Table};

use super::{DATA_BITS, Error, Progress, Stage, slope};

/// Cells of the blocks that are measured.
const CELLS: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 192, 255];

/// A variant of a host: its key, its name, and the look of its curve.
#[derive(Clone, Copy)]
pub(super) struct Variant(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) Look,
);

/// The stages of the receive software.
pub(super) const STAGES: [(Stage, Variant); 4] = [
    (
        Stage::Original,
        Variant("stage_0", "0: a copy more, up-calls", Look::Expected),
    ),
    (Stage::NoCopy, Variant("stage_1", "1: no copy", Look::Line)),
    (Stage::Merged, Variant("stage_2", "2: merged", Look::Dashed)),
    (Stage::Tight, Variant("stage_3", "3: tight", Look::Dotted)),
];

/// A number for each of some variants, by the cells of a block.
pub(super) struct Curves {
    variants: Vec<Variant>,
    points: Vec<(usize, Vec<Rational>)>,
}

impl Curves {
    /// Measures the microseconds of a block, or of a ping, of so many cells.
    pub(super) fn measured<T: Copy>(
        variants: &[(T, Variant)],
        progress: &mut dyn Progress,
        time: impl Fn(T, usize) -> Result<Rational, Error>,
    ) -> Result<Self, Error> {
        let mut points = Vec::new();
        for (n, cells) in CELLS.into_iter().enumerate() {
            let times = variants.iter().map(|(variant, _)| time(*variant, cells));
            points.push((cells, times.collect::<Result<_, _>>()?));
            progress.step(n as u64 + 1, CELLS.len() as u64);
        }
        let variants = variants.iter().map(|(_, variant)| *variant).collect();
        Ok(Self { variants, points })
    }

    /// Megabits of data a second, of these times.
    pub(super) fn rates(&self) -> Self {
        let rate = |cells: usize, us: &Rational| {
            let bits = DATA_BITS * Rational::whole(cells as i128);
            bits.over(*us).unwrap_or(Rational::ZERO)
        };
        let points = self.points.iter().map(|(cells, times)| {
            let rates = times.iter().map(|us| rate(*cells, us));
            (*cells, rates.collect())
        });
        Self {
            variants: self.variants.clone(),
            points: points.collect(),
        }
    }

    fn of(&self, variant: usize) -> impl Iterator<Item = (usize, Rational)> {
        let points = self.points.iter();
        points.filter_map(move |(cells, numbers)| Some((*cells, *numbers.get(variant)?)))
    }

    /// The number of a variant with so many cells.
    pub(super) fn at(&self, variant: usize, cells: usize) -> Rational {
        let found = self.of(variant).find(|(of, _)| *of == cells);
        found.map_or(Rational::ZERO, |(_, number)| number)
    }

    /// A cell's microseconds.
    pub(super) fn cell_us(&self, variant: usize) -> Rational {
        slope([64, 192].map(|cells| (cells, self.at(variant, cells))))
    }

    /// The furthest that a variant is from a straight line, from 16 cells on, of the line.
    pub(super) fn bend(&self, variant: usize) -> Rational {
        let [few, many] = [16, 255].map(|cells| (cells, self.at(variant, cells)));
        let each = slope([few, many]);
        let off = |(cells, number): (usize, Rational)| {
            let line = few.1 + each * Rational::whole(cells as i128 - few.0 as i128);
            (number - line).abs().over(line).unwrap_or(Rational::ZERO)
        };
        let long = self.of(variant).filter(|(cells, _)| *cells >= few.0);
        long.map(off).max().unwrap_or(Rational::ZERO)
    }

    /// Whether each variant takes less than the one before, with any number of cells.
    pub(super) fn falls_by_variant(&self) -> bool {
        let falls = |numbers: &[Rational]| numbers.is_sorted_by(|one, next| one > next);
        self.points.iter().all(|(_, numbers)| falls(numbers))
    }

    /// Whether each variant has more with more cells.
    pub(super) fn rises_with_cells(&self) -> bool {
        (0..self.variants.len()).all(|variant| {
            let numbers: Vec<_> = self.of(variant).map(|(_, number)| number).collect();
            numbers.is_sorted_by(|fewer, more| fewer < more)
        })
    }

    pub(super) fn table(&self, name: &str, title: &str, decimals: u32) -> Table {
        let names = self
            .variants
            .iter()
            .map(|Variant(key, name, _)| (*key, *name));
        let columns: Vec<_> = [("cells", "cells")].into_iter().chain(names).collect();
        let mut table = Table::new(name, title, &columns);
        for (cells, numbers) in &self.points {
            let numbers = numbers
                .iter()
                .map(|number| Entry::number(*number, decimals));
            let cells = Entry::number(*cells as u64, 0);
            table
                .rows
                .push([cells].into_iter().chain(numbers).collect());
        }
        table
    }

    /// Drawn in units of so many.
    pub(super) fn figure(&self, name: &str, title: &str, y: &str, unit: Rational) -> Figure {
        let series = self.variants.iter().enumerate();
        let series = series.map(|(n, Variant(_, name, look))| {
            let points = self.of(n);
            let points = points.map(|(cells, number)| (cells as f64, (number / unit).to_f64()));
            Series::new(name, *look, points.collect())
        });
        let panel = Panel {
            x: Axis::linear("cells of a block").to(260.0),
            y: Axis::linear(y),
            series: series.collect(),
            marks: Vec::new(),
        };
        Figure::single(name, title, panel)
    }
}
