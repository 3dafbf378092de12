//! The paths that a source file uses, made absolute.

use std::path::{Path, PathBuf};

use super::tokens::{Token, tokens};

/// What a source file uses.
pub struct Source {
    /// The file, relative to `src`.
    pub path: PathBuf,
    /// The module that it is, below the crate's root.
    pub module: Vec<String>,
    /// Paths that begin with `crate`, `super`, `std` or the like, absolute.
    pub paths: Vec<UsedPath>,
    /// Every identifier and keyword with its line.
    pub words: Vec<(usize, String)>,
    /// Modules declared behind `#[cfg(test)]` whose text is in another file.
    pub test_modules: Vec<Vec<String>>,
}

/// A path as it is used somewhere.
#[derive(Debug)]
pub struct UsedPath {
    /// Where, from 1.
    pub line: usize,
    /// Its segments; the first is `crate` or the name of another crate. A glob ends in `*`.
    pub segments: Vec<String>,
    /// Whether this is test code.
    pub is_test: bool,
}

impl Source {
    /// Reads `text`, the file at `path`.
    pub fn new(path: &Path, text: &str) -> Self {
        let mut module: Vec<String> =
            path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|name| name == "mod" || name == "lib") {
            module.pop();
        }
        let tokens = tokens(text);
        let words = tokens
            .iter()
            .filter_map(|(line, token)| match token {
                Token::Word(word) => Some((*line, word.clone())),
                _ => None,
            })
            .collect();
        let mut walk = Walk {
            tokens: &tokens,
            at: 0,
            module: module.clone(),
            depth: 0,
            inline: Vec::new(),
            test_until: None,
            paths: Vec::new(),
            test_modules: Vec::new(),
        };
        walk.run();
        let (paths, test_modules) = (walk.paths, walk.test_modules);
        Self { path: path.to_owned(), module, paths, words, test_modules }
    }

    /// Whether this file is the program's, not the crate's.
    pub fn is_binary(&self) -> bool {
        self.module.first().is_some_and(|name| name == "main" || name == "bin")
    }
}

struct Walk<'a> {
    tokens: &'a [(usize, Token)],
    at: usize,
    /// The module that the walk is in.
    module: Vec<String>,
    /// Open braces.
    depth: usize,
    /// The depth outside each inline module that the walk is in.
    inline: Vec<usize>,
    /// Tokens before this index are test code.
    test_until: Option<usize>,
    paths: Vec<UsedPath>,
    test_modules: Vec<Vec<String>>,
}

impl Walk<'_> {
    fn run(&mut self) {
        while let Some((_, token)) = self.tokens.get(self.at) {
            match token {
                Token::Mark('#') if self.is_test_attribute() => self.mark_test_item(),
                Token::Mark('{') => self.depth += 1,
                Token::Mark('}') => self.close_brace(),
                Token::Word(word) if word == "mod" => self.module_item(),
                Token::Word(word) if word == "use" => {
                    self.at += 1;
                    self.use_tree(&[]);
                    continue;
                }
                Token::Word(_) if self.starts_path() => {
                    self.plain_path();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at).map(|(_, token)| token)
    }

    fn word(&self, at: usize) -> Option<&str> {
        match self.token(at) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn is_mark(&self, at: usize, mark: char) -> bool {
        self.token(at).is_some_and(|token| token.is_mark(mark))
    }

    fn close_brace(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.inline.last() == Some(&self.depth) {
            self.inline.pop();
            self.module.pop();
        }
    }

    /// `mod name {` enters a module; `mod name;` under a test attribute names a test file.
    fn module_item(&mut self) {
        let Some(name) = self.word(self.at + 1).map(str::to_owned) else { return };
        if self.is_mark(self.at + 2, '{') {
            self.inline.push(self.depth);
            self.module.push(name);
        } else if self.is_test() && self.is_mark(self.at + 2, ';') {
            self.test_modules.push([self.module.clone(), vec![name]].concat());
        }
    }

    fn is_test(&self) -> bool {
        self.test_until.is_some_and(|end| self.at < end)
    }

    /// Whether `#[cfg(…)]` with a plain `test` in it stands here. (`any(test, …)` and `not(test)` are no such thing.)
    fn is_test_attribute(&self) -> bool {
        let is_cfg = self.is_mark(self.at + 1, '[') && self.word(self.at + 2) == Some("cfg");
        if !is_cfg {
            return false;
        }
        let inside = &self.tokens[self.at + 3..self.end_of_group(self.at + 1)];
        let has = |word: &str| inside.iter().any(|(_, token)| token.is_word(word));
        has("test") && !has("not") && !has("any")
    }

    /// The item after the attribute is test code, up to its closing brace or semicolon.
    fn mark_test_item(&mut self) {
        let mut at = self.at;
        while let Some(token) = self.token(at) {
            match token {
                Token::Mark('{') => {
                    at = self.end_of_group(at);
                    // A use tree has braces of its own, and ends in a semicolon.
                    if !self.is_mark(at + 1, ';') {
                        break;
                    }
                }
                Token::Mark('[' | '(') => at = self.end_of_group(at),
                Token::Mark(';') => break,
                _ => {}
            }
            at += 1;
        }
        self.test_until = self.test_until.max(Some(at + 1));
    }

    /// The index of the bracket that closes the one at `open`.
    fn end_of_group(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for at in open..self.tokens.len() {
            match self.token(at) {
                Some(Token::Mark('{' | '[' | '(')) => depth += 1,
                Some(Token::Mark('}' | ']' | ')')) => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len()
    }

    /// Whether a path that matters begins here: a root of paths, then `::`, and not the middle of another path.
    fn starts_path(&self) -> bool {
        let is_root = matches!(self.word(self.at), Some("crate" | "super" | "std" | "core"));
        let is_middle = self.at >= 2
            && self.token(self.at - 1) == Some(&Token::PathSeparator)
            && matches!(self.token(self.at - 2), Some(Token::Word(_)));
        is_root && !is_middle && self.token(self.at + 1) == Some(&Token::PathSeparator)
    }

    fn plain_path(&mut self) {
        let line = self.tokens[self.at].0;
        let mut segments = Vec::new();
        while let Some(word) = self.word(self.at) {
            segments.push(word.to_owned());
            if self.token(self.at + 1) != Some(&Token::PathSeparator) {
                self.at += 1;
                break;
            }
            self.at += 2;
        }
        self.add(line, segments);
    }

    /// A use tree below `prefix`; leaves the walk after it.
    fn use_tree(&mut self, prefix: &[String]) {
        let mut segments = prefix.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |(line, _)| *line);
        while let Some(token) = self.token(self.at).cloned() {
            match token {
                Token::Word(word) if word == "as" => self.at += 1,
                Token::Word(word) if word == "self" && !segments.is_empty() => {}
                Token::Word(word) => segments.push(word),
                Token::Mark('*') => segments.push("*".to_owned()),
                Token::Mark('{') => {
                    self.at += 1;
                    while self.at < self.tokens.len() && !self.is_mark(self.at, '}') {
                        self.use_tree(&segments);
                        self.at += usize::from(self.is_mark(self.at, ','));
                    }
                    self.at += 1;
                    return;
                }
                Token::PathSeparator | Token::Mark('$') => {}
                _ => break,
            }
            self.at += 1;
        }
        self.add(line, segments);
    }

    /// Adds a path, absolute.
    fn add(&mut self, line: usize, mut segments: Vec<String>) {
        let mut base = self.module.clone();
        let supers = segments.iter().take_while(|segment| *segment == "super" || *segment == "self").count();
        for segment in segments.drain(..supers) {
            if segment == "super" {
                base.pop();
            }
        }
        if supers > 0 {
            segments = [vec!["crate".to_owned()], base, segments].concat();
        }
        if !segments.is_empty() {
            self.paths.push(UsedPath { line, segments, is_test: self.is_test() });
        }
    }
}
