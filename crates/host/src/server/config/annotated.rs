//! A configuration in which every key stands with what it means.

use toml::{Table, Value};

use super::keys::{Key, OTHER_LINK, SECTIONS, Section, Unset, plain};

/// Columns of its lines, but for values that are longer.
const WIDTH: usize = 78;

/// A configuration to begin with: a loop, and two interfaces that are joined.
const NEW: &str = r#"
[[interface]]
name = "lo"
link.memory.peer = "lo"

[[interface]]
name = "a"
link.memory.peer = "b"

[[interface]]
name = "b"
link.memory.peer = "a"
"#;

/// A configuration to begin with, with every key: those that need a thought are comments.
pub fn new() -> String {
    // It is TOML.
    annotated(&NEW.parse().unwrap_or_default())
}

/// What `file` sets, and as comments every other key with its default; each with what it means.
pub fn annotated(file: &Table) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        text += &comment(&format!("{}: {}.", section.head(), plain(section.about)));
        match file.get(section.name) {
            Some(Value::Array(all)) => {
                let all: Vec<_> = all.iter().filter_map(Value::as_table).collect();
                // The meanings stand with the first.
                for (number, table) in all.iter().enumerate() {
                    text += &format!("[[{}]]\n", section.name);
                    text += &keys(section, Some(table), number == 0);
                    text.push('\n');
                }
                text += &links(section, &all);
            }
            Some(Value::Table(table)) => {
                text += &format!("[{}]\n{}\n", section.name, keys(section, Some(table), true));
                text += &users(section, table);
            }
            _ => {
                // An empty table changes nothing, and takes whatever key loses its `#`.
                let sign = if section.repeats { "#" } else { "" };
                text += &format!("{sign}{}\n{}\n", section.head(), keys(section, None, true));
            }
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// The keys of one section of the file, or of none.
fn keys(section: &Section, table: Option<&Table>, with_meaning: bool) -> String {
    let mut text = String::new();
    for key in section.keys {
        let set = table.and_then(|table| at(table, key.name));
        if set.is_none() && (!with_meaning || is_of_another_link(key, table)) {
            continue;
        }
        text += &lines(key, set, with_meaning);
    }
    text
}

/// A key that is `set`, or a comment with its default.
fn lines(key: &Key, set: Option<&Value>, with_meaning: bool) -> String {
    let meaning = if with_meaning {
        comment(&told(key))
    } else {
        String::new()
    };
    match set {
        Some(value) => format!("{meaning}{} = {value}\n", key.name),
        None => format!("{meaning}#{} = {}\n", key.name, key.example()),
    }
}

/// The keys of links that the first of some interfaces does not have.
fn links(section: &Section, all: &[&Table]) -> String {
    let first = all.first().copied();
    let others = section
        .keys
        .iter()
        .filter(|key| is_of_another_link(key, first));
    let keys: String = others.map(|key| lines(key, None, true)).collect();
    match keys.is_empty() {
        true => keys,
        false => format!("# Other links.\n#[[{}]]\n{keys}\n", section.name),
    }
}

/// Quotas of single users.
fn users(section: &Section, table: &Table) -> String {
    let mut text = String::new();
    for (name, of) in table {
        if let (true, Value::Table(of)) = (section.name == "quota", of) {
            let name = Value::String(name.clone());
            text += &format!("[quota.{name}]\n{}\n", keys(section, Some(of), false));
        }
    }
    text
}

/// Whether the key is one of a link that the interface does not have.
fn is_of_another_link(key: &Key, table: Option<&Table>) -> bool {
    let Some(link) = table.and_then(|table| table.get("link")?.as_table()) else {
        return false;
    };
    let of = key
        .name
        .strip_prefix("link.")
        .and_then(|rest| rest.split_once('.'));
    match of {
        Some(("memory", _)) => at(link, key.name.trim_start_matches("link.")).is_none(),
        Some((kind, _)) => !link.contains_key(kind),
        None => false,
    }
}

fn told(key: &Key) -> String {
    let mut text = plain(key.meaning);
    if let Some(first) = text.get(..1) {
        text = first.to_uppercase() + &text[1..];
    }
    match key.unset {
        Unset::Is(_) | Unset::Needed(_) | Unset::Otherwise(OTHER_LINK, _) => text + ".",
        Unset::Otherwise(default, _) => format!("{text}. Without: {}.", plain(default)),
    }
}

fn at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        None => table.get(key),
        Some((first, rest)) => at(table.get(first)?.as_table()?, rest),
    }
}

fn comment(words: &str) -> String {
    let mut text = String::from("#");
    let mut column = 1;
    for word in words.split_whitespace() {
        let len = word.chars().count();
        if column > 1 && column + 1 + len > WIDTH {
            text += "\n#";
            column = 1;
        }
        text.push(' ');
        text += word;
        column += 1 + len;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Config;

    #[test]
    fn it_means_what_the_file_means() {
        let text = "[adapter]\nvcs = 64\ncpu = 1\n[quota]\nmemory = 5000000\n[quota.\"0\"]\n\
                    memory = 7000000\n[[interface]]\nname = \"wan\"\nline_rate.cell_s = 1000\n\
                    [interface.link.udp]\nlocal = \"127.0.0.1:1\"\npeer = \"127.0.0.1:2\"\n\
                    label_out = 16\nlabel_in = 16\n[[interface]]\nname = \"a\"\n\
                    link.memory.socket = \"/x\"\n[[connection]]\naddress = \"a.0.40\"\n\
                    contract = \"ubr,aal5\"\n\
                    notification = { silent = { threshold = 2, longest_delay_ns = 5 } }\n\
                    [[reserve]]\nvci = \"40-50\"\nusers = [7]\n";
        for text in [text, "", NEW] {
            let shown = annotated(&text.parse().unwrap());
            let (one, other) = (Config::parse(text), Config::parse(&shown));
            assert_eq!(one, other, "{shown}");
            assert_eq!(
                annotated(&shown.parse().unwrap()),
                shown,
                "it is its own form"
            );
        }
    }

    #[test]
    fn every_key_that_is_not_set_is_a_comment_with_its_default() {
        let shown = annotated(&"[adapter]\nvcs = 64\n".parse().unwrap());
        assert!(
            shown.contains("# Connections at once.\nvcs = 64\n"),
            "{shown}"
        );
        for section in SECTIONS {
            for key in section.keys {
                let line = format!("\n#{} = {}\n", key.name, key.example());
                assert!(shown.contains(&line) || key.name == "vcs", "{line}{shown}");
            }
        }
        let mut lines = shown.lines();
        assert!(lines.all(|line| line.len() <= 80), "{shown}");
    }

    #[test]
    fn examples_can_be_used() {
        let text = new();
        Config::parse_whole(&text).unwrap();
        // Each section by itself, with every key: none excludes another but those of links.
        for section in SECTIONS {
            let keys = section
                .keys
                .iter()
                .filter(|key| !key.name.starts_with("link.memory"));
            let keys = keys.map(|key| format!("{} = {}\n", key.name, key.example()));
            let rest = match section.name {
                "connection" => "[[interface]]\nname = \"wan\"\nlink.memory.peer = \"wan\"\n",
                "interface" => "[adapter]\nname = \"west\"\n",
                _ => "",
            };
            let text = format!("{}\n{}{rest}", section.head(), keys.collect::<String>());
            let text = text.replace("\"cellgate\"", "\"0\"");
            if let Err(error) = Config::parse(&text) {
                panic!("{text}: {error}");
            }
        }
    }

    #[test]
    fn what_is_installed_is_what_config_new_prints() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/systemd/cellgate.toml"
        );
        assert!(std::fs::read_to_string(file).unwrap() == new(), "{}", new());
    }
}
