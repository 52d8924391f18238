//! libFuzzer runs `cellgate_fuzz::video`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::video(data));
