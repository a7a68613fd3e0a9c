//! The exceptions to tidy's rules. Each names the check, the file, the key of the finding (a
//! function, a pattern, a package) and the reason.
//!
//! An exception that no finding needs is itself a finding.

use super::Finding;

/// One exception.
pub(super) struct Exception {
    pub(super) check: &'static str,
    pub(super) path: &'static str,
    pub(super) key: &'static str,
    pub(super) reason: &'static str,
}

/// All exceptions. Keep them few; a reason is a sentence, not a name.
pub(super) const TABLE: &[Exception] = &[
    Exception {
        check: "unsafe",
        path: "bench/src/isolate.rs",
        key: "unsafe",
        reason: "rustix marks unshare unsafe for the flags that share memory, which are not used \
                 here",
    },
    Exception {
        check: "unsafe",
        path: "crates/router/router/tests/escapes.rs",
        key: "unsafe",
        reason: "it tries system calls by number, also those that no library makes: all have to \
                 be refused",
    },
];

/// Findings of `check` that no exception covers; the index of each exception that was needed
/// goes to `used`.
pub(super) fn apply(
    check: &str,
    findings: Vec<Finding>,
    table: &[Exception],
    used: &mut Vec<usize>,
) -> Vec<Finding> {
    findings
        .into_iter()
        .filter(|finding| {
            let covers =
                |e: &Exception| e.check == check && e.path == finding.path && e.key == finding.key;
            match table.iter().position(covers) {
                Some(index) => {
                    used.push(index);
                    false
                }
                None => true,
            }
        })
        .collect()
}

/// Exceptions that no finding needed, and exceptions without a reason.
pub(super) fn unused(table: &[Exception], used: &[usize]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, e) in table.iter().enumerate() {
        let about = |what: String, remedy: &str| {
            Finding::new("xtask/src/tidy/exceptions.rs", 1, e.key, what, remedy)
        };
        if !used.contains(&index) {
            let what = format!("nothing needs the exception {} {} {}", e.check, e.path, e.key);
            findings.push(about(what, "remove it from the table"));
        }
        if e.reason.len() < 20 {
            let what = format!("the exception {} {} {} gives no reason", e.check, e.path, e.key);
            findings.push(about(what, "write the sentence that says why"));
        }
    }
    findings
}
