// The live page: receives samples as server-sent events, and shows them. It makes no other
// requests, and sets text from the program only as text, never as HTML.

const MINUTE = 60;
const SEQUENCE_SECONDS = 6;
/// If no sample comes for this long, something is wrong, even if the connection is up.
const SILENCE_MS = 3000;
const AGAIN_MS = 1000;
/// Stages with a smaller share of the time are folded into one line.
const SMALL = 0.01;

const bits = (figure) => short(figure);
const throughput = new Plot("throughput", [
  { label: "in", colour: "--s1", from_zero: true, fill: true },
  { label: "out", colour: "--s2", fill: true },
], bits, MINUTE);
const sequence = new Plot("sequence", [
  { label: "window's end", colour: "--s5", paths: uPlot.paths.stepped({ align: 1 }) },
  { label: "sent", colour: "--s1" },
  { label: "acknowledged", colour: "--s3", paths: uPlot.paths.stepped({ align: 1 }) },
  { label: "sent again", colour: "--s6", paths: () => null, points: true },
], short, SEQUENCE_SECONDS);
// The bytes in flight are in both plots, because either window may limit them; each plot has an
// axis of its own.
const congestion = new Plot("cwnd", [
  { label: "in flight", colour: "--s1", from_zero: true, fill: true },
  { label: "cwnd", colour: "--s2" },
], short, MINUTE);
const windows = new Plot("windows", [
  { label: "in flight", colour: "--s1", from_zero: true, fill: true },
  { label: "window", colour: "--s5" },
], short, MINUTE);
const roundTrip = new Plot("rtt", [
  { label: "RTT", colour: "--s4", from_zero: true, fill: true },
  { label: "shortest", colour: "--s7" },
], (figure) => (figure === 0 ? "0" : ms(figure * 1000)), MINUTE);
const rates = new Plot("rate", [
  { label: "sends", colour: "--s2", from_zero: true, fill: true },
  { label: "receives", colour: "--s1", fill: true },
], bits, MINUTE);

let before = null;
let histories = new Map();
let selected = null;
let order = [];
let traffic = new History(2, MINUTE);
/// The time of day when the program's clock was 0.
let epoch = 0;
let heardAt = 0;
/// The number of ports with a problem in the last sample.
let troubles = 0;

function sum(sample, key) {
  return sample.stacks.reduce((all, stack) => all + (stack[key] || 0), 0);
}

function drops(sample) {
  const all = new Map();
  for (const stack of sample.stacks) {
    for (const [name, count] of Object.entries(stack.drops)) {
      all.set(name, (all.get(name) || 0) + count);
    }
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
  const is_same = before && before.program.pid === sample.program.pid
    && before.at_ms < sample.at_ms;
  if (!is_same || before.stacks.length !== sample.stacks.length) forget();
  if (!epoch) epoch = Date.now() - sample.at_ms;
  const time = (epoch + sample.at_ms) / 1000;
  const seconds = before ? (sample.at_ms - before.at_ms) / 1000 : 0;
  const since = (name) => (before ? rate(sum(sample, name), sum(before, name), seconds) : null);
  head(sample);
  traffic.push(time, [eight(since("rx_bytes")), eight(since("tx_bytes"))]);
  throughput.draw(traffic.columns);
  connections(sample, time, seconds);
  tiles(sample, since, seconds);
  dropped(sample, seconds);
  budget(sample.budget);
  ports(sample);
  before = sample;
  document.body.dataset.samples = Number(document.body.dataset.samples || 0) + 1;
}

/// A rate in bytes as a rate in bits.
function eight(bytes) {
  return bytes == null ? null : bytes * 8;
}

function head(sample) {
  const { command, pid, version } = sample.program;
  const stacks = sample.stacks.map((stack) => stack.name).join(", ");
  say(at("program"), command + ", process " + pid + ", version " + version + "; stacks: " + stacks);
  const { watched_by, refused, left_out } = sample.page;
  const others = watched_by === 1 ? "" : " " + watched_by + " browsers have it open.";
  const lost = refused + left_out === 0 ? ""
    : " Refused: " + refused + " connections; dropped for slow browsers: " + left_out
      + " samples.";
  say(at("about"),
    "This page changes nothing. A sample comes four times a second." + others + lost);
}

function tiles(sample, since, seconds) {
  const now = [...drops(sample).values()].reduce((all, n) => all + n, 0);
  const then = before ? [...drops(before).values()].reduce((all, n) => all + n, 0) : null;
  const chosen = histories.get(selected);
  // A receiver measures no round trip; then the round trip of another connection is shown.
  const row = chosen && chosen.last.rtt_us ? chosen.last
    : sample.connections.find((one) => one.rtt_us);
  const rtt = row ? ms(row.rtt_us) : "-";
  const all = [
    ["in", withUnit(eight(since("rx_bytes")), "b/s")],
    ["out", withUnit(eight(since("tx_bytes")), "b/s")],
    ...(sample.connection_count ? [["RTT", rtt === "-" ? rtt : rtt + " ms"]] : []),
    ["frames in", withUnit(since("rx_frames"), "/s")],
    ["frames out", withUnit(since("tx_frames"), "/s")],
    ["connections", short(sample.connection_count)],
    ["sent again", withUnit(since("retransmits"), "/s")],
    ["drops", withUnit(rate(now, then, seconds), "/s")],
    ["memory", withUnit(sum(sample, "pool_bytes"), "B")],
  ];
  if (sum(sample, "forwarded") > 0) all.push(["forwarded", withUnit(since("forwarded"), "/s")]);
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

/// The history of a connection, for its plots.
function note(row, time, seconds) {
  let all = histories.get(key(row));
  if (!all || row.bytes_acked < all.last.bytes_acked) {
    const sends = row.bytes_acked + row.in_flight >= row.bytes_received;
    all = { sends, last: null, retransmits: 0, sequence: new History(4, SEQUENCE_SECONDS),
      cwnd: new History(2, MINUTE), windows: new History(2, MINUTE), rtt: new History(2, MINUTE),
      rate: new History(2, MINUTE) };
    histories.set(key(row), all);
  }
  const last = all.last;
  all.rates = last
    ? [rate(row.bytes_acked, last.bytes_acked, seconds),
      rate(row.bytes_received, last.bytes_received, seconds)]
    : [null, null];
  const [sent, received] = all.rates;
  if (sent || received) all.sends = (sent || 0) >= (received || 0);
  const is_again = last && row.retransmits > last.retransmits;
  // For a receiver: the bytes that came in order, and the end of its window.
  all.sequence.push(time, all.sends
    ? [row.bytes_acked + row.snd_wnd, row.bytes_acked + row.in_flight, row.bytes_acked,
      is_again ? row.bytes_acked : null]
    : [row.bytes_received + row.rcv_wnd, row.bytes_received, row.bytes_received - row.unread,
      null]);
  all.rate.push(time, all.rates.map(eight));
  all.cwnd.push(time, [row.in_flight, row.cwnd_bytes]);
  all.windows.push(time, [row.in_flight, row.snd_wnd]);
  const known = (us) => (us ? us / 1000 : null);
  all.rtt.push(time, [known(row.rtt_us), known(row.min_rtt_us)]);
  all.last = row;
  all.time = time;
}

function connections(sample, time, seconds) {
  const rows = sample.connections;
  rows.forEach((row) => note(row, time, seconds));
  for (const [name, all] of histories) if (all.time < time - MINUTE) histories.delete(name);
  const busy = (row) => {
    const [sent, received] = histories.get(key(row)).rates;
    return (sent || 0) + (received || 0);
  };
  // The order changes only every two seconds, so that a row can be clicked on.
  const known = new Map(rows.map((row) => [key(row), row]));
  if (order.at !== Math.floor(time / 2) || order.length === 0) {
    order = [...known.keys()].sort((a, b) => busy(known.get(b)) - busy(known.get(a)));
    order.at = Math.floor(time / 2);
  }
  const shown = order.filter((name) => known.has(name)).map((name) => known.get(name));
  rows.forEach((row) => { if (!order.includes(key(row))) shown.push(row); });
  if (!known.has(selected) && !histories.has(selected)) {
    selected = shown.length ? key(shown[0]) : null;
  }
  const count = sample.connection_count;
  say(at("connections-note"), count === 0 ? "none now"
    : count > sample.shown_most
      ? "The " + shown.length + " busiest of " + count + " are shown; choose one for its graphs."
    : count === 1 ? "One connection." : "All " + count + "; choose one for its graphs.");
  at("connections").hidden = count === 0;
  const body = at("connections").tBodies[0];
  fill(body, shown.map((row) => {
    const [sent, received] = histories.get(key(row)).rates;
    const number = (text) => [text, "number"];
    return [[row.local], [row.remote], [row.state + (row.recovering !== "no" ? ", repairing" : "")],
      number(short(eight(sent))), number(short(eight(received))), number(ms(row.rtt_us)),
      number(short(row.cwnd_bytes)), number(short(row.in_flight)), number(short(row.retransmits))];
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

/// What limits the chosen connection, and its graphs.
function one() {
  const all = histories.get(selected);
  at("one").hidden = at("says").hidden = !all;
  if (!all) return;
  const row = all.last;
  const name = row.local + " to " + row.remote;
  say(at("says-name"), name);
  say(at("one-explained"), row.explained || "The first verdict takes some seconds");
  say(at("one-advice"), row.advice ? "What helps: " + row.advice + "." : "");
  say(at("one-name"), name);
  const paced = row.pacing_bytes_per_s;
  const pacing = paced ? ", paced at " + withUnit(paced * 8, "b/s") : "";
  say(at("one-note"), row.state + ", " + row.congestion_control + ", MSS " + row.mss + " bytes"
    + pacing + ", " + row.retransmits + " segments sent again, " + row.timeouts + " time-outs, "
    + withUnit(row.unsent, "B") + " wait to be sent, " + withUnit(row.unread, "B")
    + " to be read.");
  say(at("sequence-note"), all.sends
    ? "bytes that the peer has acknowledged, bytes sent, and the end of its window; a dot "
      + "where bytes were sent again"
    : "bytes read (acknowledged), bytes received (sent), and the end of our window");
  rates.draw(all.rate.columns);
  roundTrip.draw(all.rtt.columns);
  congestion.draw(all.cwnd.columns);
  windows.draw(all.windows.columns);
  sequence.draw(all.sequence.columns);
}

function dropped(sample, seconds) {
  const now = [...drops(sample)].sort();
  const then = before ? drops(before) : new Map();
  at("drops").hidden = now.length === 0;
  const total = now.reduce((all, [, count]) => all + count, 0);
  const names = now.map(([name]) => name);
  say(at("drops-note"), now.length === 0 ? "none so far"
    : short(total) + " so far: " + names.slice(0, 3).join(", ")
      + (names.length > 3 ? " and " + (names.length - 3) + " more" : ""));
  fill(at("drops").tBodies[0], now.map(([name, count]) => [[name],
    [before ? short(rate(count, then.get(name) || 0, seconds)) : "-", "number"],
    [short(count), "number"]]));
}

/// Where the threads' time went in the last seconds, by stage, in the order in which a packet
/// passes the stages.
function budget(seen) {
  const has_stages = Boolean(seen && seen.stages && seen.samples > 0);
  at("budget").hidden = !has_stages;
  at("budget-more").hidden = true;
  say(at("budget-note"), !seen ? "not known yet" : seen.lacks ? seen.lacks
    : "The last " + Math.max(1, Math.round(seen.seconds)) + " s: " + busy(seen));
  if (!has_stages) return;
  const percent = (share) => (share == null ? "-" : (share * 100).toFixed(1));
  const number = (share) => [percent(share), "number"];
  const rows = folded(seen.stages);
  fill(at("budget").tBodies[0], rows.map(({ stage, share, off, kernel }) => [
    [stage], number(share), number(share ? off : null), number(share ? kernel : null), ["", "bar"],
  ]), (cell, index, column) => {
    if (column !== 4) return false;
    const bar = cell.firstElementChild || cell.appendChild(made("div"));
    bar.style.width = (rows[index].share * 100).toFixed(1) + "%";
    return true;
  });
}

/// The stages without those that take almost no time, unless the reader wants to see all.
function folded(stages) {
  const small = stages.filter(({ share }) => share < SMALL);
  const more = at("budget-more");
  const is_open = more.getAttribute("aria-expanded") === "true";
  more.hidden = small.length < 2;
  if (more.hidden) return stages;
  say(more, is_open ? "hide stages below 1 %"
    : small.length + " stages below 1 %: " + small.map(({ stage }) => stage).join(", "));
  return is_open ? stages : stages.filter(({ share }) => share >= SMALL);
}

/// How busy the program's threads are.
function busy(seen) {
  const ran = Math.round(seen.busiest * 100) + " % of the time";
  const threads = seen.threads === 1 ? "one thread ran " + ran
    : seen.threads + " threads used " + seen.cores.toFixed(2) + " cores, the busiest ran " + ran;
  const notes = [threads + "; " + seen.samples + " samples."];
  if (!seen.has_kernel) {
    notes.push("Time in the kernel is missing: sudo sysctl kernel.perf_event_paranoid=1, then "
      + "restart the program.");
  }
  if (seen.is_part) notes.push("Not all threads are sampled.");
  if (seen.lost > 0) notes.push(seen.lost + " samples were lost.");
  return notes.join(" ");
}

function ports(sample) {
  const all = sample.stacks.flatMap((stack) => stack.ports.map((port) => [stack.name, port]));
  const total = sum(sample, "port_count");
  fill(at("ports").tBodies[0], all.map(([stack, port]) => [
    [sample.stacks.length > 1 ? stack + ": " + port.name : port.name],
    [port.link_up ? "up" : "down"],
    [port.mitigation || "-"], [port.level == null ? "-" : String(port.level), "number"],
    [String(port.mtu), "number"],
    [port.failure || "", "long"],
  ]));
  const trouble = all.filter(([, port]) => port.failure || !port.link_up).length;
  const up = trouble === 0 ? "up" : trouble + " of them with a problem";
  const count = total > all.length ? "the first " + all.length + " of " + total : all.length;
  say(at("ports-note"), count + ", " + up);
  // The panel is opened once for each new problem; the reader may close it.
  if (trouble > troubles) at("ports-panel").open = true;
  troubles = trouble;
}

at("budget-more").addEventListener("click", (event) => {
  const is_open = event.currentTarget.getAttribute("aria-expanded") === "true";
  event.currentTarget.setAttribute("aria-expanded", String(!is_open));
  if (before) budget(before.budget);
});

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

/// Receive events, and connect again a second after they end.
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
    const again = location.search
      ? " (if the program was started again, use the URL it printed)" : "";
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
