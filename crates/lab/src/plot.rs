//! Pictures of reports, as SVG: no fonts of the system are read, so that a picture is the same on
//! every machine.
//!
//! Called by: the lab, for `--plot`. Experiments say what is to be seen ([`Dots`]); how it looks is
//! decided here, once for all.

mod dots;
mod ink;

pub use dots::{Dots, Panel, Point};

use crate::Error;
use crate::envelope::{Envelope, VERSION};

/// The kinds of picture.
#[derive(Clone, Debug)]
pub enum Plot {
    /// Values with their spread, side by side for each of several things that vary.
    Dots(Dots),
}

impl Plot {
    /// The picture as the text of an SVG file.
    pub(crate) fn svg(&self, envelope: &Envelope) -> Result<String, Error> {
        let stopped = if envelope.interrupted { " · stopped before its end" } else { "" };
        let name = envelope.experiment.name;
        let foot = format!("wirespeed {VERSION} · wirespeed lab {name}{stopped}");
        match self {
            Plot::Dots(dots) => dots.svg(&foot),
        }
    }
}
