//! The experiments of *L4ATM*.

mod example;
mod figure_10;
mod figure_5;
mod figure_6;
mod figure_8;
mod figure_9;
mod lambda;
mod table_1;
mod table_2;
mod table_2_world;
mod units;

pub(super) use example::Example;
pub(super) use figure_5::Figure5;
pub(super) use figure_6::Figure6;
pub(super) use figure_8::Figure8;
pub(super) use figure_9::Figure9;
pub(super) use figure_10::Figure10;
pub(super) use lambda::LambdaLaw;
pub(super) use table_1::Table1;
pub(super) use table_2::Table2;
