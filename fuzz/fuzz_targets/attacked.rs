//! libFuzzer runs `cellgate_fuzz::attacked`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::attacked(data));
