// Plots of the last seconds, by uPlot. Colours are the theme's variables, read again when the
// reader's system changes between light and dark.

const plots = [];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// Seconds since 1970 as the reader's time of day.
function clock(seconds) {
  return new Date(seconds * 1000).toTimeString().slice(0, 8);
}

/// A plot in the element `id`: `series` is a list of { label, colour, ... }, `value` prints a
/// figure of the y axis.
class Plot {
  constructor(id, series, value, seconds) {
    Object.assign(this, { host: at(id), series, value, seconds, data: null, plot: null });
    plots.push(this);
    new ResizeObserver(() => this.fit()).observe(this.host);
  }

  /// The legend is below, and as high as it has to be.
  size() {
    return { width: Math.max(200, this.host.clientWidth), height: this.host.classList.contains("tall") ? 300 : 200 };
  }

  fit() {
    if (this.plot) this.plot.setSize(this.size());
  }

  /// Draw with other colours.
  restyle() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    if (this.data) this.draw(this.data);
  }

  options() {
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--rule"), width: 1 },
      ticks: { stroke: colour("--rule"), width: 1 }, font: "12px ui-monospace, monospace" };
    const value = (_, figure) => (figure == null ? "-" : this.value(figure));
    return {
      ...this.size(),
      pxAlign: 0,
      cursor: { drag: { x: false, y: false } },
      scales: {
        x: { time: true, range: (_, least, most) => this.span(least, most) },
        y: { range: (_, least, most) => this.range(least, most) },
      },
      axes: [
        { ...axis, space: 90, values: (_, all) => all.map(clock) },
        { ...axis, size: 62, values: (_, all) => all.map((figure) => this.value(figure)) },
      ],
      series: [{ label: "time", value: (_, time) => (time == null ? "-" : clock(time)) }].concat(this.series.map((one) => ({
        width: 2, value, ...one, stroke: colour(one.colour),
        fill: one.fill ? colour(one.colour) + "22" : undefined,
        points: one.points ? { show: true, size: 9, width: 2, fill: colour(one.colour) } : { show: false },
      }))),
    };
  }

  /// The last seconds, however many of them have passed.
  span(least, most) {
    if (!this.data || !this.data[0].length) return [least, most];
    const end = this.data[0][this.data[0].length - 1];
    return [end - this.seconds, end];
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
    if (this.plot) this.plot.setData(data);
    else this.plot = new uPlot(this.options(), data, this.host);
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  plots.forEach((plot) => plot.restyle());
});

/// Columns of figures by time, of which those of the last seconds are kept.
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
