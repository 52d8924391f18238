//! What a cell is: header, HEC, OAM and RM contents, and the SAR of AALs that the user names.

use cellgate_core::wire::{
    Aal1Header, CELL_LEN, Cell, Checked, CpcsHeader, CpcsTrailer, CpsPacketHeader, Header,
    HeaderForm, HeaderKind, HecReceiver, HecVerdict, Oam, OamFlow, PAYLOAD_LEN, Pti, Rm, RmRate,
    SarPdu, SnpVerdict, StartField,
};

use super::line::Line;
use super::mssar;
use crate::captured::aal::AalWord;

/// Judges the HEC of a cell by itself: the cell, corrected if one bit of its header was wrong, or
/// as it came if more were. A receiver, which must not correct two errors in a row, would throw
/// more away; a reader of a capture wants to see what each cell is.
pub(super) fn judge_hec(octets: &[u8; CELL_LEN]) -> (HecVerdict, Cell) {
    let (verdict, cell) = Cell::parse_with_hec(octets, &mut HecReceiver::new());
    let [a, b, c, d, _, payload @ ..] = *octets;
    let as_it_came = Cell {
        header: Header::parse([a, b, c, d]),
        payload,
    };
    (verdict, cell.unwrap_or(as_it_came))
}

/// Says what the HEC told.
pub(super) fn describe_hec(line: &mut Line, verdict: HecVerdict) {
    match verdict {
        HecVerdict::Valid => {
            line.field("hec_verdict", "valid");
            line.say("hec ok");
        }
        HecVerdict::Corrected { bit } => {
            line.field("hec_verdict", "corrected");
            line.field("hec_error_bit", bit);
            line.say(format!("hec WRONG in bit {bit}, corrected"));
        }
        HecVerdict::Discard => {
            line.field("hec_verdict", "uncorrectable");
            line.say("hec WRONG, uncorrectable");
        }
    }
}

/// Says what `cell` is. `aal` is what its VC is said to carry. A cell that is not `addressed`, one
/// of a pseudowire that does not send addresses, is of a VC for certain.
pub(super) fn describe(
    line: &mut Line,
    cell: &Cell,
    form: HeaderForm,
    aal: AalWord,
    addressed: bool,
) {
    let header = cell.header;
    if form == HeaderForm::Uni {
        line.field("gfc", header.gfc());
    }
    line.field("pti", header.pti().bits());
    line.field("clp", header.clp());
    let role = match header.kind(form) {
        _ if !addressed => return describe_assigned(line, cell, form, aal),
        HeaderKind::Idle => "idle",
        HeaderKind::Unassigned => "unassigned",
        HeaderKind::Assigned => return describe_assigned(line, cell, form, aal),
    };
    line.field("role", role);
    line.say(role);
}

/// Says what a header alone tells of a cell.
pub(super) fn describe_header(line: &mut Line, header: Header, form: HeaderForm) {
    if form == HeaderForm::Uni {
        line.field("gfc", header.gfc());
    }
    line.field("pti", header.pti().bits());
    line.field("clp", header.clp());
    let role = match (header.kind(form), OamFlow::of(header, form), header.pti()) {
        (HeaderKind::Idle, ..) => "idle",
        (HeaderKind::Unassigned, ..) => "unassigned",
        (_, Some(_), _) => "oam",
        (_, None, Pti::User { last: true, .. }) => "user, last",
        (_, None, Pti::User { .. }) => "user",
        (_, None, Pti::ResourceManagement) => "rm",
        _ => "reserved",
    };
    line.field("role", role.split(',').next());
    line.say(role);
}

fn describe_assigned(line: &mut Line, cell: &Cell, form: HeaderForm, aal: AalWord) {
    let header = cell.header;
    let oam = OamFlow::of(header, form);
    let role = match (oam, header.pti()) {
        (Some(_), _) => "oam",
        (None, Pti::User { .. }) => "user",
        (None, Pti::ResourceManagement) => "rm",
        _ => "reserved",
    };
    line.field("role", role);
    match (oam, header.pti()) {
        (Some(flow), _) => describe_oam(line, flow, &cell.payload),
        (None, Pti::User { congested, last }) => {
            line.say(if last { "user, last" } else { "user" });
            if congested {
                line.say("efci");
            }
            describe_sar(line, &cell.payload, aal);
        }
        (None, Pti::ResourceManagement) => describe_rm(line, &cell.payload),
        _ => line.say("reserved pti 7"),
    }
    if header.clp() {
        line.say("clp 1");
    }
    if form == HeaderForm::Uni && header.gfc() != 0 {
        line.say(format!("gfc {}", header.gfc()));
    }
}

fn describe_oam(line: &mut Line, flow: OamFlow, payload: &[u8; PAYLOAD_LEN]) {
    let Checked { value, crc_valid } = Oam::parse(payload);
    let (oam_type, function) = value.type_and_function();
    line.field("oam_flow", flow.name());
    line.field("oam_name", value.name());
    line.field("oam_type", oam_type);
    line.field("oam_function", function);
    let flow = match flow {
        OamFlow::F4Segment => "f4 seg",
        OamFlow::F4EndToEnd => "f4 e2e",
        OamFlow::F5Segment => "f5 seg",
        OamFlow::F5EndToEnd => "f5 e2e",
    };
    let mut text = format!("oam {flow} {}", short(value.name()));
    match value {
        Oam::Loopback(loopback) => {
            let way = if loopback.request { "request" } else { "reply" };
            text += &format!(" {way} tag {:08x}", loopback.correlation_tag);
            line.field("loopback_request", loopback.request);
            line.field("correlation_tag", loopback.correlation_tag);
            line.field("location_id", hex(&loopback.location));
            line.field("source_id", hex(&loopback.source));
        }
        Oam::Ais(defect) | Oam::Rdi(defect) => {
            line.field("defect_type", defect.defect_type);
            line.field("defect_location", hex(&defect.location));
        }
        Oam::ContinuityCheck => {}
        Oam::Other { .. } if value.name().starts_with("unknown") => {
            text += &format!(" type {oam_type} function {function}");
        }
        Oam::Other { .. } => {}
    }
    line.say(text);
    line.verdict("crc10_valid", "crc-10", crc_valid);
}

/// The name of an OAM function in few letters.
fn short(name: &str) -> String {
    let name = name.replace("performance_monitoring", "pm");
    name.replace("continuity_check_a", "cc_a").replace('_', " ")
}

fn describe_rm(line: &mut Line, payload: &[u8; PAYLOAD_LEN]) {
    let Checked {
        value: rm,
        crc_valid,
    } = Rm::parse(payload);
    // 2^24 - 1 times 2^22 at most: a double holds every rate exactly.
    let cell_s = |rate: RmRate| rate.cell_s_512ths() as f64 / 512.0;
    let [er, ccr, mcr] = [rm.er, rm.ccr, rm.mcr].map(cell_s);
    line.field("rm_protocol", rm.protocol);
    line.field("rm_backward", rm.backward);
    line.field("rm_backward_notification", rm.backward_notification);
    line.field("rm_congestion", rm.congestion);
    line.field("rm_no_increase", rm.no_increase);
    line.field("er_cell_s", er);
    line.field("ccr_cell_s", ccr);
    line.field("mcr_cell_s", mcr);
    let way = if rm.backward { "backward" } else { "forward" };
    line.say(format!("rm {way} er {er} ccr {ccr} mcr {mcr} cells/s"));
    let flags = [
        (rm.backward_notification, "bn"),
        (rm.congestion, "ci"),
        (rm.no_increase, "ni"),
    ];
    for (_, name) in flags.iter().filter(|(set, _)| *set) {
        line.say(*name);
    }
    line.verdict("crc10_valid", "crc-10", crc_valid);
}

fn describe_sar(line: &mut Line, payload: &[u8; PAYLOAD_LEN], aal: AalWord) {
    if aal != AalWord::Aal5 {
        line.field("aal", aal.word());
    }
    match aal {
        AalWord::Aal0 | AalWord::Aal5 => {}
        AalWord::Aal1 => describe_aal1(line, payload[0]),
        AalWord::Aal2 => describe_aal2(line, payload[0]),
        AalWord::Aal34 => describe_aal34(line, payload),
        AalWord::Mssar => mssar::describe(line, payload),
    }
}

fn describe_aal1(line: &mut Line, octet: u8) {
    let (header, verdict) = Aal1Header::parse(octet);
    let csi = u8::from(header.csi);
    line.field("csi", csi);
    line.field("sc", header.sc);
    line.say(format!("aal1 csi {csi} sc {}", header.sc));
    let word = match verdict {
        SnpVerdict::Valid => "valid",
        SnpVerdict::Corrected { .. } => "corrected",
        SnpVerdict::Invalid => "invalid",
    };
    line.field("snp_verdict", word);
    line.say(match verdict {
        SnpVerdict::Valid => "snp ok".into(),
        SnpVerdict::Corrected { bit } => format!("snp WRONG in bit {bit}, corrected"),
        SnpVerdict::Invalid => "snp WRONG".to_string(),
    });
}

fn describe_aal2(line: &mut Line, octet: u8) {
    let (start, valid) = StartField::parse(octet);
    let sn = u8::from(start.sn);
    line.field("osf", start.osf);
    line.field("sn", sn);
    line.say(format!("osf {} sn {sn}", start.osf));
    line.verdict("start_field_valid", "start field", valid);
}

/// Says what the header of an AAL2 packet tells.
pub(super) fn describe_cps_header(line: &mut Line, octets: [u8; CpsPacketHeader::LEN]) {
    let (header, valid) = CpsPacketHeader::parse(octets);
    let octets = u16::from(header.li) + 1;
    line.field("cid", header.cid);
    line.field("uui", header.uui);
    line.field("packet_payload_length", octets);
    line.say(format!(
        "aal2 cid {} uui {} of {octets} octets",
        header.cid, header.uui
    ));
    line.verdict("hec5_valid", "hec-5", valid);
}

fn describe_aal34(line: &mut Line, payload: &[u8; PAYLOAD_LEN]) {
    let Checked {
        value: sar,
        crc_valid,
    } = SarPdu::parse(payload);
    let name = sar.segment_type.name();
    line.field("segment_type", name);
    line.field("sn", sar.sn);
    line.field("mid", sar.mid);
    line.field("li", sar.li);
    line.say(format!(
        "aal3/4 {name} sn {} mid {} li {}",
        sar.sn, sar.mid, sar.li
    ));
    line.verdict("crc10_valid", "crc-10", crc_valid);
    if let (true, Some(octets)) = (sar.segment_type.begins(), sar.payload.first_chunk()) {
        let header = CpcsHeader::parse(*octets);
        line.field("btag", header.btag);
        line.field("ba_size", header.ba_size);
        line.say(format!("btag {} basize {}", header.btag, header.ba_size));
    }
    let ends = matches!(name, "eom" | "ssm");
    let octets = sar.payload.get(..sar.li.into()).unwrap_or_default();
    if let (true, Some(octets)) = (ends, octets.last_chunk()) {
        let trailer = CpcsTrailer::parse(*octets);
        line.field("etag", trailer.etag);
        line.field("sdu_length", trailer.length);
        line.say(format!("etag {} length {}", trailer.etag, trailer.length));
    }
}

/// Octets as hexadecimal digits.
pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
