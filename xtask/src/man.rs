//! Manual pages: one for each verb, and those of section 5 and 7.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use cellgate_cli::words::{bare, words_of};
use clap::Command;
use clap_mangen::Man;

use crate::manual;

/// Writes the pages into `dir`.
pub(crate) fn write(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    for (name, text) in pages()? {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// File names and pages.
pub(crate) fn pages() -> io::Result<Vec<(String, String)>> {
    let mut command = cellgate_cli::command();
    // A command that is built later would have pages of `help`.
    command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, "cellgate", &mut pages)?;
    pages.push(("cellgate.toml.5".to_owned(), manual::configuration()));
    pages.push(("cellgate.7".to_owned(), manual::overview(&command)));
    Ok(pages)
}

fn collect(command: &Command, name: &str, pages: &mut Vec<(String, String)>) -> io::Result<()> {
    pages.push((format!("{name}.1"), page(command, name)?));
    let inner = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set());
    for inner in inner {
        collect(inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str) -> io::Result<String> {
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .date("")
        .source(format!("cellgate {}", env!("CARGO_PKG_VERSION")))
        .manual("cellgate's commands");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    examples(command, &mut page)?;
    exit_status(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    Ok(without_hyphens(&page, command))
}

/// The examples that stand behind the long help, as they are.
fn examples(command: &Command, page: &mut impl Write) -> io::Result<()> {
    let text = command.get_after_long_help().map(ToString::to_string);
    let Some(text) = text
        .as_deref()
        .and_then(|text| text.strip_prefix("Examples:\n"))
    else {
        return Ok(());
    };
    writeln!(page, ".SH EXAMPLES\n.nf")?;
    for line in text.lines() {
        let line = line.strip_prefix("  ").unwrap_or(line);
        let line = line
            .replace('\\', "\\e")
            .replace('-', "\\-")
            .replace('\'', "\\(aq");
        match line.starts_with('.') {
            true => writeln!(page, "\\&{line}")?,
            false => writeln!(page, "{line}")?,
        }
    }
    writeln!(page, ".fi")
}

fn exit_status(page: &mut impl Write) -> io::Result<()> {
    let codes = [
        "0: all went well.",
        "1: something failed, or a verdict is bad.",
        "2: the command was called wrongly.",
        "3: admission refused the contract.",
        "4: no server answers.",
    ];
    writeln!(page, ".SH \"EXIT STATUS\"\n{}", codes.join("\n.br\n"))?;
    writeln!(
        page,
        ".SH \"SEE ALSO\"\ncellgate(1), cellgate(7), cellgate.toml(5)"
    )
}

/// The words of a verb as they are typed.
fn without_hyphens(page: &str, command: &Command) -> String {
    let mut words: Vec<_> = words_of(command).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words.iter().fold(page.to_owned(), |page, word| {
        let option = format!("\\-\\-{}", word.replace('-', "\\-"));
        page.replace(&option, &bare(word).replace('-', "\\-"))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command as Program;

    use super::*;

    #[test]
    fn each_verb_has_a_page_and_help_has_none() {
        let pages = pages().unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| &**name).collect();
        for name in [
            "cellgate.1",
            "cellgate-itf-add.1",
            "cellgate-put.1",
            "cellgate-bench-rest.1",
        ] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert!(
            !names
                .iter()
                .any(|name| name.contains("help") || name.contains("actor"))
        );
        let (_, page) = pages
            .iter()
            .find(|(name, _)| name == "cellgate-itf-add.1")
            .unwrap();
        assert!(
            page.contains("\\fBlabel\\fR") && !page.contains("\\-\\-label"),
            "{page}"
        );
        assert!(
            page.contains(".SH EXAMPLES\n.nf\n$ cellgate itf add"),
            "{page}"
        );
    }

    #[test]
    fn pages_are_found_and_have_no_mistakes() {
        let dir = std::env::temp_dir().join(format!("cellgate-man-{}", std::process::id()));
        for (name, text) in pages().unwrap() {
            let folder = dir.join(format!("man{}", name.chars().last().unwrap()));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(&name), text).unwrap();
            let mut groff = Program::new("groff");
            let groff = groff
                .args(["-man", "-Tutf8", "-ww", "-z"])
                .arg(folder.join(&name));
            match groff.output() {
                Ok(output) => {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success() && said.is_empty(), "{name}: {said}");
                }
                Err(error) => println!("skipped {name}: groff: {error}"),
            }
        }
        for page in ["cellgate-vc-add", "cellgate.toml", "cellgate"] {
            let mut man = Program::new("man");
            match man.arg("-w").arg(page).env("MANPATH", &dir).output() {
                Ok(output) => assert!(output.status.success(), "{page}: {output:?}"),
                Err(error) => println!("skipped {page}: man: {error}"),
            }
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
