use serde::Serialize;

use crate::table::csv_line;
use crate::{BandPanel, BarGroup, Check, ClaimRow, bars};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name in file names: letters, digits and hyphens.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What is drawn.
    #[serde(flatten)]
    pub content: Content,
}

/// What a figure is made of, from top to bottom.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Panels(Vec<Panel>),
    /// Areas in the colours of their owners.
    Bands(Vec<BandPanel>),
    /// The paper's numbers beside ours.
    Bars(Vec<BarGroup>),
    /// Claims of a paper.
    Claims(Vec<ClaimRow>),
}

/// Curves over one pair of axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, the first one at the back.
    pub series: Vec<Series>,
    /// Lines across, with a word each.
    pub marks: Vec<Mark>,
}

/// An axis. A bound that is not given is chosen so that everything is seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// What it is and its unit: `host CPU, %`. Empty: as the panel below.
    pub label: String,
    /// How values lie on it.
    pub scale: Scale,
    /// The smallest value.
    pub from: Option<f64>,
    /// The largest value.
    pub to: Option<f64>,
}

impl Axis {
    /// Linear, from 0.
    pub fn linear(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            scale: Scale::Linear,
            from: Some(0.0),
            to: None,
        }
    }

    /// Logarithmic; what is less than `zero_at` is drawn there, and the place is called 0.
    pub fn log(label: &str, zero_at: f64) -> Self {
        Self {
            label: label.to_owned(),
            scale: Scale::Log,
            from: Some(zero_at),
            to: None,
        }
    }

    /// Ends at `to`.
    pub fn to(self, to: f64) -> Self {
        Self {
            to: Some(to),
            ..self
        }
    }

    /// Begins at `from`.
    pub fn from(self, from: f64) -> Self {
        Self {
            from: Some(from),
            ..self
        }
    }
}

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal differences, equal distances.
    Linear,
    /// Equal ratios, equal distances.
    Log,
}

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// Ours: a line.
    Line,
    /// Ours: a wide line, for others to lie on.
    Wide,
    /// Ours: a line through dots.
    Dotted,
    /// Ours: a dashed line.
    Dashed,
    Dots,
    /// What is expected: a wide grey line behind the others.
    Expected,
    /// What the paper prints: hollow diamonds.
    Printed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend; empty: it is not in the legend.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// In the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    pub fn new(name: &str, look: Look, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            look,
            points,
        }
    }
}

/// A line across a panel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    pub at: At,
    /// A word beside it.
    pub label: String,
}

/// Where a mark stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// Upright, at this place of the horizontal axis.
    X(f64),
    /// Level, at this height.
    Y(f64),
}

impl Figure {
    /// A figure of one panel.
    pub fn single(name: &str, title: &str, panel: Panel) -> Self {
        Self::stacked(name, title, vec![panel])
    }

    /// A figure of panels over each other.
    pub fn stacked(name: &str, title: &str, panels: Vec<Panel>) -> Self {
        Self::new(name, title, Content::Panels(panels))
    }

    /// A figure of areas, panels over each other.
    pub fn of_bands(name: &str, title: &str, panels: Vec<BandPanel>) -> Self {
        Self::new(name, title, Content::Bands(panels))
    }

    /// A figure with a bar for the number of each of some checks, those of one thing together.
    pub fn of_numbers(name: &str, title: &str, checks: &[Check]) -> Self {
        Self::new(name, title, Content::Bars(bars::grouped(checks)))
    }

    /// A figure with a row for each of some checks.
    pub fn of_claims(name: &str, title: &str, checks: &[Check]) -> Self {
        let rows = checks.iter().map(ClaimRow::of).collect();
        Self::new(name, title, Content::Claims(rows))
    }

    fn new(name: &str, title: &str, content: Content) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            content,
        }
    }

    /// Every point of every series, every corner of every area, every bar, or every claim, one a
    /// line.
    pub fn to_csv(&self) -> String {
        let (heads, lines): (&[&str], String) = match &self.content {
            Content::Panels(panels) => (&["panel", "series", "x", "y"], panels_csv(panels)),
            Content::Bands(panels) => {
                let numbered = (1..).zip(panels);
                let lines = numbered.map(|(n, panel)| panel.csv(n)).collect();
                (&BandPanel::COLUMNS, lines)
            }
            Content::Bars(groups) => (
                &BarGroup::COLUMNS,
                groups.iter().map(BarGroup::csv).collect(),
            ),
            Content::Claims(rows) => (&ClaimRow::COLUMNS, rows.iter().map(ClaimRow::csv).collect()),
        };
        csv_line(heads.iter().map(|head| (*head).to_owned())) + &lines
    }
}

fn panels_csv(panels: &[Panel]) -> String {
    let mut text = String::new();
    for (i, panel) in panels.iter().enumerate() {
        for series in &panel.series {
            for (x, y) in &series.points {
                let name = series.name.clone();
                let fields = [(i + 1).to_string(), name, x.to_string(), y.to_string()];
                text += &csv_line(fields.into_iter());
            }
        }
    }
    text
}
