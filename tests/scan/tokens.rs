//! Just enough of Rust's lexical grammar to tell code from comments and literals.

/// A piece of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// An identifier or keyword.
    Word(String),
    /// `::`
    PathSeparator,
    /// Any other mark, one character.
    Mark(char),
    /// A string, character or number.
    Literal,
}

impl Token {
    /// Whether this is the identifier or keyword `word`.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    /// Whether this is the mark `mark`.
    pub fn is_mark(&self, mark: char) -> bool {
        *self == Self::Mark(mark)
    }
}

/// The tokens of `text`, each with its line from 1. Comments are left out.
pub fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut scanner = Scanner { rest: text, line: 1 };
    let mut tokens = Vec::new();
    loop {
        scanner.skip_blank();
        let line = scanner.line;
        let Some(token) = scanner.token() else { return tokens };
        tokens.push((line, token));
    }
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl Scanner<'_> {
    fn skip(&mut self, bytes: usize) {
        self.line += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }

    /// Skips to after the first `end`, or to the end of the text.
    fn skip_past(&mut self, end: &str) {
        self.skip(self.rest.find(end).map_or(self.rest.len(), |at| at + end.len()));
    }

    fn skip_blank(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            if self.rest.starts_with("//") {
                self.skip_past("\n");
            } else if self.rest.starts_with("/*") {
                self.skip_block_comment();
            } else if blank == 0 {
                return;
            }
        }
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.skip(2);
            } else {
                let Some(first) = self.rest.chars().next() else { return };
                self.skip(first.len_utf8());
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn token(&mut self) -> Option<Token> {
        let first = self.rest.chars().next()?;
        if self.literal() {
            return Some(Token::Literal);
        }
        if self.rest.starts_with("::") {
            self.skip(2);
            return Some(Token::PathSeparator);
        }
        if first.is_alphabetic() || first == '_' {
            let raw = if self.rest.starts_with("r#") { 2 } else { 0 };
            let word = &self.rest[raw..];
            let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
            let word = word[..end].to_owned();
            self.skip(raw + end);
            return Some(Token::Word(word));
        }
        self.skip(first.len_utf8());
        Some(Token::Mark(first))
    }

    /// Skips a literal, if one stands here.
    fn literal(&mut self) -> bool {
        let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
            let after = self.rest.strip_prefix(prefix).unwrap_or("\0").trim_start_matches('#');
            after.starts_with('"') && (prefix.contains('r') || self.rest[prefix.len()..].starts_with('"'))
        });
        if let Some(prefix) = prefix {
            self.skip(prefix.len());
            if prefix.contains('r') {
                self.skip_raw_string()
            } else {
                self.skip_quoted('"')
            }
            return true;
        }
        let is_byte = self.rest.starts_with("b'");
        if is_byte || self.is_character() {
            self.skip(usize::from(is_byte));
            self.skip_quoted('\'');
            return true;
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
            self.skip(end);
            return true;
        }
        false
    }

    /// Whether a character literal stands here, rather than a lifetime.
    fn is_character(&self) -> bool {
        let mut characters = self.rest.chars();
        if characters.next() != Some('\'') {
            return false;
        }
        match characters.next() {
            Some('\\') => true,
            Some(_) => characters.next() == Some('\''),
            None => false,
        }
    }

    fn skip_quoted(&mut self, quote: char) {
        let mut is_escaped = true; // The opening quote.
        let end = self.rest.char_indices().find(|(_, c)| {
            let ends = *c == quote && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        self.skip(end.map_or(self.rest.len(), |(at, _)| at + 1));
    }

    fn skip_raw_string(&mut self) {
        let hashes = self.rest.len() - self.rest.trim_start_matches('#').len();
        self.skip(hashes + 1);
        self.skip_past(&format!("\"{}", "#".repeat(hashes)));
    }
}
