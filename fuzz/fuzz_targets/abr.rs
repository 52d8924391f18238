//! libFuzzer runs `cellgate_fuzz::abr`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::abr(data));
