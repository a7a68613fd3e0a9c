//! A headless browser for tests of web pages: Chromium, controlled with the DevTools protocol over
//! two pipes, which need no port and work in any network namespace.
//!
//! Called by: tests of pages, with [`Need::CHROMIUM`](crate::Need::CHROMIUM). One [`Browser`] is
//! one page. As in the rest of this crate, failures are panics.
//!
//! Messages are written as plain JSON. A typed client would be as large as the whole workspace and
//! fit only one version of Chromium, and tests need only ten methods.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::until;

/// How long an answer may take. On a busy machine a browser starts slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page. It is ended on drop.
pub struct Browser {
    child: Child,
    /// The folder for the browser's profile and all its files, which is removed on drop.
    home: PathBuf,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Number of the next call.
    next: u64,
    session: Option<String>,
    complaints: Vec<String>,
    requests: Vec<String>,
    /// Has the page that was opened last been loaded?
    loaded: bool,
}

impl Browser {
    /// Start Chromium, with an empty page of 1280 x 900 pixels in the light theme.
    ///
    /// # Panics
    /// If Chromium does not start.
    pub fn start() -> Browser {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wirespeed-browser-{}-{number}", std::process::id());
        let home = std::env::temp_dir().join(name);
        fs::create_dir_all(&home).expect("a folder for the browser's profile");
        // Chromium reads commands from descriptor 3, and writes answers to descriptor 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", "chromium"]);
        command.args(["--headless", "--remote-debugging-pipe", "--no-first-run"]);
        command.args(["--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"]);
        command.args(["--disable-background-networking", "--disable-component-update"]);
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        command.arg(format!("--user-data-dir={}", home.display()));
        command.env("HOME", &home).env("XDG_RUNTIME_DIR", &home).process_group(0);
        let says = fs::File::create(home.join("stderr")).expect("the folder can be written");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(says);
        let mut child = command.spawn().expect("there is a shell");
        let to = child.stdin.take().expect("piped");
        let answers = child.stdout.take().expect("piped");
        let (sender, from) = channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let value = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            home,
            to,
            from,
            next: 1,
            session: None,
            complaints: Vec::new(),
            requests: Vec::new(),
            loaded: false,
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let made = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let asked = json!({"targetId": made["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", asked);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.size(1280, 900);
        self.dark(false);
    }

    /// Call a method of the protocol for the page. Returns the result.
    ///
    /// # Panics
    /// Chromium refuses the call, or takes longer than a minute.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let written = self.to.write_all(format!("{message}\0").as_bytes());
        assert!(written.is_ok(), "chromium has ended: {}", self.says());
        let until = Instant::now() + PATIENCE;
        loop {
            let message = self.message(until, method);
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    /// Wait for the next message, and record it if it is a report about the page.
    fn message(&mut self, until: Instant, waits_for: &str) -> Value {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(message) = self.from.recv_timeout(left) else {
            panic!("chromium says nothing to {waits_for}: {}", self.says());
        };
        self.note(&message);
        message
    }

    fn note(&mut self, message: &Value) {
        let about = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loaded = true,
            "Runtime.exceptionThrown" => {
                self.complaints.push(about["exceptionDetails"].to_string());
            }
            "Runtime.consoleAPICalled"
                if ["error", "warning", "assert"]
                    .contains(&about["type"].as_str().unwrap_or("")) =>
            {
                self.complaints.push(about["args"].to_string());
            }
            "Log.entryAdded" if about["entry"]["level"] == "error" => {
                self.complaints.push(about["entry"].to_string());
            }
            "Network.requestWillBeSent" => {
                let url = about["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            _ => {}
        }
    }

    /// The text that Chromium has written to standard error.
    fn says(&self) -> String {
        fs::read_to_string(self.home.join("stderr")).unwrap_or_default()
    }

    /// Go to the address, and wait until the page has been loaded.
    ///
    /// # Panics
    /// If the page cannot be loaded within a minute.
    pub fn open(&mut self, url: &str) {
        self.loaded = false;
        let went = self.call("Page.navigate", json!({"url": url}));
        assert!(went["errorText"].is_null(), "{url}: {}", went["errorText"]);
        let until = Instant::now() + PATIENCE;
        while !self.loaded {
            self.message(until, url);
        }
    }

    /// The value of a JavaScript expression. If it is a promise, wait for it.
    ///
    /// # Panics
    /// If the expression throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let found = self.call("Runtime.evaluate", asked);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {}", found["exceptionDetails"]);
        found["result"]["value"].clone()
    }

    /// Poll an expression until it is true, for `time` at most.
    pub fn until(&mut self, time: Duration, expression: &str) -> bool {
        until(time, || self.evaluate(expression) == Value::Bool(true))
    }

    /// Set the size of the window, in pixels. If the width is below 600, the browser behaves as on
    /// a phone.
    pub fn size(&mut self, width: u32, height: u32) {
        let mobile = width < 600;
        let asked = json!({"width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": mobile});
        self.call("Emulation.setDeviceMetricsOverride", asked);
    }

    /// Set the theme that the browser reports to pages: dark or light.
    pub fn dark(&mut self, dark: bool) {
        let theme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Move the pointer to a point, in pixels of the window.
    pub fn point(&mut self, x: f64, y: f64) {
        self.mouse("mouseMoved", x, y, 0);
    }

    /// Press the button at one point and release it at another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.mouse("mouseMoved", from.0, from.1, 0);
        self.mouse("mousePressed", from.0, from.1, 1);
        let half = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        self.mouse("mouseMoved", half.0, half.1, 1);
        self.mouse("mouseMoved", to.0, to.1, 1);
        self.mouse("mouseReleased", to.0, to.1, 1);
    }

    /// Click at a point.
    pub fn click(&mut self, x: f64, y: f64) {
        self.mouse("mousePressed", x, y, 1);
        self.mouse("mouseReleased", x, y, 1);
    }

    fn mouse(&mut self, what: &str, x: f64, y: f64, buttons: u32) {
        let button = if buttons > 0 { "left" } else { "none" };
        let clicks = u32::from(what != "mouseMoved");
        let event = json!({"type": what, "x": x, "y": y, "button": button, "buttons": buttons,
            "clickCount": clicks});
        self.call("Input.dispatchMouseEvent", event);
    }

    /// The complaints of the page since the start: errors and warnings of its console, exceptions,
    /// and resources that could not be loaded.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The addresses that pages have requested since the start.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    /// By how many pixels the page is wider than the window; 0 if it is not.
    pub fn overflow(&mut self) -> i64 {
        let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        self.evaluate(wide).as_i64().expect("a number")
    }

    /// Write a picture of the whole page, or of its upper 16,000 pixels, as a PNG file.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn picture(&mut self, file: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let height = size["height"].as_f64().unwrap_or(900.0).min(16_000.0);
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1});
        let asked = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let made = self.call("Page.captureScreenshot", asked);
        save(&made, file);
    }

    /// Print the page into a PDF file.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn print(&mut self, file: &Path) {
        let made = self.call("Page.printToPDF", json!({"printBackground": true}));
        save(&made, file);
    }
}

fn save(made: &Value, file: &Path) {
    let data = STANDARD.decode(made["data"].as_str().expect("it has been made"));
    let written = fs::write(file, data.expect("base64"));
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

impl Drop for Browser {
    fn drop(&mut self) {
        // All processes of the browser are in its process group. If they have ended already, this
        // call fails, which does not matter.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        until(Duration::from_secs(2), || fs::remove_dir_all(&self.home).is_ok());
    }
}
