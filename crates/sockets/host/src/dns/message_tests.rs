//! Messages as bytes.

use super::*;

fn question() -> Question {
    Question { id: 0x1234, name: b"\x03wWw\x07eXample\0".to_vec(), kind: Kind::Aaaa }
}

#[test]
fn a_question_is_a_header_a_name_and_an_opt_record() {
    let mut expected =
        b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\x01\x03wWw\x07eXample\0\0\x1c\0\x01".to_vec();
    let plain_length = expected.len();
    expected.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
    assert_eq!(query(&question(), true), expected);
    expected.truncate(plain_length);
    expected[11] = 0;
    assert_eq!(query(&question(), false), expected);
}

#[test]
fn an_answer_says_whether_the_case_was_kept() {
    let mut bytes = query(&question(), false);
    bytes[2] |= 0x80;
    bytes[3] |= 0x80;
    let answer = Answer { found: Found::NoData, ttl: Duration::ZERO };
    assert_eq!(reply(&question(), &bytes), Ok((Reply::Answer(answer), true)));
    bytes[13] = b'W';
    assert!(matches!(reply(&question(), &bytes), Ok((_, false))));
    bytes[13] = b'x';
    assert_eq!(reply(&question(), &bytes), Err(Mismatch::OtherQuestion));
}
