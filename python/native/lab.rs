//! The lab for Python: texts in, texts out. What they mean is in the package around it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cellgate_lab::Silent;
use cellgate_lab::experiments::{self, Settings};
use cellgate_lab::world::scenario::Scenario;
use cellgate_lab::world::{Failure, Options, check, scenario_of};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

// Of the package, as Python knows it: a process that unpickles one has to find it there.
create_exception!(
    cellgate,
    Violation,
    PyRuntimeError,
    "An invariant of the lab does not hold."
);

/// A panic is an error like others: PyO3's own is none that `except Exception` catches.
fn caught<T>(run: impl FnOnce() -> T) -> PyResult<T> {
    // What a panic leaves behind goes with the run.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        PyRuntimeError::new_err(format!("panic: {}", text.unwrap_or("of what kind ever")))
    })
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Runs a scenario (JSON) and gives its outcome (JSON). With `fast` no reference runs beside it.
#[pyfunction]
fn run_json(py: Python<'_>, scenario: &str, fast: bool) -> PyResult<String> {
    let scenario: Scenario = serde_json::from_str(scenario).map_err(value_error)?;
    let options = Options {
        reference: !fast,
        ..Options::default()
    };
    // Other threads of Python go on meanwhile.
    let outcome = py.detach(|| check(&scenario, options));
    let outcome = outcome.map_err(|failure| match failure {
        Failure::Scenario(error) => value_error(error),
        Failure::Violation(violation) => Violation::new_err(violation.to_string()),
    })?;
    serde_json::to_string(&outcome).map_err(value_error)
}

/// The scenario that is drawn from a seed (JSON).
#[pyfunction]
fn scenario_json(seed: u64) -> PyResult<String> {
    serde_json::to_string(&scenario_of(seed)).map_err(value_error)
}

/// The names of the papers' experiments.
#[pyfunction]
fn experiment_names() -> Vec<&'static str> {
    experiments::all()
        .iter()
        .map(|experiment| experiment.name())
        .collect()
}

/// Runs an experiment with some settings changed, and gives its outcome (JSON).
#[pyfunction]
fn experiment_json(
    py: Python<'_>,
    name: &str,
    seed: u64,
    changes: Vec<(String, String)>,
) -> PyResult<String> {
    let unknown = || value_error(format!("no experiment {name}"));
    let experiment = experiments::find(name).ok_or_else(unknown)?;
    let mut settings = Settings::new(experiment.parameters());
    settings.seed = seed;
    for (key, value) in changes {
        settings.set(&key, &value).map_err(value_error)?;
    }
    let outcome = py.detach(|| caught(|| experiment.run(&settings, &mut Silent)))?;
    let outcome = outcome.map_err(value_error)?;
    serde_json::to_string(&outcome).map_err(value_error)
}

/// Adds the lab's names to the package's module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Violation", module.py().get_type::<Violation>())?;
    module.add_function(wrap_pyfunction!(run_json, module)?)?;
    module.add_function(wrap_pyfunction!(scenario_json, module)?)?;
    module.add_function(wrap_pyfunction!(experiment_names, module)?)?;
    module.add_function(wrap_pyfunction!(experiment_json, module)?)
}
