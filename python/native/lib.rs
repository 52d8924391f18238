//! Cellgate for Python: what needs the Rust crates. The package around it gives it its shape.

mod connection;
mod errors;
mod lab;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<connection::Connection>()?;
    lab::add_to(module)
}
