//! Words of a scenario for files that terminals move.

use serde::{Deserialize, Serialize};

/// Files that a terminal at one host gives to a terminal at another, and who dies meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferSpec {
    /// Name of the host that gives.
    pub from: String,
    /// Name of the host that takes.
    pub to: String,
    /// Its PDUs are of AAL3/4; false: of AAL5.
    #[serde(default)]
    pub aal34: bool,
    /// What comes behind a loss is sent again; false: what was lost alone.
    #[serde(default)]
    pub go_back: bool,
    /// Octets of a file in a PDU.
    #[serde(default = "pdu_octets")]
    pub pdu_octets: u16,
    /// Octets that may be on their way and not acknowledged.
    #[serde(default = "window_octets")]
    pub window_octets: u64,
    /// Files at a time.
    #[serde(default = "jobs")]
    pub jobs: u16,
    /// What becomes of a file that is there before.
    #[serde(default)]
    pub existing: ExistingSpec,
    /// A file of the same length that is there is the same if its octets are; false: if its time of
    /// change is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_digest: bool,
    /// Octets of the taker's disk: those that find no room are given once more when all is told,
    /// and then there is room. None: there always is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_octets: Option<u64>,
    pub files: Vec<FileSpec>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<DeathSpec>,
    /// Cells that come to the taker once more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<RepeatSpec>,
    /// Syncs of the taker's disk that fail, by their numbers from 0 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing_syncs: Vec<u64>,
}

fn pdu_octets() -> u16 {
    1_984
}

fn window_octets() -> u64 {
    1 << 17
}

fn jobs() -> u16 {
    2
}

impl TransferSpec {
    /// The usual parameters, and no files.
    pub fn between(from: &str, to: &str) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            aal34: false,
            go_back: false,
            pdu_octets: pdu_octets(),
            window_octets: window_octets(),
            jobs: jobs(),
            existing: ExistingSpec::default(),
            by_digest: false,
            room_octets: None,
            files: Vec::new(),
            deaths: Vec::new(),
            repeats: Vec::new(),
            failing_syncs: Vec::new(),
        }
    }
}

/// What becomes of a file that is there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExistingSpec {
    #[default]
    Refuse,
    Replace,
    Skip,
}

/// A file, a directory or a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Steps with `/` between; a directory comes before what is in it.
    pub path: String,
    #[serde(default)]
    pub kind: KindSpec,
    /// Of a file.
    #[serde(default)]
    pub octets: u64,
    /// Where its octets begin and end that are holes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<(u64, u64)>,
    /// Permissions.
    #[serde(default = "mode")]
    pub mode: u16,
    /// What its octets are drawn from.
    #[serde(default)]
    pub content: u64,
    /// When it becomes another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes_ns: Vec<u64>,
    /// Another file of its name is there before, of as many octets.
    #[serde(default, skip_serializing_if = "is_false")]
    pub former: bool,
    /// That one has the octets that this one has at first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub former_is_same: bool,
}

fn mode() -> u16 {
    0o644
}

fn is_false(no: &bool) -> bool {
    !no
}

impl FileSpec {
    /// A file without holes.
    pub fn of(path: &str, octets: u64) -> Self {
        Self {
            path: path.into(),
            kind: KindSpec::File,
            octets,
            holes: Vec::new(),
            mode: mode(),
            content: octets,
            changes_ns: Vec::new(),
            former: false,
            former_is_same: false,
        }
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindSpec {
    #[default]
    File,
    Directory,
    Link,
}

/// Who dies, when, and when it is there again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeathSpec {
    pub whose: Death,
    #[serde(flatten)]
    pub at: DeathAt,
    /// It begins anew so long after.
    pub back_ns: u64,
    /// What a disk keeps of what was not synced is drawn from it.
    #[serde(default)]
    pub keeps: u64,
    /// Somebody changes octets of an unfinished file, or of a journal, meanwhile.
    #[serde(default, skip_serializing_if = "is_false")]
    pub spoils: bool,
}

/// Cells that came before come once more, as from a network that had them elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatSpec {
    pub at_ns: u64,
    /// From so many cells ago.
    pub back: u16,
    pub cells: u16,
    /// A bit of each other one is wrong.
    #[serde(default, skip_serializing_if = "is_false")]
    pub damaged: bool,
}

impl RepeatSpec {
    /// Cells that a network remembers.
    pub const CELLS_MAX: u16 = 1 << 13;
}

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Death {
    /// The terminal that gives.
    Giver,
    /// The terminal that takes.
    Taker,
    /// The machine that takes: its disk forgets some of what was not synced.
    Power,
}

/// When: counted from the death before, or from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeathAt {
    /// When so much time has passed.
    AfterNs(u64),
    /// When so many cells have come to it.
    AfterCells(u64),
    /// In the place of an operation of the taker's disk, behind so many.
    AfterOperations(u64),
}
