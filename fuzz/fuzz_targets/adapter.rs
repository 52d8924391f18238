//! libFuzzer runs `cellgate_fuzz::adapter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::adapter(data));
