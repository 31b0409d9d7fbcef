//! Admission of our kinds: one handler, called in-process by the embedded server and over HTTPS by others.
