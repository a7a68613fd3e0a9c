//! The one registry of switches: every optimisation can be turned off while running, so that it
//! can be compared with the plain way and so that a user can rule it out. Read once a burst.

macro_rules! switches {
    ($($variant:ident $name:literal $default:literal $off:literal;)*) => {
        /// Something that can be turned off.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Switch { $(#[doc = $off] $variant,)* }

        impl Switch {
            /// Every switch, in order.
            pub const ALL: &'static [Switch] = &[$(Switch::$variant,)*];

            /// The name on command lines.
            pub const fn name(self) -> &'static str {
                match self { $(Switch::$variant => $name,)* }
            }

            /// Whether it is on from the start.
            pub const fn default_on(self) -> bool {
                match self { $(Switch::$variant => $default,)* }
            }

            /// What happens when it is off.
            pub const fn off_means(self) -> &'static str {
                match self { $(Switch::$variant => $off,)* }
            }
        }
    };
}

switches! {
    Predict "predict" true "every segment takes the RFC 9293 steps";
    Stamp "stamp" true "every segment of a run has its headers put together";
    Alone "alone" true "a segment by itself is made as any other, question by question";
    Follow "follow" true "every segment of a burst has its headers parsed";
    FollowApart "follow-apart" true "flows that alternate in a burst have no followers";
    FusedSum "fused-sum" true "data is copied first and summed afterwards";
    SimdSum "simd-sum" true "checksums use portable 64-bit code";
    FlowCache "flow-cache" true "every segment is looked up in the connection table";
    BurstAck "burst-ack" true "an ACK goes out for every second segment instead of after a burst";
    Rack "rack" true "a segment is lost when three behind it have arrived, however late it is";
    TailProbe "tail-probe" true "the loss of the last segments is found by the time-out alone";
    Prr "prr" true "a loss reduces the window in one step";
    Undo "undo" true "a reduction stays although nothing was lost";
    SendSpace "send-space" true "the delayed ACK ignores what the peer can send at most";
    Pacing "pacing" true "what the windows admit leaves at once, however long the way";
    SynCookies "syn-cookies" true
        "at a limit a SYN takes the place of one that is overdue, or is dropped";
    RepeatedSyns "repeated-syns" true
        "every SYN gets its cookie, also while they come faster than they can be answered";
    WriteUnits "write-units" true "a write takes all it can before anything is sent";
    ChecksumRx "checksum-rx" true "received TCP and UDP checksums are not verified";
    ChecksumTx "checksum-tx" true "sent TCP and UDP checksums are left zero";
}

/// The state of every switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches(u32);

impl Default for Switches {
    fn default() -> Switches {
        let mut bits = 0;
        for &s in Switch::ALL {
            if s.default_on() {
                bits |= 1 << s as u32;
            }
        }
        Switches(bits)
    }
}

impl Switches {
    /// Is `switch` on?
    #[inline(always)]
    pub const fn on(self, switch: Switch) -> bool {
        self.0 & (1 << switch as u32) != 0
    }

    /// The same state with `switch` turned.
    #[must_use]
    pub const fn with(self, switch: Switch, on: bool) -> Switches {
        let bit = 1 << switch as u32;
        Switches(if on { self.0 | bit } else { self.0 & !bit })
    }

    /// Apply `NAME=on` or `NAME=off`.
    ///
    /// # Errors
    /// A sentence that names the known switches.
    pub fn parse_setting(self, text: &str) -> Result<Switches, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let on = match value {
            "on" => true,
            "off" => false,
            _ => return Err(format!("'{text}': expected NAME=on or NAME=off")),
        };
        match Switch::ALL.iter().find(|s| s.name() == name) {
            Some(&s) => Ok(self.with(s, on)),
            None => {
                let known: Vec<_> = Switch::ALL.iter().map(|s| s.name()).collect();
                Err(format!("no switch '{name}'; there are: {}", known.join(", ")))
            }
        }
    }
}
