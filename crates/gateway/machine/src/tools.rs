//! What tools of the command line share that have a gateway: its options, what they open for it,
//! and its process.
//!
//! Called by: the program `wirespeed`. [`child`] comes first in `main`; [`open`] turns [`Options`]
//! into what a gateway gets; [`serve`] starts one.

mod child;
mod learning;
pub mod open;
mod options;
pub mod serve;

pub use self::child::child;
pub use self::learning::Learns;
pub use self::options::{Fixed, Options, Outer};
pub use super::connection::Connection;
pub use super::ends::{When, deleted, inherited};
pub use super::messages::Program;
pub use super::networks::Network;
pub use super::orders::{Answer, Order};
pub use super::publish::{Publish, Published};
pub use super::rules::Texts;
pub use super::settings::{
    AnswerLine, Auto, Dialect, EndsWith, Given, Learn, QuestionLine, Settings, Tool, TunnelText,
    asking_name,
};
pub use super::values::{DefaultAction, Dns, Net4, Net6};
