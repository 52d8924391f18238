//! libFuzzer runs `cellgate_fuzz::cell`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::cell(data));
