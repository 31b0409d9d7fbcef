//! The query form of label selectors. A byte at a time, no recursion; errors in the words of Kubernetes.

use super::label::{Operator, Requirement, RequirementError};
use crate::field::{FieldError, Path};
use crate::names;

/// Why a text is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorParseError {
    /// Something stands where a requirement or the end should.
    #[error("found '{found}', expected: {expected}")]
    Expected {
        /// What stands there.
        found: String,
        /// What could.
        expected: &'static str,
    },
    /// A requirement that has another shape.
    #[error("unable to parse requirement: found '{found}'{}expected: {expected}", if *.comma { ", " } else { " " })]
    InRequirement {
        /// What stands there.
        found: String,
        /// What could.
        expected: &'static str,
        /// Whether the message has a comma before "expected".
        comma: bool,
    },
    /// A requirement with a key or value that cannot be.
    #[error("unable to parse requirement: {0}")]
    Requirement(#[from] RequirementError),
}

/// A token; words carry their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Less,
    NotEquals,
    Open,
    In,
    NotIn,
    Word(&'a str),
}

impl<'a> Token<'a> {
    /// The token, `in` and `notin` being words where values may stand.
    fn as_value(self) -> Token<'a> {
        match self {
            Token::In => Token::Word("in"),
            Token::NotIn => Token::Word("notin"),
            other => other,
        }
    }

    fn text(self) -> String {
        match self {
            Token::End => "",
            Token::Close => ")",
            Token::Comma => ",",
            Token::Not => "!",
            Token::DoubleEquals => "==",
            Token::Equals => "=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::NotEquals => "!=",
            Token::Open => "(",
            Token::In => "in",
            Token::NotIn => "notin",
            Token::Word(word) => word,
        }
        .to_owned()
    }
}

struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let is_symbol = |character: char| "=!(),><".contains(character);
        let ends_word = |character: char| is_symbol(character) || " \t\r\n".contains(character);
        if !self.rest.starts_with(is_symbol) {
            let word = self.take(self.rest.find(ends_word).unwrap_or(self.rest.len()));
            return match word {
                "" => Token::End,
                "in" => Token::In,
                "notin" => Token::NotIn,
                word => Token::Word(word),
            };
        }
        let (token, length) = match self.rest.as_bytes() {
            [b'=', b'=', ..] => (Token::DoubleEquals, 2),
            [b'!', b'=', ..] => (Token::NotEquals, 2),
            [b'=', ..] => (Token::Equals, 1),
            [b'!', ..] => (Token::Not, 1),
            [b'>', ..] => (Token::Greater, 1),
            [b'<', ..] => (Token::Less, 1),
            [b'(', ..] => (Token::Open, 1),
            [b')', ..] => (Token::Close, 1),
            _ => (Token::Comma, 1),
        };
        self.take(length);
        token
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn peek(&self) -> Token<'a> {
        Lexer { rest: self.rest }.next()
    }
}

/// The requirements of a selector, in the order of the text.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorParseError> {
    let mut lexer = Lexer { rest: text };
    let mut requirements = Vec::new();
    loop {
        match lexer.peek().as_value() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Not => requirements.push(requirement(&mut lexer)?),
            other => return Err(expected(other, "!, identifier, or 'end of string'")),
        }
        match lexer.next().as_value() {
            Token::End => return Ok(requirements),
            Token::Comma => match lexer.peek().as_value() {
                Token::Word(_) | Token::Not => {}
                other => return Err(expected(other, "identifier after ','")),
            },
            other => return Err(expected(other, "',' or 'end of string'")),
        }
    }
}

fn expected(found: Token<'_>, expected: &'static str) -> SelectorParseError {
    SelectorParseError::Expected { found: found.text(), expected }
}

fn in_requirement(found: Token<'_>, expected: &'static str) -> SelectorParseError {
    SelectorParseError::InRequirement { found: found.text(), expected, comma: true }
}

fn requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, SelectorParseError> {
    let mut token = lexer.next().as_value();
    let negated = token == Token::Not;
    if negated {
        token = lexer.next().as_value();
    }
    let Token::Word(key) = token else { return Err(in_requirement(token, "identifier")) };
    let faults = names::qualified_name(key);
    if !faults.is_empty() {
        let error = FieldError::invalid(&Path::root(), key, faults.join("; "));
        return Err(RequirementError { errors: vec![error] }.into());
    }
    if negated {
        return Ok(Requirement::new(key, Operator::DoesNotExist, Vec::new())?);
    }
    if matches!(lexer.peek(), Token::End | Token::Comma) {
        return Ok(Requirement::new(key, Operator::Exists, Vec::new())?);
    }
    let operator = match lexer.next() {
        Token::In => Operator::In,
        Token::NotIn => Operator::NotIn,
        Token::Equals => Operator::Equals,
        Token::DoubleEquals => Operator::DoubleEquals,
        Token::NotEquals => Operator::NotEquals,
        Token::Greater => Operator::GreaterThan,
        Token::Less => Operator::LessThan,
        other => return Err(in_requirement(other, "in, notin, =, ==, !=, gt, lt")),
    };
    let values = match operator {
        Operator::In | Operator::NotIn => value_set(lexer)?,
        _ => vec![exact_value(lexer)?],
    };
    Ok(Requirement::new(key, operator, values)?)
}

fn exact_value(lexer: &mut Lexer<'_>) -> Result<String, SelectorParseError> {
    if matches!(lexer.peek(), Token::End | Token::Comma) {
        return Ok(String::new());
    }
    match lexer.next().as_value() {
        Token::Word(value) => Ok(value.to_owned()),
        other => Err(in_requirement(other, "identifier")),
    }
}

/// `(a,b)`; nothing between commas, or between the parentheses, is the empty value.
fn value_set(lexer: &mut Lexer<'_>) -> Result<Vec<String>, SelectorParseError> {
    let open = lexer.next().as_value();
    if open != Token::Open {
        let (found, expected) = (open.text(), "'('");
        return Err(SelectorParseError::InRequirement { found, expected, comma: false });
    }
    match lexer.peek().as_value() {
        Token::Word(_) | Token::Comma | Token::Close => {}
        other => return Err(in_requirement(other, "',', ')' or identifier")),
    }
    let mut values = Vec::new();
    loop {
        match lexer.next().as_value() {
            Token::Word(value) => {
                values.push(value.to_owned());
                match lexer.next().as_value() {
                    Token::Comma => {}
                    Token::Close => return Ok(values),
                    other => return Err(in_requirement(other, "',' or ')'")),
                }
            }
            Token::Comma => values.push(String::new()),
            Token::Close => {
                values.push(String::new());
                return Ok(values);
            }
            other => return Err(in_requirement(other, "',', or identifier")),
        }
    }
}
