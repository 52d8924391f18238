//! libFuzzer runs `cellgate_fuzz::aal34_reassembly`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::aal34_reassembly(data));
