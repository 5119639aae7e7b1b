//! Files of shell assignments, such as `/etc/default/grub`: the value of each variable after the files were sourced,
//! and the place in the files of each of its characters.
//!
//! Only assignments are read; a command could change any variable. A value that depends on a command or on a variable
//! from elsewhere is unknown.

use std::collections::BTreeMap;
use std::ops::Range;

/// No variable of a boot loader has more characters. Values that repeat each other could grow without end.
const MOST: usize = 1 << 16;
/// How deep commands may stand in quotes of commands.
const DEEPEST: usize = 16;

/// The place of a character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the file, in the order of reading.
    pub file: usize,
    /// The number of the run of equally quoted text. Text within one run can be replaced by plain text.
    pub run: usize,
    /// Its bytes.
    pub bytes: Range<usize>,
}

/// The place at a value's end where more text can be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of the file, in the order of reading.
    pub file: usize,
    /// The number of the byte before which text can be inserted.
    pub byte: usize,
    /// Whether the place is between quotes.
    pub quoted: bool,
    /// Whether the text between these quotes, or behind the equals sign, is empty.
    pub empty: bool,
}

/// The value of a variable.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// Each character, and its place.
    pub characters: Vec<(char, Place)>,
    /// The reason why the value is not known in full, if it is not.
    pub unknown: Option<String>,
    /// The end of the variable's last assignment.
    pub end: Option<End>,
}

/// The error for a statement that is not an assignment.
#[derive(Debug, PartialEq, Eq)]
pub struct NoAssignment {
    /// The number of the line, counted from 1.
    pub line: usize,
    /// The text of the statement.
    pub found: String,
}

/// The variables after some files were sourced.
#[derive(Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, Value>,
    runs: usize,
}

impl Variables {
    /// The value of a variable; empty if no file has set it.
    pub fn get(&self, name: &str) -> Value {
        self.values.get(name).cloned().unwrap_or_default()
    }

    /// Applies the assignments of a file.
    ///
    /// # Errors
    /// A statement of the file is not an assignment.
    pub fn source(&mut self, file: usize, text: &str) -> Result<(), NoAssignment> {
        let mut reader = Reader { variables: self, file, text, at: 0 };
        reader.statements().map_err(|found| {
            let before = &text[..reader.at.min(text.len())];
            NoAssignment { line: before.matches('\n').count() + 1, found }
        })
    }
}

struct Reader<'a> {
    variables: &'a mut Variables,
    file: usize,
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take_if(&mut self, text: &str) -> bool {
        let there = self.rest().starts_with(text);
        if there {
            self.at += text.len();
        }
        there
    }

    fn name(&mut self) -> String {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = self.rest().find(|c| !is_name(c)).unwrap_or(self.rest().len());
        let name = self.rest()[..length].to_owned();
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return String::new();
        }
        self.at += length;
        name
    }

    fn new_run(&mut self) -> usize {
        self.variables.runs += 1;
        self.variables.runs
    }

    fn statements(&mut self) -> Result<(), String> {
        let mut exports = false;
        while let Some(next) = self.peek() {
            match next {
                '\n' | ';' => {
                    exports = false;
                    self.take();
                }
                ' ' | '\t' => {
                    self.take();
                }
                '\\' if self.take_if("\\\n") => {}
                '#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => exports |= self.word(exports)?,
            }
        }
        Ok(())
    }

    /// Parses one word: true for `export` itself; false for an assignment, or for a variable's name behind `export`.
    fn word(&mut self, exports: bool) -> Result<bool, String> {
        let begin = self.at;
        let name = self.name();
        let appends = !name.is_empty() && self.take_if("+=");
        if appends || (!name.is_empty() && self.take_if("=")) {
            let mut value = self.value(exports)?;
            if appends {
                let before = self.variables.get(&name);
                value.unknown = before.unknown.or(value.unknown);
                value.characters.splice(0..0, before.characters);
            }
            if value.characters.len() > MOST {
                value = Value { unknown: Some("it is too long".into()), end: value.end, ..Value::default() };
            }
            self.variables.values.insert(name, value);
            return Ok(false);
        }
        let ends = self.peek().is_none_or(|c| c == '\n' || c == ';' || c == ' ' || c == '\t');
        if ends && name == "export" {
            return Ok(true);
        }
        if ends && exports && !name.is_empty() {
            return Ok(false);
        }
        self.at = begin;
        let line = self.rest().lines().next().unwrap_or_default();
        Err(format!("{:?} is no assignment", line.trim()))
    }

    /// The word behind an equals sign.
    fn value(&mut self, exports: bool) -> Result<Value, String> {
        let mut value = Value::default();
        let begin = self.at;
        let mut run = self.new_run();
        let mut end = End { file: self.file, byte: begin, quoted: false, empty: true };
        loop {
            let at = self.at;
            match self.peek() {
                None | Some('\n' | ';' | ' ' | '\t') => break,
                Some(sign @ ('&' | '|' | '(' | ')' | '<' | '>')) => {
                    return Err(format!("{sign:?} behind an assignment"));
                }
                Some('\'') => {
                    self.single_quoted(&mut value)?;
                    end = End { byte: self.at - 1, quoted: true, empty: self.at == at + 2, ..end };
                    run = self.new_run();
                    continue;
                }
                Some('"') => {
                    self.double_quoted(&mut value)?;
                    end = End { byte: self.at - 1, quoted: true, empty: self.at == at + 2, ..end };
                    run = self.new_run();
                    continue;
                }
                Some('\\') if self.take_if("\\\n") => continue,
                Some('\\') => {
                    self.take();
                    let escaped = self.take().unwrap_or('\\');
                    self.literal(&mut value, escaped, run, at);
                }
                Some('$' | '`') => {
                    self.expansion(&mut value, run, false)?;
                    if exports {
                        value.unknown = Some("it is exported without quotes".into());
                    }
                    run = self.new_run();
                }
                Some('~') => {
                    self.take();
                    value.unknown = Some("~ without quotes".into());
                }
                Some(next) => {
                    self.take();
                    self.literal(&mut value, next, run, at);
                }
            }
            end = End { byte: self.at, quoted: false, empty: false, ..end };
        }
        value.end = Some(end);
        Ok(value)
    }

    fn literal(&self, value: &mut Value, c: char, run: usize, begin: usize) {
        value.characters.push((c, Place { file: self.file, run, bytes: begin..self.at }));
    }

    fn single_quoted(&mut self, value: &mut Value) -> Result<(), String> {
        self.take();
        let run = self.new_run();
        loop {
            let at = self.at;
            match self.take() {
                None => return Err("a quote that does not end".into()),
                Some('\'') => return Ok(()),
                Some(next) => self.literal(value, next, run, at),
            }
        }
    }

    fn double_quoted(&mut self, value: &mut Value) -> Result<(), String> {
        self.take();
        let mut run = self.new_run();
        loop {
            let at = self.at;
            match self.peek() {
                None => return Err("a quote that does not end".into()),
                Some('"') => {
                    self.take();
                    return Ok(());
                }
                Some('\\') if self.take_if("\\\n") => {}
                Some('$' | '`') => {
                    self.expansion(value, run, true)?;
                    run = self.new_run();
                }
                Some(next) => {
                    self.take();
                    let escaped = self.peek().filter(|c| next == '\\' && "$`\"\\".contains(*c));
                    if escaped.is_some() {
                        self.take();
                    }
                    self.literal(value, escaped.unwrap_or(next), run, at);
                }
            }
        }
    }

    /// Parses an expansion, which begins with a dollar sign or a backtick.
    fn expansion(&mut self, value: &mut Value, run: usize, quoted: bool) -> Result<(), String> {
        let at = self.at;
        if self.take() == Some('`') {
            self.skip_to('`', 0)?;
            value.unknown = Some(self.text[at..self.at].to_owned());
            return Ok(());
        }
        match self.peek() {
            Some('(') => {
                self.take();
                self.skip_to(')', 0)?;
            }
            Some('{') => {
                self.take();
                let name = self.name();
                if !name.is_empty() && self.take_if("}") {
                    self.variable(value, &name, at);
                    return Ok(());
                }
                self.skip_to('}', 0)?;
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.name();
                self.variable(value, &name, at);
                return Ok(());
            }
            // The shell's own parameters; and a form of quotes that shells do not agree on.
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) || (!quoted && "'\"".contains(c)) => {
                self.take();
            }
            _ => {
                self.literal(value, '$', run, at);
                return Ok(());
            }
        }
        value.unknown = Some(self.text[at..self.at].to_owned());
        Ok(())
    }

    fn variable(&self, value: &mut Value, name: &str, at: usize) {
        match self.variables.values.get(name) {
            Some(known) => {
                value.characters.extend(known.characters.iter().take(MOST + 1).cloned());
                value.characters.truncate(MOST + 1);
                value.unknown = known.unknown.clone().or(value.unknown.take());
            }
            // No environment has variables of the boot loader.
            None if name.starts_with("GRUB_") => {}
            None => value.unknown = Some(format!("{}, which no file sets", &self.text[at..self.at])),
        }
    }

    /// Behind a sign that ends a command or an expansion, of which the begin was taken.
    fn skip_to(&mut self, end: char, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err("commands within commands, too deep".into());
        }
        let mut open = 0;
        while let Some(next) = self.take() {
            match next {
                _ if next == end && open == 0 => return Ok(()),
                ')' if end == ')' => open -= 1,
                '(' if end == ')' => open += 1,
                '\\' => {
                    self.take();
                }
                '\'' if end != '"' && end != '`' => {
                    let length = self.rest().find('\'').ok_or("a quote that does not end")?;
                    self.at += length + 1;
                }
                '"' if end != '`' => self.skip_to('"', depth + 1)?,
                '`' => self.skip_to('`', depth + 1)?,
                '$' if end != '`' && self.take_if("(") => self.skip_to(')', depth + 1)?,
                '$' if end != '`' && self.take_if("{") => self.skip_to('}', depth + 1)?,
                _ => {}
            }
        }
        Err(format!("a command or an expansion that does not end with {end:?}"))
    }
}
