//! Reading paths. Filters hold no filters, so that nothing here recurses.

use super::{Comparison, Filter, JsonPathError, MAX_LENGTH, MAX_STEPS, Operand, Step};
use crate::json::{Number, Value};

/// What is wrong, at the parser's place.
type Problem = &'static str;

pub(super) fn steps(text: &str) -> Result<Vec<Step>, JsonPathError> {
    let mut parser = Parser { text, at: 0 };
    let result = if text.len() > MAX_LENGTH { Err("it is too long") } else { parser.whole() };
    result.map_err(|problem| JsonPathError { text: text.to_owned(), offset: parser.at, problem })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str, problem: Problem) -> Result<(), Problem> {
        if self.eat(token) { Ok(()) } else { Err(problem) }
    }

    fn skip_space(&mut self) {
        while self.eat(" ") {}
    }

    fn whole(&mut self) -> Result<Vec<Step>, Problem> {
        let braced = self.eat("{");
        let _ = self.eat("$");
        let steps = self.path(true)?;
        if steps.is_empty() {
            return Err("a dot or a bracket has to begin it");
        }
        if braced {
            self.expect("}", "a closing brace is missing")?;
        }
        if self.at < self.text.len() {
            return Err("nothing may stand here");
        }
        Ok(steps)
    }

    /// Steps as far as they go.
    fn path(&mut self, filters: bool) -> Result<Vec<Step>, Problem> {
        let mut steps = Vec::new();
        loop {
            if self.eat(".") {
                steps.push(if self.eat("*") { Step::Wildcard } else { Step::Field(self.name()?) });
            } else if self.eat("[") {
                steps.push(self.bracket(filters)?);
                self.expect("]", "a closing bracket has to stand here")?;
            } else {
                return Ok(steps);
            }
            if steps.len() > MAX_STEPS {
                return Err("there are too many steps");
            }
        }
    }

    /// A name behind a dot; a backslash takes what follows as it is.
    fn name(&mut self) -> Result<String, Problem> {
        let mut name = String::new();
        let mut characters = self.rest().char_indices();
        let mut length = self.rest().len();
        while let Some((index, character)) = characters.next() {
            match character {
                '\\' => name.push(characters.next().ok_or("a character has to follow the backslash")?.1),
                '.' | '[' | ']' | '{' | '}' | '(' | ')' | '=' | '!' | '<' | '>' | ' ' | '\'' | '"' | '?' | '@'
                | ',' => {
                    length = index;
                    break;
                }
                plain => name.push(plain),
            }
        }
        if name.is_empty() {
            return Err("a name has to stand here");
        }
        self.at += length;
        Ok(name)
    }

    fn bracket(&mut self, filters: bool) -> Result<Step, Problem> {
        match self.peek() {
            Some(b'*') => {
                self.at += 1;
                Ok(Step::Wildcard)
            }
            Some(b'\'' | b'"') => self.quoted().map(Step::Field),
            Some(b'?') if filters => {
                self.at += 1;
                self.filter().map(Step::Filter)
            }
            Some(b'?') => Err("filters cannot hold filters"),
            Some(b'-' | b':' | b'0'..=b'9') => {
                let from = self.integer()?;
                if self.eat(":") {
                    return Ok(Step::Slice(from, self.integer()?));
                }
                from.map(Step::Index).ok_or("a position has to stand here")
            }
            _ => Err("a position, a quoted name, a star or a filter has to stand here"),
        }
    }

    fn integer(&mut self) -> Result<Option<i64>, Problem> {
        let rest = self.rest();
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
        let length = rest.len() - digits.len() + end;
        if length == 0 {
            return Ok(None);
        }
        let number = rest[..length].parse().map_err(|_| "a position has to be a number of 64 bits")?;
        self.at += length;
        Ok(Some(number))
    }

    /// A text in quotes of either kind; a backslash takes what follows as it is.
    fn quoted(&mut self) -> Result<String, Problem> {
        let mut characters = self.rest().char_indices();
        let quote = characters.next().map(|(_, quote)| quote);
        let mut text = String::new();
        while let Some((index, character)) = characters.next() {
            if Some(character) == quote {
                self.at += index + 1;
                return Ok(text);
            }
            match character {
                '\\' => text.extend(characters.next().map(|(_, character)| character)),
                plain => text.push(plain),
            }
        }
        self.at = self.text.len();
        Err("a closing quote is missing")
    }

    fn filter(&mut self) -> Result<Filter, Problem> {
        self.expect("(", "a parenthesis has to open the filter")?;
        self.skip_space();
        self.expect("@", "a filter has to begin with @")?;
        let left = self.path(false)?;
        self.skip_space();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let mut test = None;
        if let Some((_, comparison)) = comparisons.into_iter().find(|(token, _)| self.eat(token)) {
            self.skip_space();
            test = Some((comparison, self.operand()?));
            self.skip_space();
        }
        self.expect(")", "a parenthesis has to close the filter")?;
        Ok(Filter { left, test })
    }

    fn operand(&mut self) -> Result<Operand, Problem> {
        if matches!(self.peek(), Some(b'\'' | b'"')) {
            return Ok(Operand::Literal(Value::String(self.quoted()?)));
        }
        if self.eat("@") {
            return Ok(Operand::Path(self.path(false)?));
        }
        let rest = self.rest();
        let end = rest.find([')', ' ']).unwrap_or(rest.len());
        let literal = match &rest[..end] {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => Number::parse(number).map(Value::Number).ok_or("a quoted text or a number has to stand here")?,
        };
        self.at += end;
        Ok(Operand::Literal(literal))
    }
}
