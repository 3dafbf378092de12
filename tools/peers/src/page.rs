//! Pages that hold what was measured, between two markers.

use std::fs;
use std::path::Path;

/// Puts `text` between the markers of `part` in the page at `path`, in place of what was there.
pub fn replace(path: &Path, part: &str, text: &str) -> Result<(), String> {
    let at = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let page = fs::read_to_string(path).map_err(|error| at(&error))?;
    let page = replaced(&page, part, text).ok_or_else(|| at(&format!("no markers of {part}")))?;
    fs::write(path, page).map_err(|error| at(&error))
}

fn replaced(page: &str, part: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {part}: begin -->"), format!("<!-- {part}: end -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim()))
}

/// How this was called, and on what: what a table needs beside it.
pub fn circumstances() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!(
        "```\ncargo run --release -p tickwire-peers --features all -- {}\n```\n\n\
         Machine: {} processors of {}, Linux {}; load when it ended: {}.\n",
        arguments.join(" "),
        std::thread::available_parallelism().map_or(0, usize::from),
        said_by("/proc/cpuinfo", "model name").trim_start_matches([' ', '\t', ':']),
        // What a distribution adds says nothing here.
        first_word("/proc/sys/kernel/osrelease").split('-').next().unwrap_or_default(),
        first_word("/proc/loadavg"),
    )
}

fn said_by(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("an unknown kind").to_owned()
}

fn first_word(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let page = "a\n<!-- peers: begin -->\nold\n<!-- peers: end -->\nb\n<!-- other: begin -->c<!-- other: end -->\n";
        let once = replaced(page, "peers", "new\n").unwrap();
        assert!(once.contains("<!-- peers: begin -->\n\nnew\n\n<!-- peers: end -->\nb\n"), "{once}");
        assert!(once.starts_with("a\n") && once.contains("-->c<!--") && !once.contains("old"));
        assert_eq!(replaced(&once, "peers", "new\n").unwrap(), once, "again changes nothing");
        assert!(replaced(page, "nobody", "new").is_none());
    }
}
