//! libFuzzer runs `cellgate_fuzz::payloads`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::payloads(data));
