//! libFuzzer runs `cellgate_fuzz::mssar`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::mssar(data));
