//! What other programs say of what the product writes: tshark, and tcpdump beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{
    START_NS, address, cells, ethernet_ping, eyesdn, frames_around, hex, ipv4, llc_ping,
    mpls_frame, oam, pdu, ping, pseudowire_packets, recorded, records, udp,
};
use cellgate_capture::{Direction, Item, Link, Packet, PcapngWriter, Recorder, SduKind};
use cellgate_core::upper::{Encapsulation, InAtmArp};
use cellgate_core::wire::pseudowire::{SduHeader, Sequence};
use cellgate_core::wire::{Framing, SarPdu, SegmentType, hec};

/// A folder of its own for the files of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cellgate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    fn write(&self, name: &str, octets: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, octets).expect("a temporary file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect(program);
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Which dissector each label of `pseudowire_packets` needs.
const LABELS: [&str; 10] = [
    "-d",
    "mpls.label==1001,mplspwatmn1nocw",
    "-d",
    "mpls.label==1002,mplspwatmn1cw",
    "-d",
    "mpls.label==1003-1004,mplspwatm11_or_aal5pdu",
    "-d",
    "mpls.label==1006,mplspwatm11_or_aal5pdu",
    "-d",
    "mpls.label==1005,mplspwatmaal5sdu",
];

/// The values of `fields` in each frame, joined by blanks. No frame may be malformed.
fn fields(path: &Path, fields: &[&str]) -> Vec<String> {
    let path = path.to_str().expect("a plain path");
    let mut args = vec![
        "-r",
        path,
        "-T",
        "fields",
        "-E",
        "separator= ",
        "-e",
        "_ws.malformed",
    ];
    args.extend(LABELS);
    args.extend(fields.iter().flat_map(|field| ["-e", *field]));
    let output = output("tshark", &args);
    let line = |line: &str| {
        let values = line.strip_prefix(' ');
        values
            .unwrap_or_else(|| panic!("malformed: {line}"))
            .to_string()
    };
    output.lines().map(line).collect()
}

/// What tshark says behind `label` wherever it says it.
fn verdicts(path: &Path, label: &str) -> Vec<String> {
    let path = path.to_str().expect("a plain path");
    let mut args = vec!["-r", path, "-V"];
    args.extend(LABELS);
    let output = output("tshark", &args);
    let found = output.lines().filter_map(|line| line.split_once(label));
    found
        .map(|(_, verdict)| verdict.trim().to_string())
        .collect()
}

/// Rows 1 and 2: HEC and OAM cells.
fn hec_and_oam(folder: &Folder) {
    let path = folder.write("cells.trc", &eyesdn());
    let hec = verdicts(&path, "Header Error Check: 0x");
    let wanted = [
        "4e (correct)",
        "40 (correct)",
        "4e (error in bit 0)",
        "4e (error in bit 17)",
        "4f (error in bit 39)",
        "4e (uncorrectable error)",
        "78 (correct)",
        "76 (correct)",
        "86 (correct)",
        "d1 (correct)",
        "78 (correct)",
        "76 (correct)",
        "6a (correct)",
        "52 (correct)",
    ];
    assert_eq!(hec, wanted);
    let names = [
        "atm.vpi",
        "atm.vci",
        "atm.payload_type",
        "atm.cell_loss_priority",
    ];
    let cells = fields(&path, &names);
    assert_eq!(cells.len(), 14);
    assert_eq!(
        [&*cells[0], &cells[1], &cells[13]],
        ["1 100 0 0", "1 100 1 0", "0 0 0 1"]
    );
    let names = [
        "atm.aal_oamcell.type",
        "atm.aal_oamcell.type.fm",
        "atm.aal_oamcell.type.pm",
        "atm.aal_oamcell.type.ad",
        "atm.aal_oamcell.crc",
    ];
    let oam = &fields(&path, &names)[6..12];
    let wanted = [
        "1 8   0x025d",
        "1 0   0x03b9",
        "1 1   0x00af",
        "2  0  0x02b1",
        "1 8   0x03c5",
        "8   0 0x02b2",
    ];
    assert_eq!(oam, wanted);
    let crc: Vec<_> = verdicts(&path, "CRC-10: 0x")
        .iter()
        .map(|line| line.contains("(correct)"))
        .collect();
    assert_eq!(crc, [true, true, true, true, false, true]);
}

/// Rows 3, 4, 5 and 20: PDUs, cells, SDUs and frames in one file, an interface each.
fn every_view(folder: &Folder) {
    let path = folder.write("views.pcapng", &recorded());
    let names = [
        "frame.interface_name",
        "frame.packet_flags_direction",
        "atm.channel",
        "atm.vpi",
        "atm.vci",
        "atm.hf_atm.aal5t_uu",
        "atm.aal5t_len",
        "icmp.type",
    ];
    let wanted = [
        "sdu 0x00000001 1 0 100   8",
        "sdu 0x00000002 0 0 100   8",
        "erf 0x00000001 1 0 100 0x07 68 8",
        "erf 0x00000002 0 1 100   ",
        "erf 0x00000002 0 1 100   ",
        "erf 0x00000001 1 1 100   ",
        // ERF has 12 bits of VPI, of which tshark shows eight.
        "erf 0x00000002 0 160 100 0x00 68 8",
        "wire      8",
    ];
    // tshark leaves out the direction of a packet whose direction is unknown.
    let found = fields(&path, &names);
    let squeezed = |line: &str| line.trim_end().to_string();
    let found: Vec<_> = found.iter().map(|line| squeezed(line)).collect();
    let wanted: Vec<_> = wanted.iter().map(|line| squeezed(line)).collect();
    assert_eq!(found[..7], wanted[..7]);
    assert!(
        found[7].starts_with("wire ") && found[7].ends_with(" 8"),
        "{}",
        found[7]
    );
    let times = fields(&path, &["frame.time_epoch"]);
    assert_eq!(times[0], "1700000000.000000000");
    assert_eq!(times[5], "1700000000.006172835");
    let comments = fields(&path, &["frame.comment"]);
    assert_eq!(comments[1], "policed: GCRA(PCR)");
    let crc: Vec<_> = verdicts(&path, "AAL5 CRC: 0x")
        .iter()
        .map(|line| line.ends_with("(correct)"))
        .collect();
    assert_eq!(crc, [true, true]);
    assert_eq!(fields(&path, &["atm.aal_oamcell.crc"])[5], "0x025d");
}

/// Row 3 again: a wrong CRC is seen; UU and length are where they belong.
fn a_wrong_crc(folder: &Folder) {
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    let header = cells(address(0, 100), &ping())[0].header;
    let mut wrong = pdu(&llc_ping(), 0x42);
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    let item = Item::Aal5Pdu {
        header,
        pdu: &wrong,
    };
    recorder
        .record(START_NS, Direction::Receive, item, None)
        .unwrap();
    let path = folder.write("wrong.pcapng", &recorder.finish().unwrap());
    let verdicts = verdicts(&path, "AAL5 CRC: ");
    assert!(verdicts[0].ends_with("(incorrect)"), "{verdicts:?}");
    assert_eq!(
        fields(&path, &["atm.hf_atm.aal5t_uu", "atm.aal5t_len"]),
        ["0x42 68"]
    );
}

/// Row 5: what rides on the well-known VCs and encapsulations.
fn sdus(folder: &Folder) {
    let arp = hex("aaaa030000000806 0013080014000008041400 04
        47000580ffe1000000f21a26d80020ea00000200 0a000002
        47000580ffe1000000f21a26d80020ea00000300 0a000001");
    let lcp = hex("c021 0101000a 0506d9e24b45");
    let sdus = [
        (100, llc_ping(), "icmp"),
        (
            35,
            [hex("aaaa030080c200070000"), ethernet_ping()].concat(),
            "icmp",
        ),
        (100, arp, "atmarp"),
        (5, hex("000000000100001e"), "sscop"),
        (36, [vec![0, 0], ethernet_ping()].concat(), "icmp"),
        (38, ping(), "icmp"),
        (40, lcp.clone(), "lcp"),
        (41, [hex("fefe03cf"), lcp].concat(), "lcp"),
    ];
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    for (vci, sdu, _) in &sdus {
        let address = address(0, *vci);
        let item = Item::Sdu {
            address,
            kind: SduKind::guess(address, sdu),
            sdu,
        };
        recorder
            .record(START_NS, Direction::Transmit, item, None)
            .unwrap();
    }
    let path = folder.write("sdus.pcapng", &recorder.finish().unwrap());
    let found = fields(&path, &["atm.vci", "frame.protocols"]);
    assert_eq!(found.len(), sdus.len());
    for (found, (vci, _, protocol)) in found.iter().zip(&sdus) {
        let (address, protocols) = found.split_once(' ').unwrap();
        assert_eq!(address, vci.to_string());
        let named = protocols
            .split(':')
            .any(|name| name == *protocol || name == "arp");
        assert!(named, "{found}, not {protocol}");
    }
}

/// Rows 8 to 12: every service of a pseudowire in UDP, and N to one below two labels.
fn pseudowires(folder: &Folder) {
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    let packets = pseudowire_packets();
    let mut frames: Vec<_> = packets
        .iter()
        .map(|(label, packet)| mpls_frame(*label, packet, true))
        .collect();
    let stack = hex("020000000001 020000000002 8847 00010040 003e9140");
    frames.push([stack, packets[0].1.clone()].concat());
    for frame in &frames {
        let item = Item::Frame(frame);
        recorder
            .record(START_NS, Direction::Transmit, item, None)
            .unwrap();
    }
    let path = folder.write("pseudowires.pcapng", &recorder.finish().unwrap());
    let names = [
        "pw.atm.n1_nocw.cells",
        "pw.atm.n1_cw.cells",
        "pw.atm.11.cells",
    ];
    let cells = [
        "2  ", " 2 ", "  1", "  1", "  2", "  1", "  ", "  ", "  ", "  ", "2  ",
    ];
    assert_eq!(fields(&path, &names), cells);
    let names = [
        "pw.type.atm.11vpc",
        "pw.type.atm.aal5sdu",
        "pw.type.atm.aal5pdu",
        "pw.cw.seqno",
    ];
    let kinds = [
        "   ", "   1", "   5", "   6", "   7", "1   8", " 1  9", " 1  10", "  1 11", "  1 12",
        "   ",
    ];
    assert_eq!(fields(&path, &names), kinds);
    let found = fields(
        &path,
        &["atm.vpi", "atm.vci", "atm.pti", "atm.clp", "pw.cw.length"],
    );
    let headers = [
        "1,1 100,100 0,1 0,0 ",
        "1,1 100,100 0,1 0,0 0",
        "  0 0 ",
        "  5 0 ",
        "  0,1 0,0 ",
        " 100 0 0 ",
        "   0 0",
        "1 100 5 0,0 0",
        "   0 ",
        "   0 ",
        "1,1 100,100 0,1 0,0 ",
    ];
    assert_eq!(found, headers);
    let found = fields(&path, &["atm.pt", "atm.efci", "pw.cw.aal5sdu.u"]);
    assert_eq!(found[6..8], ["0 0 0", "1 0 0"]);
    let names = ["mpls.label", "atm.aal_oamcell.crc", "udp.checksum.status"];
    let found = fields(&path, &names);
    assert_eq!(found[3], "1003 0x025d 2");
    assert_eq!(found[7], "1005 0x025d 2");
    assert_eq!(found[10], "16,1001  ");
    let crc = verdicts(&path, "AAL5 CRC: ");
    let right: Vec<_> = crc.iter().map(|line| line.ends_with("(correct)")).collect();
    assert_eq!(right, [true, false]);
    assert!(fields(&path, &["icmp.type"])[6].ends_with('8'));
    let path = path.to_str().unwrap();
    let args = ["-r", path, "-o", "udp.check_checksum:TRUE", "-T", "fields"];
    let args = [&args[..], &["-e", "udp.checksum.status"]].concat();
    let sums = output("tshark", &args);
    assert_eq!(
        sums.lines().collect::<Vec<_>>(),
        [["1"; 10].as_slice(), &[""]].concat()
    );
    // No flag or length that the dissectors object to.
    let mut args = vec!["-r", path, "-T", "fields", "-e", "pw.cw.length.invalid"];
    args.extend([
        "-e",
        "pw.cw.flags.not_zero",
        "-e",
        "atm.pw_control_byte.rsv.not_zero",
    ]);
    args.extend(LABELS);
    assert!(output("tshark", &args).split_whitespace().next().is_none());
}

/// Row 11 again: the length of a short SDU, and its flags.
fn short_sdus(folder: &Folder) {
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    let header = SduHeader {
        sequence: Sequence::FIRST,
        efci: true,
        clp: true,
        uu: true,
    };
    let sdu = hex("aaaa030000000800 4500001c00000000 400166df 0a000001 0a000002 0800f7ff00000000");
    let padding = [0; 20];
    let packet = [&header.emit(sdu.len())[..], &sdu, &padding].concat();
    let item = Item::Frame(&mpls_frame(1005, &packet, true));
    recorder
        .record(START_NS, Direction::Transmit, item, None)
        .unwrap();
    let path = folder.write("short.pcapng", &recorder.finish().unwrap());
    let names = [
        "pw.cw.length",
        "pw.cw.seqno",
        "atm.pt",
        "atm.efci",
        "atm.clp",
    ];
    let found = fields(&path, &names);
    assert_eq!(found, ["40 1 0 1 1"]);
    assert_eq!(
        fields(&path, &["pw.cw.aal5sdu.u", "ip.dst"]),
        ["1 10.9.0.2,10.0.0.2"]
    );
}

/// An uncompressed Sniffer file of cells of AAL3/4, the one format in which tshark checks them.
fn sniffer(cells: &[[u8; 53]]) -> Vec<u8> {
    let mut file = b"TRSNIFF data    \x1a".to_vec();
    file.extend(hex(
        "0100 1200 0000 0400 0000 0000 2128 04 0a 01 01 0000 0000 0000",
    ));
    for cell in cells {
        let mut record = hex("0000 0000 00 00 3500 00 00 3500 0000 0000");
        // Raw cell of AAL3/4 on 1.60.
        record.extend(hex(
            "00010000 0000 0000 00000000 02 00 0000 0100 3c00 0000 0100 0000",
        ));
        record.extend([0; 6]);
        record.extend(cell);
        file.extend([8, 0]);
        file.extend((record.len() as u16).to_le_bytes());
        file.extend([0, 0]);
        file.extend(record);
    }
    file.extend([3, 0, 0, 0, 0, 0]);
    file
}

/// Row 16: SAR-PDUs of AAL3/4.
fn aal34(folder: &Folder) {
    let types = [
        SegmentType::Bom,
        SegmentType::Com,
        SegmentType::Eom,
        SegmentType::Ssm,
    ];
    let mut cells: Vec<[u8; 53]> = Vec::new();
    for (sn, segment_type) in (14..).zip(types) {
        let sar = SarPdu {
            segment_type,
            sn: sn % 16,
            mid: 5 + sn as u16,
            payload: [sn; 44],
            li: 44 - 8 * (sn - 14),
        };
        let mut cell = [0; 53];
        cell[..4].copy_from_slice(&(address(1, 60).bits() << 4).to_be_bytes());
        cell[4] = hec([cell[0], cell[1], cell[2], cell[3]]);
        cell[5..].copy_from_slice(&sar.emit());
        cells.push(cell);
    }
    let mut wrong = cells[0];
    wrong[30] ^= 4;
    cells.push(wrong);
    let path = folder.write("aal34.enc", &sniffer(&cells));
    let names = [
        "atm.vci",
        "atm.aal3_4.seg_type",
        "atm.aal3_4.seq_num",
        "atm.aal3_4.multiplex_id",
        "atm.aal3_4.length_indicator",
    ];
    let wanted = [
        "60 2 14 19 44",
        "60 0 15 20 36",
        "60 1 0 21 28",
        "60 3 1 22 20",
        "60 2 14 19 44",
    ];
    assert_eq!(fields(&path, &names), wanted);
    let crc: Vec<_> = verdicts(&path, "CRC: ")
        .iter()
        .map(|line| line.contains("(correct)"))
        .collect();
    assert_eq!(crc, [true, true, true, true, false]);
}

/// InATMARP over a permanent connection: a question and its answer.
fn inatmarp(folder: &Folder) {
    let question = InAtmArp::request([10, 0, 0, 1].into());
    let answer = question.answer([10, 0, 0, 2].into()).expect("an answer");
    let header = Encapsulation::IpoaLlcsnap.emit_atmarp().expect("ATMARP");
    let mut file = PcapngWriter::new(Vec::new(), "test").unwrap();
    let sdu = file.interface(Link::SunAtm, "sdu").unwrap();
    for packet in [question, answer] {
        let octets = [&hex("82 00 0064")[..], &header, &packet.emit()].concat();
        let packet = Packet {
            time_ns: START_NS,
            direction: Direction::Transmit,
            octets: &octets,
            missing: 0,
            comment: None,
        };
        file.packet(sdu, packet).unwrap();
    }
    let path = folder.write("inatmarp.pcapng", &file.finish().unwrap());
    let names = ["arp.opcode", "arp.src.proto_ipv4", "arp.dst.proto_ipv4"];
    let found = fields(&path, &names);
    let found: Vec<_> = found.iter().map(|line| line.trim_end()).collect();
    assert_eq!(found, ["8 10.0.0.1", "9 10.0.0.2 10.0.0.1"]);
}

/// The same pseudowire in every frame that is read: tshark sees its label and its two cells.
fn frames(folder: &Folder) {
    let mut file = PcapngWriter::new(Vec::new(), "test").unwrap();
    let mut frames = frames_around();
    // tshark has no name for link type 219.
    frames.retain(|(_, framing, _)| *framing != Framing::Mpls);
    for (i, (name, framing, octets)) in frames.iter().enumerate() {
        let interface = file.interface(Link::Frames(*framing), name).unwrap();
        let packet = Packet {
            time_ns: START_NS + i as u64,
            direction: Direction::Receive,
            octets,
            missing: 0,
            comment: None,
        };
        file.packet(interface, packet).unwrap();
    }
    let path = folder.write("frames.pcapng", &file.finish().unwrap());
    let found = fields(&path, &["mpls.label", "pw.atm.n1_nocw.cells", "atm.vci"]);
    for ((name, ..), found) in frames.iter().zip(&found) {
        assert_eq!(found, "1001 2 100,100", "{name}");
    }
    assert_eq!(found.len(), frames.len());
}

/// Flags, losses and types of ERF, and control channels: what tshark makes of the same octets.
fn marks_and_channels(folder: &Folder) {
    let cell = cells(address(0, 100), &llc_ping())[0].emit_without_hec();
    let aal2 = hex("00000000 00100420 082464 01020304050607080900");
    let mut file = Vec::new();
    for (kind, flags, lost, payload) in [
        (3, 0x04_u8, 7_u16, &cell[..]),
        (3, 0x14, 0, &cell),
        (3, 0x24, 0, &cell),
        (3, 0x0c, 1, &cell),
        (12, 0x04, 0, &aal2),
    ] {
        file.extend(hex("00000000 00f15365"));
        file.extend([kind, flags]);
        let wire_len = payload.len() as u16 - if kind == 12 { 4 } else { 0 };
        for field in [16 + payload.len() as u16, lost, wire_len] {
            file.extend(field.to_be_bytes());
        }
        file.extend(payload);
    }
    let path = folder.write("marks.erf", &file);
    let marks = records(&file).into_iter().map(|record| {
        let marks = record.marks;
        let bit = |is_set| u8::from(is_set);
        format!(
            "{} {} {} {}",
            marks.lost_before,
            bit(marks.receive_error),
            bit(marks.stream_error),
            bit(marks.truncated),
        )
    });
    let marks: Vec<_> = marks.collect();
    assert_eq!(
        marks,
        ["7 0 0 0", "0 1 0 0", "0 0 1 0", "1 0 0 1", "0 0 0 0"]
    );
    let names = [
        "erf.lctr",
        "erf.flags.rxe",
        "erf.flags.dse",
        "erf.flags.trunc",
    ];
    assert_eq!(fields(&path, &names), marks);
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    let stacks = ["003ea140", "003ea040 0000d140"];
    let stack = |stack: &str| hex(&format!("020000000001 020000000002 8847 {stack}"));
    let channel = [hex("10000021"), ipv4(17, &udp(49_152, 3_503, &[0; 24]))].concat();
    for labels in stacks {
        let frame = [stack(labels), channel.clone()].concat();
        let item = Item::Frame(&frame);
        recorder
            .record(START_NS, Direction::Receive, item, None)
            .unwrap();
    }
    let path = folder.write("channels.pcapng", &recorder.finish().unwrap());
    let found = fields(&path, &["pwach.channel_type", "mpls.label"]);
    assert_eq!(found, ["0x0021 1002", "0x0021 1002,13"]);
}

#[test]
fn tshark_agrees() {
    if !is_installed("tshark") {
        println!("skipped tshark_agrees: tshark is not installed");
        return;
    }
    let folder = Folder::new("tshark");
    hec_and_oam(&folder);
    every_view(&folder);
    a_wrong_crc(&folder);
    sdus(&folder);
    pseudowires(&folder);
    frames(&folder);
    marks_and_channels(&folder);
    short_sdus(&folder);
    aal34(&folder);
    inatmarp(&folder);
    println!("ran tshark_agrees");
}

/// SDUs of LLC and F4 OAM cells: what tcpdump knows of SunATM.
#[test]
fn tcpdump_agrees() {
    if !is_installed("tcpdump") {
        println!("skipped tcpdump_agrees: tcpdump is not installed");
        return;
    }
    let folder = Folder::new("tcpdump");
    let mut file = PcapngWriter::new(Vec::new(), "test").unwrap();
    let sdu = file.interface(Link::SunAtm, "sdu").unwrap();
    let specific = [hex("01 0000002a"), vec![0xff; 32]].concat();
    let right = oam(address(0, 4), 0, 0x18, &specific).emit_with_hec();
    let mut wrong = right;
    wrong[40] ^= 1;
    let packets = [
        [&hex("82 00 0064")[..], &llc_ping()].concat(),
        [&hex("80 00 0004")[..], &right].concat(),
        [&hex("80 00 0004")[..], &wrong].concat(),
    ];
    for (i, octets) in packets.iter().enumerate() {
        let packet = Packet {
            time_ns: START_NS + i as u64,
            direction: Direction::Transmit,
            octets,
            missing: 0,
            comment: None,
        };
        file.packet(sdu, packet).unwrap();
    }
    let path = folder.write("sdu.pcapng", &file.finish().unwrap());
    let said = output("tcpdump", &["-nn", "-v", "-r", path.to_str().unwrap()]);
    assert!(
        said.contains("10.0.0.1 > 10.0.0.2: ICMP echo request"),
        "{said}"
    );
    assert_eq!(said.matches("cksum 0x25d (correct)").count(), 1, "{said}");
    assert_eq!(said.matches("cksum 0x25d (incorrect)").count(), 1, "{said}");
    println!("ran tcpdump_agrees");
}
