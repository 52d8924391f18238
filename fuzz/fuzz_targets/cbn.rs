//! libFuzzer runs `cellgate_fuzz::cbn`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::cbn(data));
