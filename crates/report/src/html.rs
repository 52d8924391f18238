//! One page with everything, for a phone or a desk: no scripts, nothing from elsewhere.

use std::fmt::Write;

use crate::svg::escaped;
use crate::text::HEADINGS;
use crate::{Check, Class, Outcome, Table};

/// One experiment on the page.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// Its name, as on the command line.
    pub name: &'a str,
    /// Paper and figure.
    pub source: &'a str,
    /// What came out.
    pub outcome: &'a Outcome,
}

const STYLE: &str = "\
body{font:16px/1.45 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:0 1rem 3rem;\
color:#222;background:#fff}\
h1{font-size:1.5rem}h2{font-size:1.2rem;margin:2.5rem 0 .2rem;border-top:2px solid #ddd;\
padding-top:1rem}h3{font-size:1rem;margin:1.2rem 0 .3rem}\
.source{color:#666;margin:0}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem}\
th,td{padding:.25rem .6rem;text-align:left;border-bottom:1px solid #e4e4e4;vertical-align:top}\
th{background:#f6f6f6}td.n{text-align:right;font-variant-numeric:tabular-nums}\
figure{margin:1rem 0}figure svg{width:100%;max-width:45rem;height:auto;border:1px solid #eee}\
.pass{color:#00664b;font-weight:600}.fail{color:#b00020;font-weight:700}\
nav a{display:inline-block;margin:.1rem .8rem .1rem 0}\
@media(max-width:40rem){.checks thead,.checks td:empty{display:none}\
.checks tr{display:block;padding:.4rem 0;border-bottom:1px solid #ddd}\
.checks td{display:block;padding:0;border:0}\
.checks td:not(:last-child):before{content:attr(data-of) \": \";color:#666}}\
";

/// The page of these experiments.
pub fn page(title: &str, sections: &[Section<'_>]) -> String {
    let mut body = String::new();
    let checks = || sections.iter().flat_map(|section| &section.outcome.checks);
    let judged = checks().filter(|check| check.class != Class::Lost).count();
    let passed = checks()
        .filter(|check| check.class != Class::Lost && check.pass)
        .count();
    put(&mut body, format_args!("<h1>{}</h1>\n", escaped(title)));
    let experiments = sections.len();
    put(
        &mut body,
        format_args!("<p>{experiments} experiments, {passed} of {judged} checks pass.</p>\n<nav>"),
    );
    for section in sections {
        let (name, verdict) = (escaped(section.name), verdict(section.outcome.passes()));
        put(
            &mut body,
            format_args!("<a href=\"#{name}\">{name} {verdict}</a>\n"),
        );
    }
    body += "</nav>\n";
    for section in sections {
        put_section(&mut body, section);
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

fn put(body: &mut String, text: std::fmt::Arguments<'_>) {
    body.write_fmt(text).expect("a String takes everything");
}

fn verdict(pass: bool) -> &'static str {
    match pass {
        true => "<span class=\"pass\">pass</span>",
        false => "<span class=\"fail\">FAIL</span>",
    }
}

fn put_section(body: &mut String, section: &Section<'_>) {
    let (name, source) = (escaped(section.name), escaped(section.source));
    put(
        body,
        format_args!("<h2 id=\"{name}\">{name}</h2>\n<p class=\"source\">{source}</p>\n"),
    );
    for figure in &section.outcome.figures {
        put(body, format_args!("<figure>{}</figure>\n", figure.to_svg()));
    }
    put_checks(body, &section.outcome.checks);
    for table in &section.outcome.tables {
        put_table(body, table);
    }
    for note in &section.outcome.notes {
        put(body, format_args!("<p>{}</p>\n", escaped(note)));
    }
}

fn put_checks(body: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    let head = HEADINGS.iter().copied();
    put_head(body, ("The paper and ours", "wide checks"), head);
    for check in checks {
        body.push_str("<tr>");
        let mut fields = check.fields().map(|field| escaped(&field));
        fields[HEADINGS.len() - 1] = match check.class {
            Class::Lost => "-".to_owned(),
            _ => verdict(check.pass).to_owned(),
        };
        // On a phone each row is a list, which says of what each entry is.
        for (heading, field) in HEADINGS.iter().zip(fields) {
            put(body, format_args!("<td data-of=\"{heading}\">{field}</td>"));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody></table></div>\n");
}

fn put_table(body: &mut String, table: &Table) {
    let (headings, rows) = table.shown();
    let head = headings.iter().map(String::as_str);
    put_head(body, (&table.title, "wide"), head);
    for (row, entries) in rows.iter().zip(&table.rows) {
        body.push_str("<tr>");
        for (text, entry) in row.iter().zip(entries) {
            let class = match entry {
                crate::Entry::Number(..) => " class=\"n\"",
                _ => "",
            };
            put(body, format_args!("<td{class}>{}</td>", escaped(text)));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody></table></div>\n");
}

fn put_head<'a>(
    body: &mut String,
    (title, class): (&str, &str),
    headings: impl Iterator<Item = &'a str>,
) {
    put(
        body,
        format_args!(
            "<h3>{}</h3>\n<div class=\"{class}\"><table><thead><tr>",
            escaped(title)
        ),
    );
    for heading in headings {
        put(body, format_args!("<th>{}</th>", escaped(heading)));
    }
    body.push_str("</tr></thead><tbody>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Entry};

    #[test]
    fn the_page_names_every_check_and_needs_nothing_from_elsewhere() {
        let mut table = Table::new("t", "Rates <all>", &[("a", "a"), ("b_cell_s", "cells/s")]);
        table.row([Entry::text("x"), Entry::number(5, 0)]);
        let outcome = Outcome {
            tables: vec![table],
            checks: vec![
                Claim::derived("P1", "good", "").holds(true, "yes"),
                Claim::derived("P2", "bad", "").holds(false, "no"),
            ],
            ..Outcome::default()
        };
        let section = Section {
            name: "one",
            source: "Paper, Figure 1",
            outcome: &outcome,
        };
        let page = page("Lab", &[section]);
        for part in [
            "1 of 2 checks pass",
            "P2",
            "FAIL",
            "Rates &lt;all&gt;",
            "width=device-width",
            "<td data-of=\"ours\">",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
    }
}
