use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

/// Times from a question to its answer.
pub(super) struct Times(Histogram<u64>);

impl Times {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new(3)?))
    }

    pub(super) fn record(&mut self, time: Duration) -> anyhow::Result<()> {
        let ns = u64::try_from(time.as_nanos())?;
        Ok(self.0.record(ns.max(1))?)
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Nanoseconds by name; null: there was no answer.
    pub(super) fn json(&self) -> Map<String, Value> {
        let times = [
            ("min_ns", self.0.min()),
            ("mean_ns", self.0.mean() as u64),
            ("p50_ns", self.0.value_at_quantile(0.5)),
            ("p99_ns", self.0.value_at_quantile(0.99)),
            ("max_ns", self.0.max()),
        ];
        let is_known = !self.0.is_empty();
        let named = |(name, ns): (&str, u64)| (name.to_owned(), json!(is_known.then_some(ns)));
        times.map(named).into_iter().collect()
    }

    pub(super) fn text(&self) -> String {
        let us = |ns: u64| match self.0.is_empty() {
            false => format!("{:.1}", ns as f64 / 1e3),
            true => "-".to_owned(),
        };
        format!(
            "us: {} min, {} mean, {} median, {} p99, {} max\n",
            us(self.0.min()),
            us(self.0.mean() as u64),
            us(self.0.value_at_quantile(0.5)),
            us(self.0.value_at_quantile(0.99)),
            us(self.0.max())
        )
    }
}
