//! libFuzzer runs `cellgate_fuzz::aal5_reassembly`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::aal5_reassembly(data));
