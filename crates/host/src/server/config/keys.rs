//! What each key of the configuration means. Documents, the manual page and [`annotated`] are made
//! of it.
//!
//! [`annotated`]: super::annotated()

/// A section of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its table: `adapter` of `[adapter]`.
    pub name: &'static str,
    /// Whether the file can have several: `[[interface]]`.
    pub repeats: bool,
    /// What it is for.
    pub about: &'static str,
    pub keys: &'static [Key],
}

/// A key of a section.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted where it lies deeper: `link.udp.local`.
    pub name: &'static str,
    pub unset: Unset,
    /// In Markdown, with its unit where the name has none.
    pub meaning: &'static str,
}

/// What holds where a key is not there.
#[derive(Clone, Copy, Debug)]
pub enum Unset {
    /// This value, in TOML.
    Is(&'static str),
    /// What the text says; a value that the key could have, in TOML.
    Otherwise(&'static str, &'static str),
    /// The section cannot be without it; a value that it could have.
    Needed(&'static str),
}

/// Where a key of a link is not there.
pub(super) const OTHER_LINK: &str = "another link";

impl Key {
    /// A value that it can have, in TOML: the default where that is one.
    pub fn example(&self) -> &'static str {
        match self.unset {
            Unset::Is(value) | Unset::Otherwise(_, value) | Unset::Needed(value) => value,
        }
    }

    /// The default in words, in Markdown.
    pub fn default(&self) -> String {
        match self.unset {
            Unset::Is(value) if value.starts_with('"') => format!("`{value}`"),
            Unset::Is(value) => value.to_owned(),
            Unset::Otherwise(text, _) => text.to_owned(),
            Unset::Needed(_) => "must be there".to_owned(),
        }
    }
}

const fn is(name: &'static str, value: &'static str, meaning: &'static str) -> Key {
    let unset = Unset::Is(value);
    Key {
        name,
        unset,
        meaning,
    }
}

const fn or(
    name: &'static str,
    default: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    let unset = Unset::Otherwise(default, example);
    Key {
        name,
        unset,
        meaning,
    }
}

const fn needed(name: &'static str, example: &'static str, meaning: &'static str) -> Key {
    let unset = Unset::Needed(example);
    Key {
        name,
        unset,
        meaning,
    }
}

/// All sections, in the order of the file.
pub const SECTIONS: &[Section] = &[
    Section {
        name: "server",
        repeats: false,
        about: "the daemon",
        keys: SERVER,
    },
    Section {
        name: "adapter",
        repeats: false,
        about: "an adapter's process; several are `[[adapter]]`, each with a name",
        keys: ADAPTER,
    },
    Section {
        name: "admission",
        repeats: false,
        about: "what there is to promise",
        keys: ADMISSION,
    },
    Section {
        name: "quota",
        repeats: false,
        about: "what one user may have; `[quota.NAME]` gives NAME other quotas",
        keys: QUOTA,
    },
    Section {
        name: "reserve",
        repeats: true,
        about: "addresses that not everybody may open",
        keys: RESERVE,
    },
    Section {
        name: "interface",
        repeats: true,
        about: "an interface and its link; without any there are `lo`, `a` and `b`",
        keys: INTERFACE,
    },
    Section {
        name: "connection",
        repeats: true,
        about: "a permanent connection",
        keys: CONNECTION,
    },
];

const SERVER: &[Key] = &[
    or(
        "socket",
        "`control.sock` in the state directory; without one set, `$CELLGATE_SOCKET`",
        "\"/run/cellgate/control.sock\"",
        "the control socket",
    ),
    is(
        "socket_mode",
        "\"0660\"",
        "permissions of the control socket, octal",
    ),
    or(
        "socket_group",
        "that of the user",
        "\"cellgate\"",
        "group of the control socket, by name or number",
    ),
    or(
        "state_dir",
        "`/run/cellgate`; without privilege `$XDG_RUNTIME_DIR/cellgate`, else `cellgate-UID` in \
         the temporary directory",
        "\"/run/cellgate\"",
        "the directory of what a successor needs; nobody else may write there",
    ),
    or(
        "user",
        "none",
        "\"cellgate\"",
        "the user that the daemon becomes once its socket is there, by name or number",
    ),
];

const ADAPTER: &[Key] = &[
    or(
        "name",
        "none",
        "\"west\"",
        "by which interfaces name it, where there are [several](#several-adapters-of-one-daemon)",
    ),
    is("vcs", "1024", "connections at once"),
    is(
        "leaves",
        "64",
        "blocks of 16,384 addresses in use at once, those of all interfaces together",
    ),
    is("attachments", "1024", "applications at once"),
    is("ports", "16", "interfaces at once"),
    is(
        "port_cells",
        "16384",
        "cells that each direction of an interface can have waiting: a power of two",
    ),
    is(
        "memory_max",
        "2147483648",
        "octets for connections and applications together; what interfaces have is beyond it",
    ),
    is("pin", "true", "pin the firmware thread to one CPU"),
    or(
        "cpu",
        "the last one allowed that [no other adapter has](#several-adapters-on-one-machine)",
        "1",
        "the CPU of the firmware thread",
    ),
    is("nice", "-20", "nice value of the firmware thread"),
    is(
        "idle",
        "\"adaptive\"",
        "what the firmware thread does while [there is nothing to do](#when-the-adapter-rests): \
         `\"spin\"`, `\"adaptive\"` or `\"sleep\"`",
    ),
    or(
        "linger_ns",
        "as long as has paid, 200000 at most; 0 with `\"sleep\"`",
        "100000",
        "how long it looks on before it rests; no more than `gap_max_ns`",
    ),
    is(
        "lock_memory",
        "true",
        "keep its memory in place, and that of connections as far as `RLIMIT_MEMLOCK` lets it, \
         which counts receive buffers twice; `stats`, `doctor` and the log tell what is not",
    ),
    is(
        "gap_max_ns",
        "30000000",
        "the longest stall that costs a conforming sender nothing; 250000 or more for an adapter \
         that rests",
    ),
    is(
        "clump_cells",
        "29",
        "cells that a link may bring at once, 29 being those of a datagram at an MTU of 1,500: \
         contracts tolerate them. A pseudowire whose datagrams hold more is refused; both ends are \
         taken to pack as many",
    ),
    is(
        "overload_cells",
        "262144",
        "cells taken from an interface without finding it empty after which best effort is \
         refused, but for an eighth as many, 4,096 at most, now and then; 0: never",
    ),
    is(
        "silence_max_ns",
        "10000000000",
        "how long it may stand still before it is taken for dead; 0: for ever, under a debugger",
    ),
];

const ADMISSION: &[Key] = &[
    is(
        "best_effort_percent",
        "5",
        "of interfaces and of the adapter's core, kept for best effort",
    ),
    is(
        "headroom_percent",
        "25",
        "reserved beyond the 99th percentile of the cost measured",
    ),
    is(
        "adapter_ppm",
        "1000000",
        "of the adapter's core, in millionths, what there is to promise",
    ),
    or(
        "worker_ppm",
        "900000 of each CPU beside the adapter's, 100000 where there is none",
        "900000",
        "of one CPU, in millionths, what there is to promise to the workers and to applications",
    ),
    or(
        "sdu_floor",
        "none",
        "512",
        "CPU time is reserved for SDUs of so many octets where a contract allows larger ones",
    ),
    is("cdvt_ns", "1000000", "CDVT where a contract gives none"),
    is("wake_up_ns", "10000000", "how late an application may be"),
];

const QUOTA: &[Key] = &[
    is("connections", "256", "connections of one user"),
    is("memory", "268435456", "octets of one user"),
    is(
        "cell_s",
        "4294967295",
        "guaranteed cells/s of one user, over all interfaces, each way",
    ),
    is(
        "adapter_ppm",
        "1000000",
        "of the adapter's core, in millionths, what is reserved for one user",
    ),
];

const RESERVE: &[Key] = &[
    or(
        "interface",
        "each",
        "\"wan\"",
        "the interface of the addresses",
    ),
    or("vpi", "all", "7", "VPIs: a number, or a text as `\"7-9\"`"),
    or(
        "vci",
        "all",
        "\"32-4095\"",
        "VCIs: a number, or a text as `\"32-63\"`",
    ),
    is("users", "[]", "users who may open them, by name or number"),
    is(
        "groups",
        "[]",
        "groups whose members may open them, by name or number",
    ),
];

const INTERFACE: &[Key] = &[
    needed("name", "\"wan\"", "its name, in addresses and commands"),
    or(
        "adapter",
        "the first",
        "\"west\"",
        "the adapter whose port it is",
    ),
    is(
        "form",
        "\"nni\"",
        "the header of its cells: `\"nni\"` or `\"uni\"`",
    ),
    is(
        "priority",
        "\"normal\"",
        "`\"real-time\"`: the adapter takes its cells before those of others in each step",
    ),
    is(
        "line_rate.cell_s",
        "353207",
        "cells/s of its line; those of an OC-3c where it is not there",
    ),
    or(
        "line",
        "clean",
        "\"ber 1e-6 seed 7\"",
        "how the line is [impaired](#a-line-that-is-impaired) on which its cells arrive",
    ),
    or(
        "link.memory.peer",
        OTHER_LINK,
        "\"b\"",
        "the interface of this daemon at the other end; its own name for a loop",
    ),
    or(
        "link.memory.socket",
        OTHER_LINK,
        "\"/run/cellgate/line.sock\"",
        "the path at which [another daemon's interface](#memory-links-between-daemons) is met",
    ),
    or(
        "link.udp.local",
        OTHER_LINK,
        "\"192.0.2.1:6635\"",
        "a pseudowire's own address; without a port 6635",
    ),
    or(
        "link.udp.peer",
        OTHER_LINK,
        "\"192.0.2.2:6635\"",
        "the address of its other end; without a port 6635",
    ),
    or(
        "link.udp.label_out",
        OTHER_LINK,
        "16",
        "the label of what is sent, 16 to 1048575",
    ),
    or(
        "link.udp.label_in",
        OTHER_LINK,
        "16",
        "the label of what arrives, 16 to 1048575",
    ),
    is(
        "link.udp.source_port",
        "0",
        "the source port of what is sent; 0: whichever is free",
    ),
    or(
        "link.udp.peer_source_port",
        "any",
        "6635",
        "the source port of what arrives",
    ),
    is("link.udp.mtu", "1500", "octets of the longest IP packet"),
    is(
        "link.udp.mode",
        "\"n1\"",
        "how cells lie in datagrams: `\"n1\"`, `\"n1-cw\"`, `\"vcc@VPI.VCI\"` or `\"vpc@VPI\"`",
    ),
    or(
        "link.udp.pack",
        "as many as fit",
        "28",
        "cells of a datagram at most",
    ),
    is(
        "link.udp.timer_ns",
        "0",
        "how long a datagram that is not full waits for more cells; 0: not at all",
    ),
];

const CONNECTION: &[Key] = &[
    needed("address", "\"wan.0.100\"", "its address, `itf.vpi.vci`"),
    needed(
        "contract",
        "\"cbr,aal5:pcr=10000,max_sdu=1500\"",
        "its contract, as `cellgate contract` explains them",
    ),
    is(
        "notification",
        "\"last_cell\"",
        "when events tell of cells: `\"last_cell\"`, `\"every_cell\"`, `\"first_cell\"`, \
         `\"first_and_last_cell\"`, `\"polled\"` or \
         `{ silent = { threshold = N, longest_delay_ns = N } }`",
    ),
    is(
        "marks",
        "\"none\"",
        "`\"mssar\"`: the cells of AAL0 carry blocks, and `notification` is of a block's first and \
         last",
    ),
    or(
        "transmit_pdus",
        "by contract",
        "16",
        "PDUs that may wait to be sent",
    ),
    or(
        "receive_pdus",
        "by contract",
        "16",
        "PDUs that may wait to be read",
    ),
    or(
        "queue_threshold",
        "none",
        "\"75%\"",
        "a fill of the receive queue at which an event tells and a reader is woken: `\"12\"` PDUs, \
         or `\"75%\"` of the largest PDUs that the buffer has room for",
    ),
    is(
        "completions",
        "false",
        "whether an event tells that a PDU has been sent",
    ),
];

impl Section {
    /// Its head in the file.
    pub fn head(&self) -> String {
        match self.repeats {
            true => format!("[[{}]]", self.name),
            false => format!("[{}]", self.name),
        }
    }
}

/// Markdown as plain text: no links and no signs of code.
pub fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, behind)) = rest.split_once('[') {
        // Only what a link's target follows is a link's text.
        let Some((inner, tail)) = behind.split_once("](") else {
            break;
        };
        text += before;
        text += inner;
        rest = tail.split_once(')').map_or("", |(_, rest)| rest);
    }
    (text + rest).replace('`', "")
}

/// The table of docs/server.md.
#[cfg(test)]
fn markdown() -> String {
    let mut text = "| section | key | default | meaning |\n|---|---|---|---|\n".to_owned();
    for section in SECTIONS {
        let mut head = format!("`{}`", section.head());
        for key in section.keys {
            let (name, default, meaning) = (key.name, key.default(), key.meaning);
            text += &format!("| {head} | `{name}` | {default} | {meaning} |\n");
            head.clear();
        }
    }
    text.replace("|  |", "| |")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::server::Config;

    #[test]
    fn docs_have_each_key_as_it_is_here() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        let wanted = markdown();
        assert!(
            docs.contains(&wanted),
            "docs/server.md is to have\n{wanted}"
        );
    }

    #[test]
    fn a_link_is_its_text() {
        assert_eq!(plain("a [b](#c) `d` [e](f)g"), "a b d eg");
        assert_eq!(plain("`[[adapter]]`, each"), "[[adapter]], each");
    }

    /// A value at a dotted key.
    fn at<'a>(table: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
        let mut parts = key.split('.');
        let mut found = table.get(parts.next()?)?;
        for part in parts {
            found = found.as_table()?.get(part)?;
        }
        Some(found)
    }

    fn value(text: &str) -> toml::Value {
        let table: toml::Table = format!("x = {text}").parse().unwrap();
        table["x"].clone()
    }

    /// A file with an interface and a connection that have what they need alone.
    const LEAST: &str = "[[interface]]\nname = \"wan\"\n[interface.link.udp]\n\
                         local = \"127.0.0.1:1\"\npeer = \"127.0.0.1:2\"\n\
                         label_out = 16\nlabel_in = 16\n\
                         [[connection]]\naddress = \"wan.0.32\"\ncontract = \"ubr,aal5\"\n\
                         [[reserve]]\nusers = []\n";

    #[test]
    fn defaults_are_those_of_the_daemon() {
        let made = Config::parse(LEAST).unwrap().print();
        let made: toml::Table = made.parse().unwrap();
        for section in SECTIONS {
            let table = match &made[section.name] {
                toml::Value::Array(all) => all[0].as_table().unwrap(),
                one => one.as_table().unwrap(),
            };
            for key in section.keys {
                let found = at(table, key.name);
                match key.unset {
                    // A key that is not printed has a default that needs no telling.
                    Unset::Is(text) => {
                        let is = found.is_none_or(|found| *found == value(text));
                        assert!(is, "{}.{}: {found:?}", section.name, key.name);
                    }
                    Unset::Otherwise(OTHER_LINK, _) | Unset::Needed(_) => {}
                    Unset::Otherwise(..) => {
                        let name = format!("{}.{}", section.name, key.name);
                        let told = ["reserve.vpi", "reserve.vci"].contains(&&*name);
                        assert!(found.is_none() || told, "{name}: {found:?}");
                    }
                }
            }
        }
    }

    /// The keys that the daemon says it expects in place of an unknown one.
    fn expected(text: &str) -> BTreeSet<String> {
        let error = Config::parse(text).unwrap_err().to_string();
        let (_, names) = error.split_once("expected ").expect(&error);
        let names = names.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn each_key_is_here_and_no_other() {
        for section in SECTIONS {
            let first = |deep: &str| {
                let names = section.keys.iter().filter_map(|key| {
                    let rest = key.name.strip_prefix(deep)?;
                    rest.split('.').next()
                });
                names.map(str::to_owned).collect::<BTreeSet<_>>()
            };
            let text = format!("{}\nnone = 1\n", section.head());
            if section.name == "quota" {
                // Any other key is a user's name.
                continue;
            }
            let mut names = expected(&text);
            // It is a client's own.
            names.remove("receive_into");
            assert_eq!(first(""), names, "{}", section.name);
        }
        let udp = expected(&LEAST.replace("label_in = 16\n", "label_in = 16\nnone = 1\n"));
        let names: BTreeSet<String> = INTERFACE
            .iter()
            .filter_map(|key| key.name.strip_prefix("link.udp."))
            .map(str::to_owned)
            .collect();
        assert_eq!(names, udp);
    }
}
