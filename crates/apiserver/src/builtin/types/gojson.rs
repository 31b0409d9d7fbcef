//! What Go's JSON decoder says of a text that is no object; some messages of the API quote it.

/// How deep Go's decoder follows nesting; deeper texts are refused. Kept small, since this recurses.
const MAX_DEPTH: usize = 200;

/// Why `text` is no JSON object; `None` if it is one.
pub(crate) fn object_fault(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0 };
    if let Err(fault) = scanner.whole() {
        return Some(fault);
    }
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace())?;
    let found = match first {
        b'{' | b'n' => return None,
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "bool",
        _ => "number",
    };
    Some(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

type Scan = Result<(), String>;

impl Scanner<'_> {
    fn whole(&mut self) -> Scan {
        self.value(0)?;
        self.blanks();
        match self.peek() {
            None => Ok(()),
            Some(byte) => Err(invalid(byte, "after top-level value")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(|| "unexpected end of JSON input".to_owned())?;
        self.at += 1;
        Ok(byte)
    }

    fn value(&mut self, depth: usize) -> Scan {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.blanks();
        match self.next()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string(),
            b'n' => self.literal("null"),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            byte @ (b'-' | b'0'..=b'9') => self.number(byte),
            other => Err(invalid(other, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str) -> Scan {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                return Err(invalid(byte, &format!("in literal {word} (expecting '{}')", char::from(expected))));
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Scan {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.next()?;
                            if !byte.is_ascii_hexdigit() {
                                return Err(invalid(byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    other => return Err(invalid(other, "in string escape code")),
                },
                control if control < 0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn some_digits(&mut self, place: &str) -> Scan {
        if self.digits() > 0 {
            return Ok(());
        }
        let byte = self.next()?;
        Err(invalid(byte, place))
    }

    fn number(&mut self, first: u8) -> Scan {
        let lead = if first == b'-' { self.next()? } else { first };
        match lead {
            b'0' => {}
            b'1'..=b'9' => {
                self.digits();
            }
            other => return Err(invalid(other, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Scan {
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.blanks();
            match self.next()? {
                b']' => return Ok(()),
                b',' => {}
                other => return Err(invalid(other, "after array element")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Scan {
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            match self.next()? {
                b'"' => self.string()?,
                other => return Err(invalid(other, "looking for beginning of object key string")),
            }
            self.blanks();
            match self.next()? {
                b':' => {}
                other => return Err(invalid(other, "after object key")),
            }
            self.value(depth + 1)?;
            self.blanks();
            match self.next()? {
                b'}' => return Ok(()),
                b',' => {}
                other => return Err(invalid(other, "after object key:value pair")),
            }
        }
    }
}

fn invalid(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => format!("{:?}", char::from(byte)),
    };
    format!("invalid character {shown} {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_read_as_those_of_go() {
        for (text, expect) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("notjson", "invalid character 'o' in literal null (expecting 'u')"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{}x", "invalid character 'x' after top-level value"),
            ("{a}", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a"1}"#, "invalid character '1' after object key"),
            (r#"{"a":[1 2]}"#, "invalid character '2' after array element"),
            (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
            ("[1.x]", "invalid character 'x' after decimal point in numeric literal"),
            ("[-x]", "invalid character 'x' in numeric literal"),
            (r#""\q""#, "invalid character 'q' in string escape code"),
            ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
            ("1.5e3", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        ] {
            assert_eq!(object_fault(text.as_bytes()).as_deref(), Some(expect), "{text}");
        }
        assert_eq!(object_fault(br#" {"a": [1, -0.5e+3, true, null, {"b": "\u00e9\n"}, [], {}]} "#), None);
        assert_eq!(object_fault(b"null"), None, "Go leaves the map nil");
        assert!(object_fault(&b"[".repeat(1_000_000)).is_some(), "the stack holds");
    }
}
