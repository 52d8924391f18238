//! libFuzzer runs `cellgate_fuzz::control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::control(data));
