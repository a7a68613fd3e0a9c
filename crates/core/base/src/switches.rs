//! The switches: every optimisation can be turned off at run time, to compare it with the plain
//! code, or to rule it out as the cause of a problem. The stack reads the switches once per burst.

macro_rules! switches {
    ($($variant:ident $name:literal $default:literal $off:literal;)*) => {
        /// An optimisation or check that can be turned off.
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

            /// Whether the switch is on by default.
            pub const fn default_on(self) -> bool {
                match self { $(Switch::$variant => $default,)* }
            }

            /// What the stack does when the switch is off.
            pub const fn off_means(self) -> &'static str {
                match self { $(Switch::$variant => $off,)* }
            }
        }
    };
}

switches! {
    Predict "predict" true "every segment takes the RFC 9293 steps";
    Stamp "stamp" true "the headers of every segment are built anew";
    OutputFastPath "output-fast-path" true
        "one to three segments are built by the steps for any number of segments";
    Follow "follow" true "the headers of every received segment are parsed";
    FollowApart "follow-apart" true "flows that alternate in a burst have no followers";
    FusedSum "fused-sum" true "data is copied first and summed afterwards";
    SimdSum "simd-sum" true "checksums use portable 64-bit code";
    WideSum "wide-sum" true "checksums use vectors of 256 bits where 512 were chosen";
    FlowCache "flow-cache" true
        "every segment and every datagram is looked up, and every datagram sent is routed, anew";
    BurstAck "burst-ack" true "an ACK goes out for every second segment instead of after a burst";
    AnswerAck "answer-ack" true
        "an ACK goes out in poll, although an answer of the program might carry it";
    Rack "rack" true "a segment is lost when three later ones have arrived, however late it is";
    TailProbe "tail-probe" true "the loss of the last segments is found by the time-out alone";
    Prr "prr" true "a loss reduces the window in one step";
    Undo "undo" true "a window reduction stays although nothing was lost";
    SendSpace "send-space" true "delayed ACKs ignore the estimate of what the peer can send";
    Pacing "pacing" true "data that the windows admit is sent at once, however long the round trip";
    SynCookies "syn-cookies" true
        "at a full backlog a SYN evicts an overdue one, or is dropped";
    RepeatedSyns "repeated-syns" true
        "every SYN is answered with a cookie, even faster than the device can send";
    ForwardBurst "forward-burst" true "every packet is forwarded by itself, the plain way";
    ForwardMerge "forward-merge" true
        "segments that arrived separately are forwarded separately, even to a device that takes \
         super-segments";
    WriteUnits "write-units" true "a write takes all it can before anything is sent";
    ChecksumRx "checksum-rx" true "received TCP and UDP checksums are not verified";
    ChecksumTx "checksum-tx" true "sent TCP and UDP checksums are left zero";
}

/// The state of every switch.
///
/// ```
/// # use wirespeed_base as wirespeed;
/// use wirespeed::{Switch, Switches};
///
/// let switches = Switches::default().with(Switch::Pacing, false);
/// assert!(!switches.on(Switch::Pacing));
/// assert_eq!(Switches::default().parse_setting("pacing=off"), Ok(switches));
/// ```
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

    /// The same state with `switch` set to `on`.
    #[must_use]
    pub const fn with(self, switch: Switch, on: bool) -> Switches {
        let bit = 1 << switch as u32;
        Switches(if on { self.0 | bit } else { self.0 & !bit })
    }

    /// Apply `NAME=on` or `NAME=off`.
    ///
    /// # Errors
    /// A sentence that lists the known switches.
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
