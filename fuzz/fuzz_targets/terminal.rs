//! libFuzzer runs `cellgate_fuzz::terminal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::terminal(data));
