// The live page: takes samples as server-sent events, and shows them. It asks for nothing else, and
// text of the program is only ever set as text.

const MINUTE = 60;
const SEQUENCE_SECONDS = 6;
/// Without a sample for so long, something is wrong, although the connection is there.
const SILENCE_MS = 3000;
const AGAIN_MS = 1000;

const throughput = new Plot("throughput", [
  { label: "in", colour: "--s1", from_zero: true, fill: true },
  { label: "out", colour: "--s2", fill: true },
], (bits) => short(bits), MINUTE);
const sequence = new Plot("sequence", [
  { label: "window's end", colour: "--s5", paths: uPlot.paths.stepped({ align: 1 }) },
  { label: "sent", colour: "--s1" },
  { label: "acknowledged", colour: "--s3", paths: uPlot.paths.stepped({ align: 1 }) },
  { label: "retransmitted", colour: "--s6", paths: () => null, points: true },
], (bytes) => short(bytes), SEQUENCE_SECONDS);
const windows = new Plot("windows", [
  { label: "in flight", colour: "--s1", from_zero: true, fill: true },
  { label: "cwnd", colour: "--s2" },
  { label: "peer's window", colour: "--s5" },
], (bytes) => short(bytes), MINUTE);
const roundTrip = new Plot("rtt", [
  { label: "RTT", colour: "--s4", from_zero: true, fill: true },
  { label: "shortest", colour: "--s3" },
], (figure) => short(figure), MINUTE);

let before = null;
let histories = new Map();
let selected = null;
let order = [];
let traffic = new History(2, MINUTE);
/// The time of day at the program's time 0.
let epoch = 0;
let heardAt = 0;

function sum(sample, key) {
  return sample.stacks.reduce((all, stack) => all + (stack[key] || 0), 0);
}

function drops(sample) {
  const all = new Map();
  for (const stack of sample.stacks) {
    for (const [name, count] of Object.entries(stack.drops)) all.set(name, (all.get(name) || 0) + count);
  }
  return all;
}

function key(row) {
  return row.stack + " " + row.local + " " + row.remote;
}

function forget() {
  before = null;
  histories = new Map();
  traffic = new History(2, MINUTE);
  epoch = 0;
}

function take(sample) {
  const is_same = before && before.program.pid === sample.program.pid && before.at_ms < sample.at_ms;
  if (!is_same || before.stacks.length !== sample.stacks.length) forget();
  if (!epoch) epoch = Date.now() - sample.at_ms;
  const time = (epoch + sample.at_ms) / 1000;
  const seconds = before ? (sample.at_ms - before.at_ms) / 1000 : 0;
  const since = (name) => (before ? rate(sum(sample, name), sum(before, name), seconds) : null);
  head(sample);
  tiles(sample, since, seconds);
  const bits = (name) => { const bytes = since(name); return bytes == null ? null : bytes * 8; };
  traffic.push(time, [bits("rx_bytes"), bits("tx_bytes")]);
  throughput.draw(traffic.columns);
  connections(sample, time, seconds);
  dropped(sample, seconds);
  budget(sample.budget);
  ports(sample);
  before = sample;
  document.body.dataset.samples = Number(document.body.dataset.samples || 0) + 1;
}

function head(sample) {
  const { command, pid, version } = sample.program;
  const stacks = sample.stacks.map((stack) => stack.name).join(", ");
  say(at("program"), command + ", process " + pid + ", version " + version + "; stacks: " + stacks);
  const { watched_by, refused, left_out } = sample.page;
  const others = watched_by === 1 ? "" : " " + watched_by + " look at it.";
  const lost = refused + left_out === 0 ? ""
    : " Refused: " + refused + " connections; left out for slow browsers: " + left_out + " samples.";
  say(at("about"), "This page only shows. A sample comes four times a second." + others + lost);
}

function tiles(sample, since, seconds) {
  const bits = (name) => { const bytes = since(name); return short(bytes == null ? null : bytes * 8); };
  const now = [...drops(sample).values()].reduce((all, n) => all + n, 0);
  const then = before ? [...drops(before).values()].reduce((all, n) => all + n, 0) : null;
  const all = [
    ["in, b/s", bits("rx_bytes")],
    ["out, b/s", bits("tx_bytes")],
    ["frames in /s", short(since("rx_frames"))],
    ["frames out /s", short(since("tx_frames"))],
    ["connections", short(sample.connection_count)],
    ["retransmits /s", short(since("retransmits"))],
    ["drops /s", short(rate(now, then, seconds))],
    ["memory, B", short(sum(sample, "pool_bytes"))],
  ];
  if (sum(sample, "forwarded") > 0) all.push(["forwarded /s", short(since("forwarded"))]);
  const list = at("tiles");
  while (list.children.length > all.length) list.lastChild.remove();
  all.forEach(([name, figure], index) => {
    let tile = list.children[index];
    if (!tile) {
      tile = list.appendChild(document.createElement("div"));
      tile.append(made("dt", name), made("dd", figure));
    }
    say(tile.children[0], name);
    say(tile.children[1], figure);
  });
}

/// What was noted of a connection, for its plots.
function note(row, time, seconds) {
  let all = histories.get(key(row));
  if (!all || row.bytes_acked < all.last.bytes_acked) {
    const sends = row.bytes_acked + row.in_flight >= row.bytes_received;
    all = { sends, last: null, retransmits: 0, sequence: new History(4, SEQUENCE_SECONDS),
      windows: new History(3, MINUTE), rtt: new History(2, MINUTE) };
    histories.set(key(row), all);
  }
  const last = all.last;
  all.rates = last
    ? [rate(row.bytes_acked, last.bytes_acked, seconds), rate(row.bytes_received, last.bytes_received, seconds)]
    : [null, null];
  const [sent, received] = all.rates;
  if (sent || received) all.sends = (sent || 0) >= (received || 0);
  const is_again = last && row.retransmits > last.retransmits;
  // A receiver's: what came in order, and where its window ends.
  all.sequence.push(time, all.sends
    ? [row.bytes_acked + row.snd_wnd, row.bytes_acked + row.in_flight, row.bytes_acked, is_again ? row.bytes_acked : null]
    : [row.bytes_received + row.rcv_wnd, row.bytes_received, row.bytes_received - row.unread, null]);
  all.windows.push(time, [row.in_flight, row.cwnd_bytes, row.snd_wnd]);
  all.rtt.push(time, [row.rtt_us ? row.rtt_us / 1000 : null, row.min_rtt_us ? row.min_rtt_us / 1000 : null]);
  all.last = row;
  all.time = time;
}

function connections(sample, time, seconds) {
  const rows = sample.connections;
  rows.forEach((row) => note(row, time, seconds));
  for (const [name, all] of histories) if (all.time < time - MINUTE) histories.delete(name);
  const busy = (row) => { const [a, b] = histories.get(key(row)).rates; return (a || 0) + (b || 0); };
  // The order changes once in two seconds, so that a row can be clicked on.
  const known = new Map(rows.map((row) => [key(row), row]));
  if (order.at !== Math.floor(time / 2) || order.length === 0) {
    order = [...known.keys()].sort((a, b) => busy(known.get(b)) - busy(known.get(a)));
    order.at = Math.floor(time / 2);
  }
  const shown = order.filter((name) => known.has(name)).map((name) => known.get(name));
  rows.forEach((row) => { if (!order.includes(key(row))) shown.push(row); });
  if (!known.has(selected) && !histories.has(selected)) selected = shown.length ? key(shown[0]) : null;
  const count = sample.connection_count;
  say(at("connections-note"), count === 0 ? "none now"
    : count > sample.shown_most ? "The " + shown.length + " busiest of " + count + " are shown; choose one for its graphs."
    : count === 1 ? "One connection." : "All " + count + "; choose one for its graphs.");
  const body = at("connections").tBodies[0];
  fill(body, shown.map((row) => {
    const [sent, received] = histories.get(key(row)).rates;
    const number = (text) => [text, "number"];
    return [[row.local], [row.remote], [row.state + (row.recovering !== "no" ? ", repairing" : "")],
      number(short(sent == null ? null : sent * 8)), number(short(received == null ? null : received * 8)),
      number(short(row.cwnd_bytes)), number(ms(row.rtt_us)), number(short(row.in_flight)), number(short(row.retransmits))];
  }), (cell, index, column, text) => {
    if (column !== 0) return false;
    const button = cell.firstElementChild || cell.appendChild(made("button"));
    button.type = "button";
    button.dataset.key = key(shown[index]);
    say(button, text);
    button.setAttribute("aria-label", "graphs of " + text + " to " + shown[index].remote);
    cell.parentElement.setAttribute("aria-selected", String(key(shown[index]) === selected));
    return true;
  });
  one();
}

/// The graphs of the connection that is chosen.
function one() {
  const all = histories.get(selected);
  at("one").hidden = !all;
  if (!all) return;
  const row = all.last;
  say(at("one-name"), row.local + " to " + row.remote);
  say(at("one-explained"), row.explained || "");
  say(at("one-advice"), row.advice ? "What helps: " + row.advice + "." : "");
  const pacing = row.pacing_bytes_per_s ? ", paced at " + short(row.pacing_bytes_per_s * 8) + "b/s" : "";
  say(at("one-note"), row.state + ", " + row.congestion_control + ", MSS " + row.mss + pacing + ", " + row.retransmits
    + " retransmitted, " + row.timeouts + " time-outs, " + short(row.unsent) + " bytes wait to be sent, "
    + short(row.unread) + " to be read.");
  say(at("sequence-note"), all.sends
    ? "Bytes of the stream: what the peer has acknowledged, what was sent, and the end of its window; a dot where something was sent again."
    : "Bytes of the stream: what was read (acknowledged), what came (sent), and the end of our window.");
  sequence.draw(all.sequence.columns);
  windows.draw(all.windows.columns);
  roundTrip.draw(all.rtt.columns);
}

function dropped(sample, seconds) {
  const now = [...drops(sample)].sort();
  const then = before ? drops(before) : new Map();
  at("drops").hidden = now.length === 0;
  say(at("drops-note"), now.length === 0 ? "none so far"
    : "Each packet that goes no further is counted under one name.");
  fill(at("drops").tBodies[0], now.map(([name, count]) => [[name],
    [before ? short(rate(count, then.get(name) || 0, seconds)) : "-", "number"], [short(count), "number"]]));
}

/// Where the threads' time went in the last seconds, by stage in the order of the packet's way.
function budget(seen) {
  const has_stages = Boolean(seen && seen.stages && seen.samples > 0);
  at("budget").hidden = !has_stages;
  say(at("budget-note"), !seen ? "not known yet" : seen.lacks ? seen.lacks
    : "The last " + Math.max(1, Math.round(seen.seconds)) + " s: " + busy(seen));
  if (!has_stages) return;
  const percent = (share) => (share == null ? "-" : (share * 100).toFixed(1));
  const number = (share) => [percent(share), "number"];
  const rows = seen.stages;
  fill(at("budget").tBodies[0], rows.map(({ stage, share, off, kernel }) => [
    [stage], number(share), number(share ? off : null), number(share ? kernel : null), ["", "bar"],
  ]), (cell, index, column) => {
    if (column !== 4) return false;
    const bar = cell.firstElementChild || cell.appendChild(made("div"));
    bar.style.width = (rows[index].share * 100).toFixed(1) + "%";
    return true;
  });
}

/// How busy the program's threads are.
function busy(seen) {
  const ran = Math.round(seen.busiest * 100) + " % of the time";
  const threads = seen.threads === 1 ? "one thread ran " + ran
    : seen.threads + " threads used " + seen.cores.toFixed(2) + " cores, the busiest ran " + ran;
  const notes = [threads + "; " + seen.samples + " samples."];
  if (!seen.has_kernel) {
    notes.push("Without the kernel's part: sudo sysctl kernel.perf_event_paranoid=1, and start it anew.");
  }
  if (seen.is_part) notes.push("There are more threads than are sampled.");
  if (seen.lost > 0) notes.push(seen.lost + " samples had no room.");
  return notes.join(" ");
}

function ports(sample) {
  const all = sample.stacks.flatMap((stack) => stack.ports.map((port) => [stack.name, port]));
  const total = sum(sample, "port_count");
  fill(at("ports").tBodies[0], all.map(([stack, port]) => [
    [sample.stacks.length > 1 ? stack + ": " + port.name : port.name], [port.link_up ? "up" : "down"],
    [port.mitigation || "-"], [port.level == null ? "-" : String(port.level), "number"],
    [String(port.mtu), "number"],
    [port.failure || "", "long"],
  ]));
  if (total > all.length) say(at("ports-note"), "The first " + all.length + " of " + total + ".");
}

at("connections").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  selected = button.dataset.key;
  for (const row of at("connections").tBodies[0].rows) {
    row.setAttribute("aria-selected", String(row.querySelector("button").dataset.key === selected));
  }
  one();
});

function status(kind, text) {
  const element = at("status");
  element.className = kind;
  say(element, text);
  document.body.classList.toggle("lost", kind === "lost");
}

/// Take events, and begin anew a second after they ended.
function listen() {
  const events = new EventSource("events" + location.search);
  heardAt = Date.now();
  events.onmessage = (event) => {
    heardAt = Date.now();
    status("live", "live");
    take(JSON.parse(event.data));
  };
  events.onerror = () => {
    events.close();
    const again = location.search ? " (if the program was started again, use the URL it printed)" : "";
    status("lost", "connection lost, trying again" + again);
    setTimeout(listen, AGAIN_MS);
  };
}

setInterval(() => {
  const silent = Date.now() - heardAt;
  if (at("status").className === "live" && silent > SILENCE_MS) {
    status("lost", "no sample for " + Math.round(silent / 1000) + " s: is the program busy?");
  }
}, 500);
listen();
