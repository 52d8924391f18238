//! The page as it is sent: with its first state in it, for whoever runs no script.

use std::fmt::Write;

use cellgate::{CellRate, ConnectionInfo, Discard, RateReason};

use crate::watch::Look;

/// The page, but for what is filled in.
const PAGE: &str = include_str!("page.html");

/// The page, whose script and style have `nonce`.
pub(super) fn page(seen: Result<&Look, &str>, nonce: &str) -> String {
    let (status, rows) = match seen {
        Ok(look) => (escaped(&look.stats.server), rows(look)),
        Err(why) => (escaped(why), String::new()),
    };
    let meanings: String = Discard::ALL
        .iter()
        .map(|reason| format!("[\"{}\",\"{}\"],", reason.name(), reason.meaning()))
        .collect();
    let reasons: String = RateReason::ALL
        .iter()
        .map(|reason| format!("{}:\"{}\",", reason.name(), reason.meaning()))
        .collect();
    PAGE.replace("{nonce}", nonce)
        .replace("/*meanings*/", &meanings)
        .replace("/*reasons*/", &reasons)
        .replace("<!--status-->", &status)
        .replace("<!--rows-->", &rows)
}

/// A row for each connection.
fn rows(look: &Look) -> String {
    let mut text = String::new();
    for info in &look.stats.connections {
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             </tr>",
            escaped(&info.address.to_string()),
            escaped(&info.contract),
            promise(info),
            info.stats.pdus_transmitted,
            info.stats.pdus_delivered,
            info.stats.pdus_discarded.total(),
        );
    }
    text
}

fn promise(info: &ConnectionInfo) -> String {
    let rates = [("out", info.transmit), ("in", info.receive)];
    let rates = rates.into_iter().filter_map(|(way, rate)| {
        let cell_s = rate.map(CellRate::cell_s)?;
        Some(format!("{way} {cell_s} cells/s"))
    });
    let rates: Vec<String> = rates.collect();
    match (info.guaranteed, info.at_risk()) {
        (true, false) => format!("guaranteed, {}", rates.join(", ")),
        (true, true) => format!("at risk, {}", rates.join(", ")),
        (false, _) => "best effort".to_owned(),
    }
}

/// A text as HTML has it, in an element or in quotes.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::stats;

    #[test]
    fn the_first_state_is_in_the_page_and_nothing_in_it_is_markup() {
        let mut look = Look {
            stats: stats(),
            ..Look::default()
        };
        look.stats.server = "<script>alert('&')</script>".to_owned();
        let page = page(Ok(&look), "00ff");
        assert!(!page.contains("<script>alert"));
        assert!(page.contains("&lt;script&gt;alert(&#39;&amp;&#39;)"));
        assert!(page.contains("<th scope=\"row\">lo.0.32</th>"));
        assert!(page.contains("unused:\"it was not used for a while\","));
        for left in ["{nonce}", "<!--", "/*meanings*/", "/*reasons*/"] {
            assert!(!page.contains(left), "{left}");
        }
        assert!(super::page(Err("no server"), "0").contains("no server"));
    }

    #[test]
    fn the_page_is_small() {
        assert!(PAGE.len() <= 70 * 1_024, "{} octets", PAGE.len());
    }
}
