// Draws the page's plots: throughput, time and sequence, round trips. Lines are uPlot's; segments
// and SACK blocks are bars over them. All plots have one time axis: a drag over one zooms all.

const data = JSON.parse(document.getElementById("data").textContent);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// How a segment or SACK block is drawn; Rust gives the index of the first four.
const kinds = [["segment", "--s1"], ["sent again", "--s6"], ["sent again, spurious", "--s8"],
  ["out of order", "--s2"], ["SACK", "--s7"]];
const SACK = 4;
const plots = [];
// The same room at both sides in all plots, so that times are below each other.
const LEFT = 62, RIGHT = 130, NARROW = 560;
const whole = [0, data.seconds > 0 ? data.seconds : 1];
let range = whole;

const axis = extra => ({
  stroke: () => colour("--quiet"), font: "12px system-ui, sans-serif",
  grid: { stroke: () => colour("--rule"), width: 1 },
  ticks: { stroke: () => colour("--rule"), width: 1 },
  ...extra,
});
// As many digits as the distance of the grid's lines has.
const seconds = (_, all, axis, space, step) => {
  let digits = 0;
  const rest = () => Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits));
  while (digits < 9 && rest() > 1e-6 * step * 10 ** digits) digits++;
  return all.map((v, at) => v == null ? "" : v.toFixed(digits) + (at ? "" : " s"));
};
const short = value => {
  const size = Math.abs(value);
  if (size >= 1e9) return +(value / 1e9).toFixed(3) + " G";
  if (size >= 1e6) return +(value / 1e6).toFixed(3) + " M";
  if (size >= 1e4) return +(value / 1e3).toFixed(1) + " k";
  return String(+value.toPrecision(4));
};
// The axes of a plot; labels of the vertical one are at least so many pixels apart.
const axes = space => [axis({ values: seconds, size: 30 }),
  axis({ values: (_, all) => all.map(short), size: LEFT, space })];
const made = (kind, name, text) => {
  const element = document.createElement(kind);
  element.className = name;
  element.textContent = text;
  return element;
};
const named = (text, tint) => {
  const name = made("span", "name", text);
  name.style.setProperty("--own", `var(${tint})`);
  return name;
};

// The first index whose time is not before t.
function from(rows, t) {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle][0] < t) low = middle + 1; else high = middle;
  }
  return low;
}

// Show a part of the time in all plots; those out of sight follow when they come into it.
function show(part) {
  range = part;
  for (const plot of plots) plot.seen ? follow(plot) : plot.behind = true;
  document.getElementById("all").hidden = range === whole;
}
function follow(plot) {
  plot.behind = false;
  const { min, max } = plot.scales.x;
  if (min !== range[0] || max !== range[1]) plot.setScale("x", { min: range[0], max: range[1] });
}
const watch = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    const plot = target.plot;
    plot.seen = isIntersecting;
    if (isIntersecting && plot.behind) follow(plot);
  }
});

// A plot with the names of its series beside their lines, and above them on a phone.
function add(element, names, options, series) {
  const width = () => Math.max(element.clientWidth - 2, 200);
  const row = made("p", "names", "");
  const labels = names.map(([text, tint]) => named(text, tint));
  row.append(...labels);
  element.before(row);
  const place = plot => {
    const beside = width() >= NARROW;
    labels.forEach(label => label.classList.toggle("beside", beside));
    (beside ? plot.over.parentNode : row).append(...labels);
    if (beside) putBeside(plot, labels);
  };
  const plot = new uPlot({
    width: width(),
    legend: { show: false },
    padding: [10, () => width() >= NARROW ? RIGHT : 14, 0, 0],
    ...options,
    cursor: { drag: { x: true, y: false, setScale: false }, y: false,
      sync: { key: element.dataset.of, scales: ["x", null] },
      bind: { dblclick: () => () => show(whole) } },
    scales: {
      x: { time: false, range: (_, low, high) => low === high ? range : [low, high] },
      ...options.scales,
    },
    hooks: {
      ...options.hooks,
      draw: [place, ...(options.hooks?.draw ?? [])],
      setSelect: [plot => {
        const { left, width } = plot.select;
        if (width < 4) return;
        const part = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        show(part);
      }],
    },
  }, series, element);
  plot.setScale("x", { min: range[0], max: range[1] });
  plots.push(plot);
  element.plot = plot;
  watch.observe(element);
  new ResizeObserver(() => {
    if (width() !== plot.width) plot.setSize({ width: width(), height: options.height });
  }).observe(element);
}

// Bits a second of intervals of equal length; the last one may have ended early.
function throughput(element, { sent, acked }) {
  const columns = [sent, acked].filter(bins => bins);
  if (!columns.length) { element.remove(); return; }
  const table = columns.map(({ start, width, bytes }) => {
    const times = [start, ...bytes.map((_, at) => start + (at + 1) * width)];
    const rates = bytes.map((b, at) => {
      const left = at + 1 < bytes.length ? width : whole[1] - start - at * width;
      return b * 8 / Math.max(Math.min(width, left), width / 2);
    });
    return [times, [rates[0], ...rates]];
  });
  const stepped = uPlot.paths.stepped({ align: -1 });
  const series = tint => ({ stroke: () => colour(tint), width: 1.5, paths: stepped,
    spanGaps: true, points: { show: false } });
  add(element, [["sent", "--s1"], ["acknowledged", "--s3"]].slice(0, columns.length), {
    height: 150,
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    series: [{}, series("--s1"), series("--s3")].slice(0, columns.length + 1),
    axes: axes(24),
  }, uPlot.join(table));
}

function sequence(element, said, graph) {
  const segments = graph.segments.slice().sort((a, b) => a[0] - b[0]);
  const { acks, sacks } = graph;
  const spoken = said.textContent;
  // The lines need a time for each point; without ACKs they are empty.
  const lines = acks.length ? acks : segments.map(s => [s[0], null, null]);
  const seen = new Set(segments.map(s => s[3]));
  if (sacks.length) seen.add(SACK);
  const key = made("p", "key", "");
  key.append(...[...seen].sort().map(kind => named(...kinds[kind])));
  element.before(key);
  // What is in view; of the window no more than a third of the data's height is above it.
  const tall = () => {
    const [min, max] = range;
    let low = Infinity, high = -Infinity, edge = -Infinity;
    for (const rows of [segments, sacks, acks]) {
      for (let i = from(rows, min * 1e6); i < rows.length && rows[i][0] <= max * 1e6; i++) {
        low = Math.min(low, rows[i][1]);
        high = Math.max(high, rows === acks ? rows[i][1] : rows[i][2]);
        if (rows === acks) edge = Math.max(edge, rows[i][2]);
      }
    }
    if (!(low < high)) return low === high ? [low - 1, high + 1] : [0, 1];
    const room = (high - low) * 0.04;
    const above = Math.min(edge, high + (high - low) / 3);
    return [Math.max(low - room, 0), Math.max(high + room, above)];
  };
  const bar = (plot, t, start, end, ink, wide) => {
    const x = Math.round(plot.valToPos(t / 1e6, "x", true));
    const top = plot.valToPos(end, "y", true), bottom = plot.valToPos(start, "y", true);
    plot.ctx.fillStyle = ink;
    plot.ctx.fillRect(x - wide, top, 2 * wide, Math.max(bottom - top, 2 * devicePixelRatio));
  };
  const line = tint => ({ stroke: () => colour(tint), paths: uPlot.paths.stepped({ align: 1 }),
    points: { show: false } });
  add(element, [["ACK", "--s3"], ["window", "--s5"]], {
    height: 400,
    scales: { y: { range: tall } },
    series: [{}, line("--s3"), line("--s5")],
    axes: axes(30),
    hooks: {
      draw: [plot => {
        const { ctx, bbox } = plot, { min, max } = plot.scales.x;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        const inks = kinds.map(([, tint]) => colour(tint));
        const each = (rows, draw) => {
          for (let i = from(rows, min * 1e6); i < rows.length && rows[i][0] <= max * 1e6; i++) {
            draw(rows[i]);
          }
        };
        const thin = devicePixelRatio;
        each(sacks, ([t, start, end]) => bar(plot, t, start, end, inks[SACK], thin));
        // What was sent again is drawn last, and wider.
        for (const is_again of [false, true]) {
          each(segments, ([t, start, end, kind]) => {
            if ((kind > 0) !== is_again) return;
            bar(plot, t, start, end, inks[kind], is_again ? 2 * thin : thin);
          });
        }
        ctx.restore();
      }],
      setCursor: [plot => {
        if (plot.cursor.left < 0 || plot.cursor.event == null) {
          said.textContent = spoken;
          return;
        }
        const t = plot.posToVal(plot.cursor.left, "x") * 1e6;
        const y = plot.posToVal(plot.cursor.top, "y");
        const each = (plot.scales.x.max - plot.scales.x.min) * 1e6 / plot.width;
        const tall = (plot.scales.y.max - plot.scales.y.min) / plot.height;
        let best = null, nearest = 15;
        for (let i = from(segments, t - 15 * each); i < segments.length; i++) {
          const [time, start, end] = segments[i];
          if (time > t + 15 * each) break;
          const high = y < start ? start - y : y > end ? y - end : 0;
          const far = Math.hypot((time - t) / each, high / tall);
          if (far < nearest) { nearest = far; best = segments[i]; }
        }
        const told = ([t, start, end, kind]) =>
          `${(t / 1e6).toFixed(6)} s: ${kinds[kind][0]}, bytes ${start} to ${end}`;
        said.textContent = best ? told(best) : spoken;
      }],
    },
  }, [lines.map(row => row[0] / 1e6), lines.map(row => row[1]), lines.map(row => row[2])]);
}

function roundTrips(element, graph) {
  if (!graph.rtt.length) { element.remove(); return; }
  add(element, [["round trip", "--s4"]], {
    height: 150,
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
    series: [
      {},
      { stroke: () => colour("--s4"), paths: () => null,
        points: { show: true, size: 4, fill: () => colour("--s4") } },
    ],
    axes: axes(24),
  }, [graph.rtt.map(row => row[0] / 1e6), graph.rtt.map(row => row[1] / 1e6)]);
}

function draw({ id, graph }) {
  const at = name => document.getElementById(`${name}-${id}`);
  throughput(at("rate"), graph);
  sequence(at("sequence"), at("said"), graph);
  roundTrips(at("rtt"), graph);
}
for (const one of data.graphs) {
  // Plots of a few segments are folded, and drawn when they are opened.
  const folded = document.getElementById(`sequence-${one.id}`).closest("details");
  if (folded) folded.addEventListener("toggle", () => draw(one), { once: true });
  else draw(one);
}
for (const button of document.querySelectorAll("button.only")) {
  const { from, to } = button.dataset;
  button.addEventListener("click", () => show([Number(from), Number(to)]));
}
document.getElementById("all").addEventListener("click", () => show(whole));
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", () => plots.forEach(plot => plot.redraw(false)));
}
addEventListener("beforeprint", () => plots.forEach(follow));
