//! libFuzzer runs `cellgate_fuzz::terminal_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::terminal_line(data));
