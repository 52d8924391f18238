//! Which experiments run, and with which settings.

use std::collections::BTreeSet;

use cellgate_lab::experiments::{Experiment, SettingError, Settings, all, find};

/// An experiment and its settings.
pub(super) struct Chosen {
    pub(super) experiment: &'static dyn Experiment,
    pub(super) settings: Settings,
}

/// The experiment of this name, or every one for `all`, with what `changes` set. A change of all
/// concerns those that have the parameter, and one must.
pub(super) fn choose(
    name: &str,
    changes: &[(String, String)],
    seed: Option<u64>,
) -> Result<Vec<Chosen>, String> {
    let experiments: Vec<_> = match (name, find(name)) {
        ("all", _) => all().to_vec(),
        (_, Some(experiment)) => vec![experiment],
        _ => {
            return Err(format!(
                "no experiment {name}: `cellgate lab list` names them"
            ));
        }
    };
    let mut chosen: Vec<_> = experiments
        .into_iter()
        .map(|one| Chosen::new(one, seed))
        .collect();
    for (key, value) in changes {
        set(&mut chosen, key, value).map_err(|error| error.to_string())?;
    }
    Ok(chosen)
}

fn set(chosen: &mut [Chosen], key: &str, value: &str) -> Result<(), SettingError> {
    // What there is in any of them.
    let mut keys = BTreeSet::new();
    let mut is_known = false;
    for one in chosen {
        match one.settings.set(key, value) {
            Ok(()) => is_known = true,
            Err(SettingError::Unknown { known, .. }) => keys.extend(known),
            Err(error) => return Err(error),
        }
    }
    match is_known {
        true => Ok(()),
        false => Err(SettingError::Unknown {
            key: key.to_owned(),
            known: keys.into_iter().collect(),
        }),
    }
}

impl Chosen {
    fn new(experiment: &'static dyn Experiment, seed: Option<u64>) -> Self {
        let mut settings = Settings::new(experiment.parameters());
        settings.seed = seed.unwrap_or(settings.seed);
        Self {
            experiment,
            settings,
        }
    }
}

/// `key=value`.
pub(super) fn change(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected key=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(text: &str) -> Vec<(String, String)> {
        vec![change(text).expect("key=value")]
    }

    #[test]
    fn a_change_of_all_concerns_those_that_have_the_parameter() {
        let chosen = choose("all", &changes("c_cell=12"), Some(7)).expect("some have it");
        assert_eq!(chosen.len(), all().len());
        let with = |one: &&Chosen| {
            one.experiment
                .parameters()
                .iter()
                .any(|p| p.key == "c_cell")
        };
        let with: Vec<_> = chosen.iter().filter(with).collect();
        assert!(!with.is_empty() && with.len() < chosen.len());
        assert!(with.iter().all(|one| one.settings.whole("c_cell") == 12));
        assert!(chosen.iter().all(|one| one.settings.seed == 7));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (name, text, told) in [
            ("figure-0", "c_cell=12", "no experiment figure-0"),
            ("all", "c_nothing=1", "no parameter c_nothing"),
            ("all", "c_cell=none", "c_cell=none: it takes"),
        ] {
            let error = choose(name, &changes(text), None).err().expect(told);
            assert!(error.starts_with(told), "{error}");
        }
        assert!(change("c_cell").is_err() && change("=1").is_err());
    }

    #[test]
    fn whoever_changes_all_is_told_what_any_of_them_has() {
        let error = choose("all", &changes("c_nothing=1"), None).err();
        let error = error.expect("nobody has it");
        let (_, known) = error.split_once("there is ").expect("a list");
        let known: Vec<&str> = known.split(", ").collect();
        let of_all = all().iter().flat_map(|one| one.parameters());
        assert!(of_all.clone().count() > known.len(), "each once: {error}");
        for parameter in of_all {
            assert!(known.contains(&parameter.key), "{}: {error}", parameter.key);
        }
    }
}
