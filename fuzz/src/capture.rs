//! Capture files.

use cellgate_capture::{Content, Error, RECORD_LEN_MAX, Reader};

/// Records before a file has to end: each takes an octet of it at least.
fn records_max(data: &[u8]) -> usize {
    data.len() + 1
}

/// A file of any format: every record is within bounds, every error names a place in the file, and
/// the reader comes to an end.
pub fn capture(data: &[u8]) {
    let Ok(reader) = Reader::open(data) else {
        return;
    };
    let name = reader.format();
    assert!(["pcapng", "pcap", "erf", "eyesdn"].contains(&name));
    let mut records = 0;
    for record in reader {
        records += 1;
        assert!(records <= records_max(data), "{name} does not end");
        match record {
            Ok(record) => {
                assert!(record.offset <= data.len() as u64);
                assert!(record.content.octets().len() <= RECORD_LEN_MAX);
                if let Content::Aal5Pdu { .. } | Content::Cell(_) = record.content {
                    assert!(record.content.header().is_some());
                }
                assert!(!record.content.kind().is_empty());
            }
            Err(Error::Broken { offset, reason }) => {
                assert!(offset <= data.len() as u64, "{name}: {offset} {reason}");
            }
            Err(Error::Io { offset, source }) => panic!("{name}: {offset} {source}"),
            Err(other) => panic!("{name}: {other} after the file's start"),
        }
    }
}
