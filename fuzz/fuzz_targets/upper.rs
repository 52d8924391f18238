//! libFuzzer runs `cellgate_fuzz::upper`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::upper(data));
