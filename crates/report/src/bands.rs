use serde::Serialize;

use crate::Axis;
use crate::table::csv_line;

/// Areas over one pair of axes, as those of slots over time and place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BandPanel {
    /// What is written over it.
    pub title: String,
    /// The axes, with both bounds each: what lies beyond them is cut off.
    pub x: Axis,
    pub y: Axis,
    /// The owners of areas, each with a colour of its own.
    pub owners: Vec<String>,
    /// Areas, the first one at the back.
    pub bands: Vec<Band>,
    /// Dots on them, and their name in the legend; empty: it is not there.
    pub dots: Vec<(f64, f64)>,
    pub dots_name: String,
}

/// An area.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    pub owner: Owner,
    pub corners: Vec<(f64, f64)>,
}

/// Whose an area is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// It is empty: pale.
    Empty,
    /// It is full, and nobody's: dark.
    Nobody,
    /// One of the panel's owners, by number.
    Number(usize),
}

impl BandPanel {
    pub(crate) const COLUMNS: [&str; 5] = ["panel", "band", "owner", "x", "y"];

    /// A corner a line, and then a dot a line.
    pub(crate) fn csv(&self, panel: usize) -> String {
        let mut text = String::new();
        let mut tell = |band: String, owner: &str, (x, y): (f64, f64)| {
            let owner = owner.to_owned();
            let fields = [panel.to_string(), band, owner, x.to_string(), y.to_string()];
            text += &csv_line(fields.into_iter());
        };
        for (n, band) in self.bands.iter().enumerate() {
            let owner = match band.owner {
                Owner::Empty => "empty",
                Owner::Nobody => "nobody",
                Owner::Number(n) => self.owners.get(n).map_or("", |name| name),
            };
            for corner in &band.corners {
                tell((n + 1).to_string(), owner, *corner);
            }
        }
        for dot in &self.dots {
            tell("dot".to_owned(), &self.dots_name, *dot);
        }
        text
    }
}
