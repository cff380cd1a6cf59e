//! The relevant parts of an index page's HTML: its headings, its links, and the text after a link.
//!
//! The tokenizer comes from html5gum. This module truncates the texts that it keeps, so any page takes only a few KiB.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{Error, Read};
use std::rc::Rc;

use html5gum::emitters::{Emitter, naive_next_state};
use html5gum::{IoReader, State, Tokenizer};

use crate::limits::INDEX_HREF_BYTES_MAX;
use crate::source::bounded_reader::BoundedReader;

/// Maximum size of the name of a tag or an attribute. All relevant names are shorter than this.
const WORD_BYTES_MAX: usize = 16;
/// Maximum size of a heading, and of the text after a link.
const TEXT_BYTES_MAX: usize = 256;

/// A relevant part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IndexToken {
    /// The text of a `title` or `h1`.
    Heading(Vec<u8>),
    /// A link.
    Link {
        /// Target of the link, with its entities decoded.
        href: Vec<u8>,
        /// Text after the link, including the following cells of its table row, separated by spaces. If the text is too
        /// long, this is empty.
        behind: Vec<u8>,
    },
    /// The page's `base`, against which relative links are resolved. `None` if it has no `href`.
    Base(Option<Vec<u8>>),
    /// The end tag of the page.
    End,
}

/// Reads the tokens of a page. Errors must be converted with `bounded_reader::read_error`.
pub(super) fn tokens(reader: impl Read) -> impl Iterator<Item = Result<IndexToken, Error>> {
    let silent = Rc::new(Cell::new(0));
    let reader = BoundedReader::new(reader, Rc::clone(&silent));
    Tokenizer::new_with_emitter(IoReader::new(reader), IndexEmitter { silent, ..IndexEmitter::default() })
}

/// Bytes up to a maximum, and a flag that states whether more bytes were cut off.
#[derive(Debug, Default)]
struct CutBytes {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl CutBytes {
    fn clear(&mut self) {
        self.bytes.clear();
        self.is_cut = false;
    }

    fn push(&mut self, more: &[u8], max: usize) {
        let room = max.saturating_sub(self.bytes.len());
        self.is_cut |= more.len() > room;
        self.bytes.extend_from_slice(&more[..more.len().min(room)]);
    }

    fn is(&self, word: &str) -> bool {
        !self.is_cut && self.bytes == word.as_bytes()
    }
}

/// The element to which text belongs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TextPlace {
    #[default]
    Nowhere,
    Heading,
    BehindLink,
}

/// Collects the tokens of a page. See the module.
#[derive(Debug, Default)]
struct IndexEmitter {
    silent: Rc<Cell<usize>>,
    tag: CutBytes,
    is_end_tag: bool,
    last_start_tag: CutBytes,
    attribute: CutBytes,
    /// The first `href` of the current tag.
    href: Option<CutBytes>,
    /// Whether the current attribute value belongs to `href`.
    is_in_href: bool,
    text: CutBytes,
    text_place: TextPlace,
    /// A link that is not returned yet because text may still follow it.
    link: Option<Vec<u8>>,
    tokens: VecDeque<IndexToken>,
}

impl IndexEmitter {
    fn end_link(&mut self) {
        let Some(href) = self.link.take() else { return };
        let behind = match self.text_place {
            TextPlace::BehindLink if !self.text.is_cut => std::mem::take(&mut self.text.bytes),
            _ => Vec::new(),
        };
        self.text_place = TextPlace::Nowhere;
        self.tokens.push_back(IndexToken::Link { href, behind });
    }

    fn begin_text(&mut self, place: TextPlace) {
        self.text.clear();
        self.text_place = place;
    }

    fn end_heading(&mut self) {
        if self.text_place == TextPlace::Heading {
            self.text_place = TextPlace::Nowhere;
            self.tokens.push_back(IndexToken::Heading(std::mem::take(&mut self.text.bytes)));
        }
    }

    fn start_tag(&mut self) {
        if self.tag.is("a") {
            self.end_link();
            self.end_heading();
            // A link that is too long is truncated here. It is still too long afterwards, so it is refused later.
            self.link = self.href.take().map(|href| href.bytes);
        } else if self.tag.is("base") {
            self.end_link();
            let href = self.href.take().map(|href| href.bytes);
            self.tokens.push_back(IndexToken::Base(href));
        } else if self.tag.is("title") || self.tag.is("h1") {
            self.end_link();
            self.begin_text(TextPlace::Heading);
        } else if self.tag.is("td") {
            self.next_cell();
        } else if self.text_place == TextPlace::BehindLink {
            self.end_link();
        }
    }

    /// Begins a table cell. Servers put the time and the size of a file into separate cells.
    fn next_cell(&mut self) {
        if self.text_place == TextPlace::BehindLink {
            self.text.push(b" ", TEXT_BYTES_MAX);
        }
    }

    fn end_tag(&mut self) {
        if self.tag.is("a") {
            if self.link.is_some() {
                self.begin_text(TextPlace::BehindLink);
            }
            return;
        }
        if self.tag.is("td") {
            return;
        }
        if self.text_place == TextPlace::BehindLink {
            self.end_link();
        }
        if self.tag.is("title") || self.tag.is("h1") {
            self.end_heading();
        }
        if self.tag.is("html") {
            self.end_link();
            self.tokens.push_back(IndexToken::End);
        }
    }
}

impl Emitter for IndexEmitter {
    type Token = IndexToken;

    fn set_last_start_tag(&mut self, name: Option<&[u8]>) {
        self.last_start_tag.clear();
        self.last_start_tag.push(name.unwrap_or_default(), WORD_BYTES_MAX);
    }

    fn emit_eof(&mut self) {
        self.end_link();
    }

    fn emit_error(&mut self, _: html5gum::Error) {}

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn pop_token(&mut self) -> Option<IndexToken> {
        self.tokens.pop_front()
    }

    fn emit_string(&mut self, text: &[u8]) {
        self.silent.set(0);
        if self.text_place != TextPlace::Nowhere {
            self.text.push(text, TEXT_BYTES_MAX);
        }
    }

    fn init_start_tag(&mut self) {
        self.tag.clear();
        self.is_end_tag = false;
        self.href = None;
        self.is_in_href = false;
    }

    fn init_end_tag(&mut self) {
        self.init_start_tag();
        self.is_end_tag = true;
    }

    fn init_comment(&mut self) {}

    fn emit_current_tag(&mut self) -> Option<State> {
        self.silent.set(0);
        if self.is_end_tag {
            self.end_tag();
            return None;
        }
        self.last_start_tag.clear();
        self.last_start_tag.is_cut = self.tag.is_cut;
        self.last_start_tag.bytes.extend_from_slice(&self.tag.bytes);
        self.start_tag();
        match naive_next_state(&self.tag.bytes).filter(|_| !self.tag.is_cut) {
            // In the script state, the tokenizer keeps words of any length. The raw text state is enough, because only
            // the end of a script matters.
            Some(State::ScriptData) => Some(State::RawText),
            state => state,
        }
    }

    fn emit_current_comment(&mut self) {}

    fn emit_current_doctype(&mut self) {}

    fn set_self_closing(&mut self) {}

    fn set_force_quirks(&mut self) {}

    fn push_tag_name(&mut self, name: &[u8]) {
        // The tokenizer also keeps the name, because it may turn out to be text. The bytes of the name therefore count
        // as input without a result.
        self.tag.push(name, WORD_BYTES_MAX);
    }

    fn push_comment(&mut self, _: &[u8]) {
        self.silent.set(0);
    }

    fn push_doctype_name(&mut self, _: &[u8]) {
        self.silent.set(0);
    }

    fn init_doctype(&mut self) {}

    fn init_attribute(&mut self) {
        self.attribute.clear();
        self.is_in_href = false;
    }

    fn init_attribute_value(&mut self) {
        // If an attribute occurs twice, the first occurrence applies.
        self.is_in_href = self.attribute.is("href") && self.href.is_none();
        if self.is_in_href {
            self.href = Some(CutBytes::default());
        }
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        self.silent.set(0);
        self.attribute.push(name, WORD_BYTES_MAX);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        self.silent.set(0);
        if let Some(href) = self.href.as_mut().filter(|_| self.is_in_href) {
            href.push(value, INDEX_HREF_BYTES_MAX + 1);
        }
    }

    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_public_identifier(&mut self, _: &[u8]) {
        self.silent.set(0);
    }

    fn push_doctype_system_identifier(&mut self, _: &[u8]) {
        self.silent.set(0);
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end_tag
            && !self.tag.is_cut
            && !self.last_start_tag.is_cut
            && self.tag.bytes == self.last_start_tag.bytes
    }
}
