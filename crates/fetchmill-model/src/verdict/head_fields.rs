//! Fields of a reply, found in the bytes of its head.

/// The value of a field in the bytes of a head; the name with its colon.
pub fn field_in<'h>(head: &'h [u8], name: &'static [u8]) -> Option<&'h [u8]> {
    fields_in(head, name).next()
}

/// The same of each such field.
pub fn fields_in<'h>(head: &'h [u8], name: &'static [u8]) -> impl Iterator<Item = &'h [u8]> {
    head.split(|byte| *byte == b'\n')
        .filter(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
        .map(|line| line[name.len()..].trim_ascii())
}
