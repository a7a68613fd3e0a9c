// Draws the graphs of the page: lines by uPlot, segments and SACK blocks as bars over them.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const kinds = ["--s1", "--s6", "--s4", "--s2"];
const names = ["segment", "sent again", "sent again, spurious", "out of order"];
const plots = [];

const axis = extra => ({
  stroke: () => colour("--quiet"),
  grid: { stroke: () => colour("--rule"), width: 1 },
  ticks: { stroke: () => colour("--rule"), width: 1 },
  ...extra,
});
// As many digits as the distance of the grid's lines has.
const seconds = (_, all, axis, space, step) => {
  let digits = 0;
  const rest = () => Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits));
  while (digits < 9 && rest() > 1e-6 * step * 10 ** digits) digits++;
  return all.map(v => v == null ? "" : v.toFixed(digits));
};
const short = value => {
  const size = Math.abs(value);
  if (size >= 1e9) return +(value / 1e9).toFixed(3) + " G";
  if (size >= 1e6) return +(value / 1e6).toFixed(3) + " M";
  if (size >= 1e4) return +(value / 1e3).toFixed(1) + " k";
  return String(value);
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

// The last time of a direction, in seconds: its graphs have the same axis.
const end = ({ segments, acks, sacks, rtt }) =>
  [segments, acks, sacks, rtt].flat().reduce((most, row) => Math.max(most, row[0]), 1) / 1e6;

// All of it, unless a part is chosen by dragging.
const first = last => (plot, low, high) =>
  low === plot.data[0][0] && high === plot.data[0].at(-1) || low === high ? [0, last] : [low, high];

function add(element, options, series) {
  const plot = new uPlot({ width: Math.max(element.clientWidth - 2, 200), ...options }, series, element);
  plots.push(plot);
  new ResizeObserver(() => {
    const width = Math.max(element.clientWidth - 2, 200);
    if (width !== plot.width) plot.setSize({ width, height: options.height });
  }).observe(element);
}

function sequence(element, said, graph) {
  const segments = graph.segments.slice().sort((a, b) => a[0] - b[0]);
  const { acks, sacks } = graph;
  const spoken = said.textContent;
  // The lines need a time for each point; without ACKs they are empty.
  const lines = acks.length ? acks : segments.map(s => [s[0], null, null]);
  const ends = [...segments, ...acks, ...sacks];
  const last = end(graph);
  let low = Infinity, high = -Infinity;
  for (const [, start, end] of ends) {
    low = Math.min(low, start);
    high = Math.max(high, end);
  }
  const whole = low < high ? [Math.max(low, 0), high] : [0, 1];
  const bar = (plot, t, start, end, name, cap) => {
    const x = Math.round(plot.valToPos(t / 1e6, "x", true));
    const top = plot.valToPos(end, "y", true), bottom = plot.valToPos(start, "y", true);
    const { left, width } = plot.bbox;
    if (x < left || x > left + width) return;
    const ctx = plot.ctx, wide = (cap ? 2 : 1) * devicePixelRatio;
    ctx.fillStyle = name;
    ctx.fillRect(x - wide, top, 2 * wide, Math.max(bottom - top, 2 * devicePixelRatio));
  };
  add(element, {
    height: 420,
    scales: { x: { time: false, range: first(last) },
              y: { range: () => whole } },
    cursor: { drag: { x: true, y: true, uni: 20 } },
    series: [
      { label: "s", value: (_, v) => v == null ? "–" : v.toFixed(6) },
      { label: "ACK", stroke: () => colour("--s3"), paths: uPlot.paths.stepped({ align: 1 }),
        points: { show: false }, value: (_, v) => v == null ? "–" : String(v) },
      { label: "window", stroke: () => colour("--quiet"), paths: uPlot.paths.stepped({ align: 1 }),
        points: { show: false }, value: (_, v) => v == null ? "–" : String(v) },
    ],
    axes: [axis({ label: "seconds", values: seconds, labelGap: 0, size: 40, labelSize: 20 }),
           axis({ values: (_, all) => all.map(short), size: 70 })],
    hooks: {
      draw: [plot => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        const yellow = colour("--s5"), inks = kinds.map(colour);
        for (const [t, start, end] of sacks) bar(plot, t, start, end, yellow, false);
        for (const [t, start, end, kind] of segments) if (!kind) bar(plot, t, start, end, inks[0], false);
        for (const [t, start, end, kind] of segments) if (kind) bar(plot, t, start, end, inks[kind], true);
        ctx.restore();
      }],
      setCursor: [plot => {
        if (plot.cursor.left < 0) { said.textContent = spoken; return; }
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
        said.textContent = best
          ? `${(best[0] / 1e6).toFixed(6)} s: ${names[best[3]]}, bytes ${best[1]} to ${best[2]}` : spoken;
      }],
    },
  }, [lines.map(row => row[0] / 1e6), lines.map(row => row[1]), lines.map(row => row[2])]);
}

function roundTrips(element, graph) {
  if (!graph.rtt.length) { element.remove(); return; }
  const last = end(graph);
  add(element, {
    height: 160,
    scales: { x: { time: false, range: first(last) },
              y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
    series: [
      { label: "s", value: (_, v) => v == null ? "–" : v.toFixed(6) },
      { label: "round trip, ms", stroke: () => colour("--s1"), paths: () => null,
        points: { show: true, size: 4, fill: () => colour("--s1") },
        value: (_, v) => v == null ? "–" : v.toFixed(3) },
    ],
    axes: [axis({ values: seconds }), axis({ values: (_, all) => all.map(v => v + " ms"), size: 70 })],
  }, [graph.rtt.map(row => row[0] / 1e6), graph.rtt.map(row => row[1] / 1e6)]);
}

for (const { id, graph } of data.graphs) {
  sequence(document.getElementById("sequence-" + id), document.getElementById("said-" + id), graph);
  roundTrips(document.getElementById("rtt-" + id), graph);
}
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", () => plots.forEach(plot => plot.redraw(false)));
}
