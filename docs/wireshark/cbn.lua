-- The Cambridge ring and what goes over it, in Wireshark and tshark: ring cells in captures of link type USER0 (147),
-- MSSAR in these and in ATM cells, MSNL on circuit 32 and in UDP on port 26208, REX in both. docs/msna.md has the
-- octets.
--
--   tshark -X lua_script:docs/wireshark/cbn.lua -V -r ring.pcapng
--   tshark -X lua_script:docs/wireshark/cbn.lua -o mssar.circuits:"0.32 0.64" -V -r cells.pcapng
--
-- Fields have the names that `cellgate decode --json` has: `mssar_rid` there is `mssar.rid` here. Tried with tshark
-- 4.0. Not here: cells in pseudowires, whose payloads Wireshark hands to nobody; blocks that a capture leaves
-- unfinished.

local cbn = Proto("cbn", "Cambridge Backbone Ring")
local mssar = Proto("mssar", "Multi-Service Segmentation and Reassembly")
local msnl = Proto("msnl", "Multi-Service Network Layer")
local rex = Proto("rex", "Remote Execution")
local msdl = Proto("msdl", "Multi-Service Data Link over Ethernet")

local SIGNALLING_VCI, UDP_PORT = 32, 26208
local RING_LEN, RING_DATA, ATM_DATA = 37, 32, 46

local bits = bit32 or bit

-- A protocol's fields by their short names.
local function fields_of(proto, list)
    local fields = {}
    for _, field in ipairs(list) do
        local kind, name, text, base = field[1], field[2], field[3], field[4]
        fields[name] = ProtoField[kind](proto.name:lower() .. "." .. name, text, base)
    end
    proto.fields = fields
    return fields
end

local function number(kind, name, text) return { kind, name, text, base.DEC } end

local of_cbn = fields_of(cbn, {
    { "string", "direction", "Direction" },
    { "bool", "type", "Type bit" }, { "bool", "response", "Response bit" },
    number("uint8", "channel", "Channel"), number("uint16", "vci", "VCI"),
})
local of_mssar = fields_of(mssar, {
    number("uint8", "sequence", "Sequence"), number("uint8", "rid", "RID"),
    { "bool", "part", "Part" }, { "bool", "start", "Start" },
    number("uint8", "count", "Octets of the block"), { "bytes", "data", "Data" },
    { "string", "verdict", "Verdict" },
    number("uint8", "failed_rid", "RID of the block that failed"),
    number("uint8", "failed_cells", "Cells of the block that failed"),
    { "string", "failed_reason", "Reason" },
    number("uint8", "block_rid", "RID of the block"), number("uint8", "block_cells", "Cells of the block"),
    number("uint16", "block_length", "Octets of the block"), { "bytes", "block_octets", "Block" },
})
local of_msnl = fields_of(msnl, {
    number("uint8", "version", "Version"), { "string", "message", "Message" }, { "string", "error", "Error" },
    number("uint32", "call", "Call"), number("uint64", "incarnation", "Incarnation of from"),
    { "ipv4", "from", "From" }, { "ipv4", "to", "To" },
    number("uint64", "from_sap", "SAP of from"), number("uint64", "to_sap", "SAP of to"),
    number("uint64", "of_to", "Incarnation of to"), number("uint16", "vci", "VCI"),
    { "string", "notify", "Notify" }, { "string", "contract", "Contract" },
    { "string", "reason", "Reason" }, { "string", "offer", "Offer" },
    number("uint32", "datagram_length", "Octets of the datagram"),
    { "uint32", "crc", "CRC-32", base.HEX },
})
local of_rex = fields_of(rex, {
    number("uint8", "version", "Version"), { "string", "packet", "Packet" },
    number("uint64", "session", "Session"), number("uint64", "sender", "Incarnation of the sender"),
    number("uint64", "receiver", "Incarnation of the receiver"), number("uint64", "call", "Call"),
    number("uint32", "keep_us", "Kept in silence (us)"), number("uint64", "floor", "Floor"),
    number("uint32", "length", "Octets of the message"), number("uint16", "size", "Octets of a fragment"),
    number("uint16", "number", "Number"), number("uint16", "round", "Round"), { "bool", "asks", "Asks" },
    number("uint32", "fragment_length", "Octets of this fragment"),
    number("uint16", "next", "Next"), { "bytes", "beyond", "Beyond" }, { "string", "reason", "Reason" },
    { "uint32", "crc", "CRC-32", base.HEX },
})
local of_msdl = fields_of(msdl, { { "bytes", "octets", "Octets" } })

local bad_cell = ProtoExpert.new("mssar.discarded", "Cell discarded", expert.group.SEQUENCE, expert.severity.WARN)
mssar.experts = { bad_cell }
local no_message = ProtoExpert.new("msnl.none", "No message", expert.group.PROTOCOL, expert.severity.ERROR)
msnl.experts = { no_message }

mssar.prefs.circuits = Pref.string("ATM circuits", "", "VPI.VCI of those whose cells carry MSSAR, blanks between them")
mssar.prefs.max_block = Pref.uint("Longest block", 65535, "Octets of the longest block; 255 cells are the most")

-- The CRC-32 of AAL5 over a string.
local crc_table = {}
for octet = 0, 255 do
    local crc = octet * 0x1000000
    for _ = 1, 8 do
        local doubled = crc * 2 % 0x100000000
        crc = crc >= 0x80000000 and bits.bxor(doubled, 0x04c11db7) % 0x100000000 or doubled
    end
    crc_table[octet] = crc
end

local function crc32(octets)
    local crc = 0xffffffff
    for at = 1, #octets do
        local front = bits.bxor(math.floor(crc / 0x1000000), octets:byte(at)) % 0x100
        crc = bits.bxor(crc * 0x100 % 0x100000000, crc_table[front]) % 0x100000000
    end
    return 0xffffffff - crc
end

local function be(octets, at, len)
    local value = 0
    for i = at, at + len - 1 do value = value * 256 + octets:byte(i) end
    return value
end

-- Whether a string is UTF-8, none of it longer than need be and no surrogate.
local function is_utf8(text)
    local at = 1
    while at <= #text do
        local first, rest = text:byte(at), 0
        local low, high = 0x80, 0xbf
        if first >= 0xc2 and first <= 0xdf then rest = 1
        elseif first >= 0xe0 and first <= 0xef then
            rest = 2
            if first == 0xe0 then low = 0xa0 elseif first == 0xed then high = 0x9f end
        elseif first >= 0xf0 and first <= 0xf4 then
            rest = 3
            if first == 0xf0 then low = 0x90 elseif first == 0xf4 then high = 0x8f end
        elseif first >= 0x80 then return false end
        for i = 1, rest do
            local octet = text:byte(at + i)
            if not octet or octet < low or octet > high then return false end
            low, high = 0x80, 0xbf
        end
        at = at + 1 + rest
    end
    return true
end

-- Bodies: of each field its name, octets and words, if its numbers stand for any. A field of no length takes the rest.
local FROM_TO = { { "from_sap", 8 }, { "to_sap", 8 } }
local ANSWER = { { "of_to", 8 }, { "vci", 2 } }
local MESSAGES = {
    { "connect", { FROM_TO[1], FROM_TO[2], { "vci", 2 },
        { "notify", 1, { [0] = "every", "first", "last", "both" } }, { "contract", text = true } } },
    { "accept", ANSWER },
    { "refuse", { { "of_to", 8 }, { "reason", 1,
        { [0] = "nobody serves there", "not admitted", "busy", "the contract makes no sense" } },
        { "offer", text = true } } },
    { "release", ANSWER },
    { "datagram", { FROM_TO[1], FROM_TO[2], { "datagram" } } },
}
local FLOOR, PROGRESS = { "floor", 8 }, { { "round", 2 }, { "next", 2 }, { "beyond", 8 } }
local FRAGMENT = { { "length", 4 }, { "size", 2 }, { "number", 2 }, { "round", 2 },
    { "asks", 1, { [0] = false, true } }, { "fragment" } }
local function after_floor(list)
    local all = { FLOOR }
    for _, field in ipairs(list) do all[#all + 1] = field end
    return all
end
local PACKETS = {
    { "hello", {} }, { "welcome", { { "keep_us", 4 } } }, { "gone", {} }, { "call", after_floor(FRAGMENT) },
    { "announcement", after_floor(FRAGMENT) }, { "received", PROGRESS }, { "working", {} }, { "reply", FRAGMENT },
    { "probe", after_floor(PROGRESS) }, { "refused", { { "reason", 1, { [0] = "busy", "too long" } } } },
    { "dropped", {} }, { "ended", { FLOOR } },
}

-- The kind and fields of a block (each: its name, place, octets, word), or why it is none. `head` are the fields behind
-- version and kind, `kinds` the bodies.
local function parse(octets, head, kinds)
    if #octets < 4 then return nil, "too short" end
    local said = octets:sub(1, -5)
    if crc32(said) ~= be(octets, #octets - 3, 4) then return nil, "the CRC does not match" end
    if #said < 2 then return nil, "too short" end
    local version, kind = said:byte(1, 2)
    if version ~= 1 then return nil, "version " .. version end
    local at, found = 2, {}
    local function take(list)
        for _, field in ipairs(list) do
            local name, len, words = field[1], field[2] or #said - at, field[3]
            if at + len > #said then return "too short" end
            local word
            if words then
                word = words[said:byte(at + 1)]
                if word == nil then return "a field says what cannot be" end
            elseif field.text and (len > 512 or not is_utf8(said:sub(at + 1))) then
                return "a field says what cannot be"
            end
            found[#found + 1] = { name = name, at = at, len = len, word = word, text = field.text }
            at = at + len
        end
    end
    local wrong = take(head)
    if wrong then return nil, wrong end
    local body = kinds[kind]
    if not body then return nil, "kind " .. kind end
    wrong = take(body[2])
    if wrong then return nil, wrong end
    if at ~= #said then return nil, "a field says what cannot be" end
    return body[1], found
end

-- Whether a fragment is as long as its number says.
local function fits(octets, found)
    local at = {}
    for _, field in ipairs(found) do at[field.name] = field end
    local last = at.fragment
    if not last then return true end
    local length, size = be(octets, at.length.at + 1, 4), be(octets, at.size.at + 1, 2)
    local count = math.max(1, math.ceil(length / math.max(size, 1)))
    local number = be(octets, at.number.at + 1, 2)
    if size == 0 or count > 65535 or number >= count then return false end
    return last.len == math.min(size, length - number * size)
end

local REX_HEAD = { { "session", 8 }, { "sender", 8 }, { "receiver", 8 }, { "call", 8 } }
local MSNL_HEAD = { { "call", 4 }, { "incarnation", 8 }, { "from", 4 }, { "to", 4 } }

local function add(tree, fields, range, found)
    for _, field in ipairs(found) do
        local octets = field.len > 0 and range(field.at, field.len)
        if field.word ~= nil then tree:add(fields[field.name], octets, field.word)
        elseif field.text and octets then tree:add(fields[field.name], octets, octets:string(ENC_UTF_8))
        elseif fields[field.name] and octets then tree:add(fields[field.name], octets)
        elseif fields[field.name] then tree:add(fields[field.name], "")
        else tree:add(fields[field.name .. "_length"], field.len) end
    end
    tree:add(fields.crc, range(range:len() - 4))
end

-- Octets that are no block of REX are left alone.
local function dissect_rex(range, pinfo, tree)
    local octets = range:raw()
    local name, found = parse(octets, REX_HEAD, PACKETS)
    if not name or not fits(octets, found) then return 0 end
    pinfo.cols.protocol = "REX"
    local sub = tree:add(rex, range)
    sub:append_text(": " .. name)
    sub:add(of_rex.version, range(0, 1))
    sub:add(of_rex.packet, range(1, 1), name)
    add(sub, of_rex, range, found)
    pinfo.cols.info:append(" rex " .. name)
    return range:len()
end

local function dissect_msnl(range, pinfo, tree)
    local name, found = parse(range:raw(), MSNL_HEAD, MESSAGES)
    pinfo.cols.protocol = "MSNL"
    local sub = tree:add(msnl, range)
    if not name then
        sub:add(of_msnl.error, range, found)
        sub:add_proto_expert_info(no_message, "No message of MSNL: " .. found)
        return range:len()
    end
    sub:append_text(": " .. name)
    sub:add(of_msnl.version, range(0, 1))
    sub:add(of_msnl.message, range(1, 1), name)
    add(sub, of_msnl, range, found)
    pinfo.cols.info:append(" msnl " .. name)
    local last = found[#found]
    if last.name == "datagram" and last.len > 0 then dissect_rex(range(last.at, last.len), pinfo, tree) end
    return range:len()
end

function msnl.dissector(tvb, pinfo, tree) return dissect_msnl(tvb(), pinfo, tree) end
function rex.dissector(tvb, pinfo, tree) return dissect_rex(tvb(), pinfo, tree) end

-- Blocks in progress by circuit, in the order in which they began, and what each cell did, by the number of its frame.
local circuits, outcomes = {}, {}
function mssar.init() circuits, outcomes = {}, {} end

-- Takes a cell in. What came of it: its verdict, the block that failed, the block that is complete.
local function reassemble(key, is_shared, data_len, cell)
    local blocks = circuits[key] or {}
    circuits[key] = blocks
    local sequence, flags = cell:byte(1, 2)
    local rid, part, start = math.floor(flags / 4), flags % 4 >= 2, flags % 2 == 1
    local at
    for i, block in ipairs(blocks) do
        if not at and (block.rid == rid or not is_shared) then at = i end
    end
    local failed
    local function give_up(reason)
        local block = at and table.remove(blocks, at)
        at = nil
        if block and block.cells > 0 then
            failed = failed or { rid = block.rid, cells = block.cells, reason = reason }
        end
    end
    local function discard(reason)
        give_up(reason)
        return { verdict = reason, failed = failed }
    end
    local count = part and cell:byte(-1) or data_len
    if sequence == 0 or part and count >= data_len then return discard("length_error") end
    local longest = mssar.prefs.max_block
    if start then
        give_up("lost_cell")
        if sequence > math.ceil(longest / data_len) and longest <= 255 * data_len then return discard("oversized") end
        if #blocks >= (is_shared and 64 or 1) then return discard("too_many_blocks") end
        blocks[#blocks + 1] = { rid = rid, cells = 0, left = sequence, octets = "" }
        at = #blocks
    end
    local block = at and blocks[at]
    if not block or block.rid ~= rid or block.left ~= sequence then return discard("lost_cell") end
    if #block.octets + count > longest then return discard("oversized") end
    block.octets = block.octets .. cell:sub(3, 2 + count)
    block.cells, block.left = block.cells + 1, block.left - 1
    if block.left > 0 then return { verdict = "held", failed = failed } end
    table.remove(blocks, at)
    return { verdict = "delivered", failed = failed, block = block }
end

local function dissect_mssar(range, pinfo, tree, circuit)
    if range:len() ~= 2 + circuit.data_len then return 0 end
    pinfo.cols.protocol = "MSSAR"
    local cell = range:raw()
    local outcome = outcomes[pinfo.number]
    if not outcome then
        outcome = reassemble(circuit.key, circuit.vci == SIGNALLING_VCI, circuit.data_len, cell)
        outcomes[pinfo.number] = outcome
    end
    local sequence, flags = cell:byte(1, 2)
    local sub = tree:add(mssar, range)
    sub:add(of_mssar.sequence, range(0, 1))
    sub:add(of_mssar.rid, range(1, 1), math.floor(flags / 4))
    sub:add(of_mssar.part, range(1, 1), flags % 4 >= 2)
    sub:add(of_mssar.start, range(1, 1), flags % 2 == 1)
    if flags % 4 >= 2 then sub:add(of_mssar.count, range(range:len() - 1)) end
    sub:add(of_mssar.data, range(2))
    sub:add(of_mssar.verdict, outcome.verdict):set_generated()
    sub:append_text(", sequence " .. sequence .. ": " .. outcome.verdict)
    pinfo.cols.info = "VCI " .. circuit.vci .. " sequence " .. sequence
    if outcome.verdict ~= "held" and outcome.verdict ~= "delivered" then
        sub:add_proto_expert_info(bad_cell, "Cell discarded: " .. outcome.verdict)
        pinfo.cols.info:append(" " .. outcome.verdict)
    end
    local failed, block = outcome.failed, outcome.block
    if failed then
        sub:add(of_mssar.failed_rid, failed.rid):set_generated()
        sub:add(of_mssar.failed_cells, failed.cells):set_generated()
        sub:add(of_mssar.failed_reason, failed.reason):set_generated()
    end
    if not block then return range:len() end
    sub:add(of_mssar.block_rid, block.rid):set_generated()
    sub:add(of_mssar.block_cells, block.cells):set_generated()
    sub:add(of_mssar.block_length, #block.octets):set_generated()
    if #block.octets == 0 then
        sub:add(of_mssar.block_octets, ""):set_generated()
        if circuit.vci == SIGNALLING_VCI then sub:add(of_msnl.error, "too short"):set_generated() end
        return range:len()
    end
    local whole = ByteArray.new(block.octets, true):tvb("Block of MSSAR")()
    sub:add(of_mssar.block_octets, whole):set_generated()
    if circuit.vci == SIGNALLING_VCI then dissect_msnl(whole, pinfo, tree) else dissect_rex(whole, pinfo, tree) end
    return range:len()
end

local interface = Field.new("frame.interface_id")
local atm_channel, atm_vpi, atm_vci = Field.new("atm.channel"), Field.new("atm.vpi"), Field.new("atm.vci")

local function value_of(field)
    local found = field()
    return found and tostring(found.value) or ""
end

-- The payload of an ATM cell.
function mssar.dissector(tvb, pinfo, tree)
    local vci = value_of(atm_vci)
    local key = table.concat({ "atm", value_of(interface), value_of(atm_channel), value_of(atm_vpi), vci }, " ")
    return dissect_mssar(tvb(), pinfo, tree, { key = key, vci = tonumber(vci), data_len = ATM_DATA })
end

local atm_cells = DissectorTable.get("atm.cell_payload.vpi_vci")
local added = {}
function mssar.prefs_changed()
    for _, circuit in ipairs(added) do atm_cells:remove(circuit, mssar) end
    added = {}
    for vpi, vci in mssar.prefs.circuits:gmatch("(%d+)%.(%d+)") do
        local circuit = tonumber(vpi) * 65536 + tonumber(vci)
        atm_cells:add(circuit, mssar)
        added[#added + 1] = circuit
    end
end

local WAYS = { [0] = "unknown", "receive", "transmit", "unknown" }

-- An octet of flags and channel, and a ring cell.
function cbn.dissector(tvb, pinfo, tree)
    if tvb:len() ~= RING_LEN then return 0 end
    pinfo.cols.protocol = "CBN"
    local flags, vci = tvb(0, 1):uint(), tvb(1, 2):uint()
    local way, channel = WAYS[math.floor(flags / 64)], flags % 16
    local sub = tree:add(cbn, tvb(0, 3))
    sub:append_text(", channel " .. channel .. ", VCI " .. vci)
    sub:add(of_cbn.direction, tvb(0, 1), way)
    sub:add(of_cbn.type, tvb(0, 1), flags % 64 >= 32)
    sub:add(of_cbn.response, tvb(0, 1), flags % 32 >= 16)
    sub:add(of_cbn.channel, tvb(0, 1), channel)
    sub:add(of_cbn.vci, tvb(1, 2))
    if vci == 0 then
        pinfo.cols.info = "empty slot"
        sub:append_text(", empty")
        return RING_LEN
    end
    local key = table.concat({ "ring", value_of(interface), way, channel, vci }, " ")
    dissect_mssar(tvb(3), pinfo, tree, { key = key, vci = vci, data_len = RING_DATA })
    return RING_LEN
end

-- Types 0x6660 and 0x6661 are MSDL's; what follows them stands in no text that was found, so it is only shown.
function msdl.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "MSDL"
    tree:add(msdl, tvb()):add(of_msdl.octets, tvb())
    return tvb:len()
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, cbn)
for _, kind in ipairs({ 0x6660, 0x6661 }) do DissectorTable.get("ethertype"):add(kind, msdl) end
local ports = DissectorTable.get("udp.port")
ports:add(UDP_PORT, msnl)
ports:add_for_decode_as(rex)
