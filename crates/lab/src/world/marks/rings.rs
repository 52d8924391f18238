//! Marks of rings.

use super::Marks;
use crate::world::rings::Counts;

const SLOTS: [&str; 9] = [
    "filled", "taken", "emptied", "released", "cleared", "lost", "damaged", "flipped", "stuck",
];

impl Marks {
    /// The marks of rings that are at rest.
    pub(crate) fn of_rings(counts: &Counts) -> Self {
        let mut marks = Self::default();
        for (name, count) in SLOTS.iter().zip(counts.deeds) {
            marks.push("slots", name, count);
        }
        for (name, count) in [
            ("overflowed", counts.overflowed),
            ("interrupts", counts.interrupts),
            ("false_cells", counts.false_cells),
            ("bus_errors", counts.bus_errors),
            ("discarded", counts.discarded),
            ("strange_blocks", counts.strange),
        ] {
            marks.push("stations", name, count);
        }
        let nodes = &counts.nodes;
        for (name, count) in [
            ("calls", nodes.calls),
            ("replies", nodes.replies),
            ("executed", nodes.executed),
            ("failed", nodes.failed),
            ("connects", nodes.connects),
            ("deaths", nodes.deaths),
            ("harmed_messages", nodes.harmed),
        ] {
            marks.push("nodes", name, count);
        }
        marks
    }
}
