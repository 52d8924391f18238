//! The pages that are no verb's: cellgate.toml(5) and cellgate(7).

use cellgate_host::server::{SECTIONS, Unset, plain};
use clap::Command;

/// Text that stands for itself in roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

fn head(title: &str, section: u8, manual: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {title} {section} \"\" \"cellgate {version}\" \"{manual}\"\n")
}

/// A sentence of what a table has as a phrase.
fn sentence(phrase: &str) -> String {
    let text = plain(phrase);
    let first = text.get(..1).unwrap_or_default().to_uppercase();
    format!("{first}{}.", text.get(1..).unwrap_or_default())
}

/// cellgate.toml(5): each key of the configuration.
pub(crate) fn configuration() -> String {
    let mut page = head("CELLGATE.TOML", 5, "cellgate's files");
    page += ".SH NAME\ncellgate.toml \\- configuration of the cellgate daemon\n\
             .SH SYNOPSIS\n.nf\ncellgate serve \\-c /etc/cellgate.toml\n\
             cellgate config new > cellgate.toml\n\
             cellgate config check cellgate.toml\n.fi\n\
             .SH DESCRIPTION\nA file of TOML. Every section is optional, and so is every key that \
             has a default. An interface has one link. An unknown key is refused with its line and \
             column. A quantity carries its unit in its name, or is what it says here.\n.PP\n\
             On SIGHUP the daemon reads the file again: interfaces, connections, [admission], \
             [quota] and [[reserve]] take effect; [server] and [adapter] wait for a restart. A \
             file that cannot be used changes nothing.\n";
    for section in SECTIONS {
        page += &format!(".SH {}\n", escaped(&section.head()));
        page += &format!("{}\n", escaped(&sentence(section.about)));
        for key in section.keys {
            page += &format!(".TP\n\\fB{}\\fP\n", escaped(key.name));
            page += &format!("{}\n", escaped(&sentence(key.meaning)));
            page += &match key.unset {
                Unset::Needed(value) => format!("It must be there, as {}.\n", escaped(value)),
                Unset::Is(value) => format!("Default: {}.\n", escaped(value)),
                Unset::Otherwise(text, value) => {
                    let (text, value) = (escaped(&plain(text)), escaped(value));
                    format!("Without: {text}. Example: {value}.\n")
                }
            };
        }
    }
    page + ".SH EXAMPLES\n.nf\n[[interface]]\nname = \"wan\"\n\
            link.udp.local = \"192.0.2.1\"\nlink.udp.peer = \"192.0.2.2\"\n\
            link.udp.label_out = 16\nlink.udp.label_in = 16\n\n\
            [[connection]]\naddress = \"wan.0.100\"\n\
            contract = \"cbr,aal5:pcr=20Mbps,max_sdu=1500\"\n.fi\n\
            .SH \"SEE ALSO\"\ncellgate\\-serve(1), cellgate\\-config(1), cellgate(7)\n"
}

/// cellgate(7): what there is, and how it belongs together.
pub(crate) fn overview(command: &Command) -> String {
    let mut page = head("CELLGATE", 7, "cellgate");
    page += ".SH NAME\ncellgate \\- a real\\-time ATM host in user space\n\
             .SH DESCRIPTION\nA daemon admits connections, each with a traffic contract, and tells \
             an adapter what to do. The adapter is a process of its own: it polices and reassembles \
             what comes, shapes what goes, and writes each payload once, into memory that the \
             application maps. What a contract promises is kept whatever else arrives.\n\
             .SS Addresses\nA connection is \\fIinterface\\fP.\\fIvpi\\fP.\\fIvci\\fP, as \
             wan.0.100. Without an interface it is of the only one, else of lo. VCIs below 32 are \
             for root and the daemon's own user.\n\
             .SS Interfaces\nWithout configuration there are lo, which receives what it sends, and \
             a and b, which are joined. cellgate\\-itf\\-add(1) adds others: memory, or pseudowires \
             over UDP (RFC 4717).\n\
             .SS Contracts\nA contract is a text, as cbr,aal5:pcr=20Mbps,max_sdu=1500. \
             cellgate\\-contract(1) explains one. A refusal names what is short, and offers a \
             contract that would fit.\n\
             .SH COMMANDS\n";
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let about = verb.get_about().map(ToString::to_string);
        let about = about.unwrap_or_default();
        let name = escaped(verb.get_name());
        page += &format!(".TP\n\\fBcellgate\\-{name}\\fP(1)\n{}\n", escaped(&about));
    }
    page + ".SH ENVIRONMENT\n.TP\n\\fBCELLGATE_SOCKET\\fP\nThe daemon's control socket.\n\
            .TP\n\\fBCOLUMNS\\fP\nColumns of help and of tables, in place of the terminal's.\n\
            .TP\n\\fBNO_COLOR\\fP\nHelp and errors have no colors.\n\
            .SH FILES\n.TP\n\\fI/etc/cellgate.toml\\fP\nThe configuration, by custom.\n\
            .TP\n\\fI/run/cellgate\\fP\nThe state directory with the control socket; without \
            privilege $XDG_RUNTIME_DIR/cellgate, else cellgate\\-UID in the temporary directory.\n\
            .SH \"EXIT STATUS\"\n0: all went well.\n.br\n1: something failed, or a verdict is bad.\n\
            .br\n2: the command was called wrongly.\n.br\n3: admission refused the contract.\n.br\n\
            4: no server answers.\n\
            .SH EXAMPLES\n.nf\n$ cellgate serve &\n$ cellgate recv \\-\\-vc b.0.100 \\-\\-count 1 &\n\
            $ echo hello | cellgate send \\-\\-vc a.0.100 \\-\n.fi\n\
            .SH \"SEE ALSO\"\ncellgate(1), cellgate.toml(5), cellgate(3)\n"
}
