//! No circle of files that import each other is larger than [`CIRCLE_MAX`].

use super::{Finding, Project};
use crate::house::{CIRCLE_MAX, circles, counts};

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let files = project.sources.iter().filter(|source| counts(&source.path));
    let found = match circles(&files.collect::<Vec<_>>()) {
        Ok(found) => found,
        Err(error) => {
            let what = format!("{error:#} cannot be read");
            return vec![Finding::new("xtask/src/house.rs", 1, "file", what, "correct it")];
        }
    };
    let large = found.iter().filter(|circle| circle.len() > CIRCLE_MAX);
    let finding = |circle: &Vec<String>| {
        let folder = super::source::krate(&circle[0]);
        let what = format!("{} files import each other: {}", circle.len(), circle.join(" "));
        let remedy = "move what they share into a file below them";
        Finding::new(&circle[0], 1, folder, what, remedy)
    };
    large.map(finding).collect()
}
