//! A gateway in parts, for a program that runs it in a process of its own.
//!
//! Called by: the tools of the program `wirespeed`. The process of the user makes [`Settings`],
//! which are text, and opens what they name. The other process makes [`Opened`] of that, and the
//! gateway with [`Machine::begin`]. Programs that have the gateway in a thread need none of this:
//! [`Gateway`](super::Gateway) does it.

pub use super::connection::Connection;
pub use super::ends::{When, deleted};
pub use super::link::check as check_link;
pub use super::machine::{Machine, Opened, Owner};
pub use super::messages::{Messages, Program};
pub use super::orders::{Answer, Order};
pub use super::publish::{Publish, Published};
pub use super::rules::Texts;
pub use super::servers::{Followed, follow, name_server};
pub use super::settings::{
    AnswerLine, Auto, Dialect, EndsWith, Given, Learn, QuestionLine, Settings, Tool, TunnelText,
    asking_name,
};
pub use super::taken::in_memory;
pub use super::values::{DefaultAction, MTU_MAX, NET4};
pub use super::watch::Lines;
