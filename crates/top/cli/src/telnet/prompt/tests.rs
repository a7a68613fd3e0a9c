//! The words of the prompt, without a connection.

use telnet::{Client, Settings, code};

use super::*;

fn client() -> Client {
    Client::new(Settings {
        terminal: "xterm".to_owned(),
        window: (80, 24),
        speed: "38400,38400".to_owned(),
        environment: Vec::new(),
        asks: false,
        linemode: true,
    })
}

fn sent(client: &mut Client) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !client.out().is_empty() {
        let next = client.out().next().0.to_vec();
        client.out().sent(next.len());
        bytes.extend(next);
    }
    bytes
}

#[test]
fn characters_are_written_as_users_write_them() {
    for (text, character) in
        [("^]", Some(29)), ("^c", Some(3)), ("^?", Some(127)), ("~", Some(b'~')), ("none", None)]
    {
        assert_eq!(text.parse(), Ok(Escape(character)), "{text}");
    }
    for text in ["", "^", "^]]", "ab", "^1", "\u{e9}"] {
        // A caret alone is a character.
        assert_eq!(text.parse::<Escape>().is_ok(), text == "^", "{text}");
    }
    assert_eq!(Escape(Some(29)).to_string(), "^]");
}

#[test]
fn functions_are_sent_by_their_names() {
    let (mut client, mut escape) = (client(), Escape(Some(29)));
    assert_eq!(command("send ip", &mut client, &mut escape), Next::Connection);
    assert_eq!(sent(&mut client), [code::IAC, code::IP]);
    assert_eq!(command("se synch", &mut client, &mut escape), Next::Connection);
    assert_eq!(sent(&mut client), [code::IAC, code::DM]);
    assert!(matches!(command("send x", &mut client, &mut escape), Next::Again(_)));
}

#[test]
fn modes_the_escape_and_the_end() {
    let (mut client, mut escape) = (client(), Escape(Some(29)));
    assert_eq!(command("mode line", &mut client, &mut escape), Next::Connection);
    assert_eq!(sent(&mut client), [code::IAC, code::WILL, code::LINEMODE]);
    assert_eq!(command("set escape ^T", &mut client, &mut escape), Next::Connection);
    assert_eq!(escape, Escape(Some(20)));
    let Next::Show(text) = command("st", &mut client, &mut escape) else { panic!("a status") };
    assert!(text.contains("lines, edited here") && text.contains("'^T'"), "{text}");
    assert_eq!(command("", &mut client, &mut escape), Next::Connection);
    assert_eq!(command("q", &mut client, &mut escape), Next::Close);
    assert!(matches!(command("send", &mut client, &mut escape), Next::Again(_)));
}

#[test]
fn special_characters_have_names() {
    let (mut client, mut escape) = (client(), Escape(Some(29)));
    assert_eq!(command("set ayt ^T", &mut client, &mut escape), Next::Connection);
    let Next::Show(text) = command("slc", &mut client, &mut escape) else { panic!("a list") };
    for line in ["AYT    ^T\n", "IP     ^C\n", "MCBOL  ^A\n", "ECR    none\n"] {
        assert!(text.contains(line), "{text}");
    }
    for line in ["set nothing ^T", "set ayt", "set ayt ^1"] {
        assert!(matches!(command(line, &mut client, &mut escape), Next::Again(_)), "{line}");
    }
}
