//! Any bytes as a name: no panic, a path stays beneath the destination and leads back to its name, a request's path
//! holds nothing but what may stand there, a message no control characters.
#![no_main]

use fetchmill_model::name::{encode, for_display, from_path, to_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|name: &[u8]| {
    let mut path = Vec::new();
    if to_path(name, &mut path).is_ok() {
        let text = std::str::from_utf8(&path).expect("a path is UTF-8");
        assert!(!text.contains(char::is_control));
        assert!(!text.split('/').any(|segment| ["", ".", ".."].contains(&segment)));
        assert_ne!(text.split('/').next(), Some(".fetchmill"));
        assert_eq!(from_path(&path).as_deref(), Some(name));
    }
    if let Some(original) = from_path(name) {
        to_path(&original, &mut path).expect("a name has a path");
        assert_eq!(path, name);
    }

    let mut sent = Vec::new();
    encode(name, &mut sent);
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/%".contains(byte);
    assert!(sent.iter().all(plain));
    assert!(
        !sent
            .split(|byte| *byte == b'/')
            .any(|segment| matches!(segment, b"." | b".."))
    );

    assert!(!for_display(name).contains(char::is_control));
});
