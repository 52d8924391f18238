//! libFuzzer runs `cellgate_fuzz::msna`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::msna(data));
