//! The library's errors as Python's exceptions.

use cellgate::{Error, Refused as Refusal, Resource};
use pyo3::exceptions::{PyBlockingIOError, PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;

// Written in Python: there they have fields, and can be pickled.
pyo3::import_exception!(cellgate.errors, Ended);
pyo3::import_exception!(cellgate.errors, NoServer);
pyo3::import_exception!(cellgate.errors, Refused);

/// The exception of an error, with the text that the command prints.
pub(crate) fn exception(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::NoServer { .. } | Error::Silent { .. } => NoServer::new_err(text),
        // As for the command, a text that says nothing is the caller's mistake.
        Error::Refused(Refusal::Contract { .. } | Refusal::InterfaceUnnamed { .. })
        | Error::Address(_)
        | Error::TooLong { .. }
        | Error::NotACell { .. }
        | Error::NotFixed { .. }
        | Error::Empty
        | Error::DoesNotSend
        | Error::DoesNotReceive => PyValueError::new_err(text),
        Error::Refused(refusal) => refused(&refusal, text),
        Error::Ended(_) | Error::Closed => Ended::new_err(text),
        Error::TimedOut => PyTimeoutError::new_err(text),
        Error::WouldBlock(_) => PyBlockingIOError::new_err(text),
        Error::Kernel(cause) => cause.into(),
        _ => PyRuntimeError::new_err(text),
    }
}

fn refused(refusal: &Refusal, text: String) -> PyErr {
    let Refusal::Admission(shortage) = refusal else {
        return Refused::new_err(text);
    };
    Refused::new_err((
        text,
        name(shortage.resource),
        shortage.resource.unit(),
        shortage.needed,
        shortage.free,
        shortage.offer.clone(),
        shortage.others.clone(),
    ))
}

/// The name that a resource has in the control protocol and in JSON.
fn name(resource: Resource) -> Option<String> {
    let value = serde_json::to_value(resource).ok()?;
    value.as_str().map(str::to_owned)
}
