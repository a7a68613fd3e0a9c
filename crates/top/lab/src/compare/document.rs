//! Documents of the lab, read from files that may hold anything.
//!
//! Called by: `compare`. A file that is longer than [`BYTES_MAX`], or is no document, is refused
//! with an error that says what is wrong.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::noise;

/// The longest file that is read; `lab all` writes a few megabytes.
const BYTES_MAX: u64 = 64 << 20;
/// The most rows of an experiment, and the most samples below: more than any experiment has.
const ROWS_MAX: usize = 10_000;
const SAMPLES_MAX: usize = 200_000;
/// Settings that change no figure.
const IDLE: [&str; 1] = ["jobs"];

/// A file, with the document of one experiment or of several.
pub(super) struct File {
    pub(super) name: String,
    pub(super) is_all: bool,
    pub(super) documents: Vec<Document>,
    version: String,
    date: String,
    machine: Value,
}

/// The document of an experiment.
pub(super) struct Document {
    pub(super) lab: String,
    pub(super) rows: Vec<Map<String, Value>>,
    pub(super) units: Map<String, Value>,
    pub(super) samples: Vec<Value>,
    settings: Map<String, Value>,
    /// Why there are no figures.
    error: Option<String>,
    machine: Value,
}

impl File {
    /// Read a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no document of the lab.
    pub(super) fn read(path: &Path) -> Result<File, Error> {
        let name = path.display().to_string();
        let cannot = |error: &dyn std::fmt::Display| {
            Error::Failed(format!("cannot read {name}: {error} (write one with `--out {name}`)"))
        };
        if path.is_dir() {
            return Err(Error::Failed(format!("{name} is a folder: name a file in it")));
        }
        let file = fs::File::open(path).map_err(|error| cannot(&error))?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(Error::Failed(format!(
                "{name} has more than {} MB: no document of the lab is that long",
                BYTES_MAX >> 20
            )));
        }
        File::parsed(name, &bytes)
    }

    pub(super) fn parsed(name: String, bytes: &[u8]) -> Result<File, Error> {
        let wrong = |what: &str| {
            Error::Failed(format!(
                "{name} is no document of the lab: {what}. `wirespeed lab NAME --out {name}` \
                 writes one"
            ))
        };
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| wrong(&error.to_string()))?;
        let Some(lab) = value["lab"].as_str() else {
            return Err(wrong("it has no member \"lab\" that is a text"));
        };
        let is_all = lab == "all";
        let documents = match (is_all, value["experiments"].as_array()) {
            (false, _) => vec![Document::from(&value)],
            (true, Some(each)) => each.iter().map(Document::from).collect(),
            (true, None) => return Err(wrong("its member \"experiments\" is not a list")),
        };
        let documents: Result<Vec<Document>, String> = documents.into_iter().collect();
        let documents = documents.map_err(|what| wrong(&what))?;
        if documents.is_empty() {
            return Err(wrong("it has no experiment"));
        }
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (version, date) = (text("version"), text("date"));
        Ok(File { is_all, documents, version, date, machine: value["machine"].clone(), name })
    }

    /// The experiment, or "all".
    pub(super) fn lab(&self) -> &str {
        match (self.is_all, self.documents.first()) {
            (false, Some(document)) => &document.lab,
            _ => "all",
        }
    }

    /// A line that describes the file, for people.
    pub(super) fn line(&self) -> String {
        let text = |key: &str| self.machine[key].as_str().unwrap_or("unknown");
        let mut said = format!(
            "{}, wirespeed {}, {}, {}, Linux {}",
            self.name,
            self.version,
            text("build"),
            text("cpu_model"),
            text("kernel")
        );
        if !self.date.is_empty() {
            said += &format!(", {}", self.date);
        }
        if self.machine["noise"]["noisy"] == true {
            said += ", NOISY";
        }
        said
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "file": self.name,
            "version": self.version,
            "date": self.date,
            "machine": self.machine,
        })
    }
}

impl Document {
    fn from(value: &Value) -> Result<Document, String> {
        let lab = value["lab"].as_str().ok_or("an experiment has no name in \"lab\"")?.to_owned();
        let list = |key: &str, most: usize| {
            let list = value[key].as_array().cloned().unwrap_or_default();
            match list.len() {
                n if n > most => Err(format!("{lab} has {n} {key}, {most} at most are compared")),
                _ => Ok(list),
            }
        };
        if !value["rows"].is_array() {
            return Err(format!("the document of '{lab}' has no list \"rows\""));
        }
        let rows = list("rows", ROWS_MAX)?.into_iter().map(|row| match row {
            Value::Object(row) => Ok(row),
            _ => Err(format!("a row of {lab} is no object")),
        });
        let object = |key: &str| value[key].as_object().cloned().unwrap_or_default();
        Ok(Document {
            rows: rows.collect::<Result<_, String>>()?,
            samples: list("samples", SAMPLES_MAX)?,
            units: object("units"),
            settings: object("settings"),
            error: value["error"].as_str().map(str::to_owned),
            machine: value["machine"].clone(),
            lab,
        })
    }

    /// May the two documents be compared? The error says why not.
    pub(super) fn comparable(&self, other: &Document) -> Result<(), String> {
        for (letter, document) in [("A", self), ("B", other)] {
            if let Some(error) = &document.error {
                return Err(format!("{letter} has no figures: {error}"));
            }
        }
        let [a, b] = [self, other].map(|document| document.machine["build"].as_str());
        if a != b {
            let [a, b] = [a, b].map(|build| build.unwrap_or("unknown"));
            return Err(format!("A is of a build {a} and B of one {b}: build both alike"));
        }
        let keys = self.settings.keys().chain(other.settings.keys());
        let mut differ: Vec<String> = keys
            .filter(|key| !IDLE.contains(&key.as_str()))
            .filter(|key| self.settings.get(*key) != other.settings.get(*key))
            .map(|key| {
                let of = |document: &Document| shown(document.settings.get(key));
                format!("{key} is {} in A and {} in B", of(self), of(other))
            })
            .collect();
        differ.sort();
        differ.dedup();
        if differ.is_empty() {
            return Ok(());
        }
        let said = differ.join("; ");
        Err(format!("their settings differ: {said}. Repeat one with the options of the other"))
    }

    /// How much wider the intervals of its figures are made, as a share: by the spread of a noisy
    /// machine.
    pub(super) fn wider(&self) -> f64 {
        let noise = &self.machine["noise"];
        let spread = noise["spread"].as_f64().filter(|spread| spread.is_finite());
        match noise["noisy"] == true && !self.is_virtual() {
            true => spread.unwrap_or(0.0).clamp(0.0, 10.0),
            false => 0.0,
        }
    }

    /// Are its figures in virtual time, so that they do not depend on the machine?
    pub(super) fn is_virtual(&self) -> bool {
        noise::is_virtual(&self.lab)
    }
}

/// A setting, for a sentence.
fn shown(value: Option<&Value>) -> String {
    const LONGEST: usize = 40;
    let text = value.map_or_else(|| "not given".to_owned(), Value::to_string);
    match text.chars().count() {
        n if n > LONGEST => text.chars().take(LONGEST).chain("...".chars()).collect(),
        _ => text,
    }
}
