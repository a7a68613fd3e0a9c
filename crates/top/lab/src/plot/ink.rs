//! A sheet to draw on: text, lines, boxes and marks, in pixels from the upper left corner.
//!
//! Called by: the kinds of plot. Text is placed by its anchor, so that no font has to be measured.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, IntoTextStyle, RGBColor};

use crate::Error;

/// Colours: of text, secondary text, grid lines, and the background of every other row.
pub(super) const BLACK: RGBColor = RGBColor(0x1f, 0x24, 0x28);
pub(super) const GREY: RGBColor = RGBColor(0x5f, 0x68, 0x70);
pub(super) const LIGHT: RGBColor = RGBColor(0xd5, 0xda, 0xde);
pub(super) const BAND: RGBColor = RGBColor(0xf4, 0xf6, 0xf8);

/// Colours that people with colour blindness can tell apart (Okabe and Ito, 2008).
pub(super) const SERIES: &[RGBColor] = &[
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xb1, 0x5e, 0x97),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x60, 0x60, 0x60),
];

/// Which part of a text is at the given point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Left,
    Centre,
    Right,
}

/// The sheet.
pub(super) struct Ink<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

type Drawn = Result<(), Error>;

fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> Error {
    Error::Failed(format!("cannot draw: {error}"))
}

impl<'a> Ink<'a> {
    pub(super) fn new(text: &'a mut String, width: i32, height: i32) -> Result<Ink<'a>, Error> {
        let size = (width.unsigned_abs(), height.unsigned_abs());
        let area = SVGBackend::with_string(text, size).into_drawing_area();
        area.fill(&RGBColor(255, 255, 255)).map_err(failed)?;
        Ok(Ink { area })
    }

    /// Finish the drawing.
    pub(super) fn finish(self) -> Drawn {
        self.area.present().map_err(failed)
    }

    /// Text, vertically centred on the point.
    pub(super) fn text(
        &self,
        words: &str,
        at: (i32, i32),
        size: i32,
        colour: RGBColor,
        anchor: Anchor,
    ) -> Drawn {
        self.styled(words, at, size, colour, anchor, FontStyle::Normal)
    }

    /// Bold text, anchored left.
    pub(super) fn bold(&self, words: &str, at: (i32, i32), size: i32) -> Drawn {
        self.styled(words, at, size, BLACK, Anchor::Left, FontStyle::Bold)
    }

    fn styled(
        &self,
        words: &str,
        at: (i32, i32),
        size: i32,
        colour: RGBColor,
        anchor: Anchor,
        style: FontStyle,
    ) -> Drawn {
        let h = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Centre => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let font = FontDesc::new(FontFamily::SansSerif, f64::from(size), style);
        let style = font.into_text_style(&self.area).color(&colour).pos(Pos::new(h, VPos::Center));
        self.area.draw(&Text::new(words.to_owned(), at, style)).map_err(failed)
    }

    pub(super) fn line(
        &self,
        from: (i32, i32),
        to: (i32, i32),
        width: u32,
        colour: RGBColor,
        opacity: f64,
    ) -> Drawn {
        let style = colour.mix(opacity).stroke_width(width);
        self.area.draw(&PathElement::new([from, to], style)).map_err(failed)
    }

    /// A filled box between two corners.
    pub(super) fn fill(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn {
        self.area.draw(&Rectangle::new([from, to], colour.filled())).map_err(failed)
    }

    /// A filled dot.
    pub(super) fn dot(&self, at: (i32, i32), radius: i32, colour: RGBColor) -> Drawn {
        self.area.draw(&Circle::new(at, radius, colour.filled())).map_err(failed)
    }

    /// The outline of a diamond; marks below it stay visible.
    pub(super) fn diamond(&self, (x, y): (i32, i32), radius: i32, colour: RGBColor) -> Drawn {
        let corners = [(x - radius, y), (x, y - radius), (x + radius, y), (x, y + radius)];
        let around = corners.iter().copied().chain([corners[0], corners[1]]);
        let style = colour.stroke_width(2);
        self.area.draw(&PathElement::new(around.collect::<Vec<_>>(), style)).map_err(failed)
    }
}

/// A darker shade of the colour, for text.
pub(super) fn for_text(colour: RGBColor) -> RGBColor {
    let darker = |part: u8| (u32::from(part) * 7 / 10) as u8;
    RGBColor(darker(colour.0), darker(colour.1), darker(colour.2))
}
