//! libFuzzer runs `cellgate_fuzz::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::client(data));
