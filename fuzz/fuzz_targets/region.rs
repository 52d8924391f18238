//! libFuzzer runs `cellgate_fuzz::region`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::region(data));
