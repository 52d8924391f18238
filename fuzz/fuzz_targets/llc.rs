//! libFuzzer runs `cellgate_fuzz::llc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::llc(data));
