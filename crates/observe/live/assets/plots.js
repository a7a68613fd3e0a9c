// Plots of the last seconds, by uPlot. Colours come from the theme's variables, which are read
// again when the reader's system changes between light and dark.

const plots = [];
/// From this width on, names are beside lines.
const WIDE_PX = 420;
const NAMES_PX = 160;
/// The length of the time axis at first, before there are more samples.
const LEAST_SECONDS = 10;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// Seconds since 1970 as time of day in the reader's time zone.
function clock(seconds) {
  return new Date(seconds * 1000).toTimeString().slice(0, 8);
}

/// A plot in the element `id`: `series` is a list of { label, colour, ... }, `value` prints a
/// figure.
class Plot {
  constructor(id, series, value, seconds) {
    Object.assign(this, { host: at(id), series, value, seconds, data: null, plot: null });
    this.row = made("div", null, "names");
    this.names = series.map((one) => {
      const name = made("span", one.label + " ", "name");
      name.style.setProperty("--own", "var(" + one.colour + ")");
      name.append(made("b", ""));
      return name;
    });
    this.host.before(this.row);
    plots.push(this);
    new ResizeObserver(() => this.fit()).observe(this.host);
  }

  size() {
    const is_tall = this.host.classList.contains("tall");
    return { width: Math.max(200, this.host.clientWidth), height: is_tall ? 300 : 200 };
  }

  isWide() {
    return this.host.clientWidth >= WIDE_PX;
  }

  /// Move the names to the other place if the width requires it.
  fit() {
    // A hidden plot has no width. It is drawn when it has a width again.
    if (this.host.clientWidth === 0 || !this.data) return;
    if (!this.plot || this.wide !== this.isWide()) this.restyle();
    else this.plot.setSize(this.size());
  }

  /// Draw again, with other colours or with names at another place.
  restyle() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    if (this.data) this.draw(this.data);
  }

  options() {
    this.wide = this.isWide();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--rule"), width: 1 },
      ticks: { stroke: colour("--rule"), width: 1 }, font: "12px system-ui, sans-serif" };
    return {
      ...this.size(),
      pxAlign: 0,
      legend: { show: false },
      padding: [8, this.wide ? NAMES_PX : 30, 0, 0],
      cursor: { drag: { x: false, y: false }, y: false },
      scales: {
        x: { time: true, range: (_, least, most) => this.span(least, most) },
        y: { range: (_, least, most) => this.range(least, most) },
      },
      axes: [
        { ...axis, size: 30, space: 90, values: (_, all) => all.map(clock) },
        { ...axis, size: 56, values: (_, all) => all.map((figure) => round(this.value(figure))) },
      ],
      series: [{}].concat(this.series.map((one) => ({
        width: 2, ...one, stroke: colour(one.colour),
        fill: one.fill ? colour(one.colour) + "22" : undefined,
        points: { show: Boolean(one.points), size: 9, width: 2, fill: colour(one.colour) },
      }))),
      hooks: {
        draw: [(u) => this.say(u)],
        setCursor: [(u) => this.say(u)],
      },
    };
  }

  /// Each name with the value at the pointer, or else with the last value. Names without a value
  /// are left out.
  say(u) {
    const at = u.cursor.left >= 0 ? u.cursor.idx : null;
    this.names.forEach((name, index) => {
      const column = u.data[index + 1] || [];
      const last = column.findLast((figure) => figure != null);
      const figure = at == null ? last : column[at];
      name.hidden = last == null;
      // For points, only their position has a meaning.
      const text = figure == null ? "-" : this.value(figure);
      say(name.lastChild, this.series[index].points ? "" : text);
    });
    if (this.wide) putBeside(u, this.names);
  }

  /// The range of the time axis: the last seconds, or as many as have passed.
  span(least, most) {
    const times = this.data && this.data[0];
    if (!times || !times.length) return [least, most];
    const end = times[times.length - 1];
    return [Math.max(end - this.seconds, Math.min(times[0], end - LEAST_SECONDS)), end];
  }

  range(least, most) {
    if (least == null || most == null) return [0, 1];
    if (this.series[0].from_zero) return [0, Math.max(most * 1.1, 1e-3)];
    const room = Math.max((most - least) * 0.05, 1);
    return [least - room, most + room];
  }

  draw(data) {
    this.data = data;
    if (this.host.clientWidth === 0) return;
    if (this.plot) {
      this.plot.setData(data);
      return;
    }
    const options = this.options();
    this.names.forEach((name) => name.classList.toggle("beside", this.wide));
    if (!this.wide) this.row.append(...this.names);
    this.plot = new uPlot(options, data, (u, start) => {
      this.host.append(u.root);
      if (this.wide) u.root.querySelector(".u-wrap").append(...this.names);
      start();
    });
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  plots.forEach((plot) => plot.restyle());
});

/// Columns of figures by time. Only the last seconds are kept.
class History {
  constructor(columns, seconds) {
    this.seconds = seconds;
    this.columns = Array.from({ length: columns + 1 }, () => []);
  }

  push(time, figures) {
    const all = this.columns;
    all[0].push(time);
    figures.forEach((figure, index) => all[index + 1].push(figure));
    let old = 0;
    while (all[0][old] < time - this.seconds - 1) old += 1;
    if (old > 0) all.forEach((column) => column.splice(0, old));
  }
}
