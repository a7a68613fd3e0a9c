// The plots of the lab's report: lines, and dots with their spread, drawn by uPlot. Hover shows
// values, a drag zooms, a double-click undoes it, a name in the legend hides its series.
'use strict';
(() => {
  const plots = JSON.parse(document.getElementById('plots').textContent);
  const PRINTED = 660;   // Pixels across a sheet of paper.
  const LANE = 14, NAME = 20, AXIS = 46, FIGURES = 58;
  const root = document.documentElement;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const palette = () => ['--s1', '--s2', '--s3', '--s4', '--s5', '--s6', '--quiet'].map(css);
  const colour = (all, index) => all[index % all.length];
  const font = (size) => `${size * devicePixelRatio}px system-ui, sans-serif`;

  const number = (value, digits = 4) => {
    if (value === null || value === undefined) return '–';
    const before = Math.abs(value) >= 1000 ? Math.ceil(Math.log10(Math.abs(value))) : 0;
    return value.toLocaleString('en', {maximumSignificantDigits: Math.max(digits, before)});
  };
  const element = (kind, name, text) => {
    const made = document.createElement(kind);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // The names of series above a plot; a click hides one.
  const legend = (names, all, toggle) => {
    const line = element('div', 'legend');
    names.forEach((name, index) => {
      const button = element('button', '', name);
      button.type = 'button';
      button.setAttribute('aria-pressed', 'true');
      const mark = element('i');
      mark.style.background = colour(all, index);
      button.prepend(mark);
      button.addEventListener('click', () => {
        const shown = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(shown));
        toggle(index, shown);
      });
      line.append(button);
    });
    return line;
  };

  // A box beside the pointer with a heading and lines of [colour, name, value].
  const tooltip = (u) => {
    const box = element('div', 'tip');
    box.hidden = true;
    u.over.append(box);
    u.over.addEventListener('mouseleave', () => { box.hidden = true; });
    return (left, top, heading, lines) => {
      box.hidden = lines.length === 0;
      if (box.hidden) return;
      box.replaceChildren(element('b', '', heading));
      for (const [tint, name, value] of lines) {
        const line = element('div');
        const mark = element('i');
        mark.style.background = tint;
        line.append(mark, element('span', '', name), element('b', '', value));
        box.append(line);
      }
      const right = left + box.offsetWidth + 14 > u.over.clientWidth;
      const x = right ? left - box.offsetWidth - 14 : left + 14;
      box.style.left = `${Math.max(0, Math.min(x, u.over.clientWidth - box.offsetWidth))}px`;
      box.style.top = `${Math.max(0, Math.min(top + 10, u.over.clientHeight - box.offsetHeight))}px`;
    };
  };

  const axis = (more) => ({
    stroke: css('--quiet'), font: font(12), labelFont: font(12), labelSize: 20,
    grid: {stroke: css('--rule'), width: 1}, ticks: {stroke: css('--rule'), width: 1, size: 4},
    values: (u, splits) => splits.map((value) => value === null ? '' : number(value)), ...more,
  });
  const upTo = (most) => (u, low, high) =>
    low !== null && u.zoomed ? [low, high] : [0, most > 0 ? most : 1];
  const cursor = (more) => ({
    y: false, drag: {x: true, y: false, dist: 4}, points: {show: false}, ...more,
  });

  // The value of a series at the index, or at the nearest one that it has.
  const near = (u, column, index) => {
    for (let off = 0; off < column.length; off++) {
      for (const at of [index - off, index + off]) {
        if (at < 0 || at >= column.length || column[at] === null || column[at] === undefined) continue;
        const apart = u.valToPos(u.data[0][at], 'x') - u.valToPos(u.data[0][index], 'x');
        return Math.abs(apart) <= 40 ? [u.data[0][at], column[at]] : null;
      }
    }
    return null;
  };

  const strip = (plot, one, most, place, width, all, key) => {
    const full = one.series.filter((series) => series.x.length > 0);
    if (full.length === 0) return null;
    const data = uPlot.join(full.map((series) => [series.x, series.y]));
    const points = full.some((series) => series.x.length < 60);
    let tip;
    const u = new uPlot({
      width, height: 230, pxAlign: false, legend: {show: false},
      cursor: cursor({sync: {key: plot.name}}),
      scales: {x: {time: false}, y: {range: upTo(most * 1.04)}},
      axes: [axis({label: plot.across, size: 30, space: 70}), axis({label: plot.up, size: 56})],
      series: [{}, ...full.map((series) => ({
        label: series.name, stroke: colour(all, one.series.indexOf(series)), width: 1.6,
        spanGaps: true, points: {show: points, size: 4},
      }))],
      hooks: {setCursor: [(u) => {
        const {idx, left, top} = u.cursor;
        if (!tip) return;
        if (idx === null || idx === undefined || left < 0) return tip(0, 0, '', []);
        const lines = full.flatMap((series, index) => {
          const found = u.series[index + 1].show ? near(u, u.data[index + 1], idx) : null;
          if (!found) return [];
          const tint = colour(all, one.series.indexOf(series));
          return [[tint, series.name, number(found[1])]];
        });
        tip(left, top, `${number(u.data[0][idx])} ${plot.across}`, lines);
      }]},
    }, data, place);
    tip = tooltip(u);
    const toggle = (index, shown) => {
      const at = full.indexOf(one.series[index]);
      if (at >= 0) u.setSeries(at + 1, {show: shown});
    };
    return {u, toggle, ...key};
  };

  const drawLines = (plot, place, width, all) => {
    const highest = plot.strips.flatMap((one) => one.series).flatMap((series) => series.y);
    const most = highest.reduce((most, y) => Math.max(most, y), 0);
    return plot.strips.map((one) => {
      const part = element('div', 'part');
      part.append(element('h3', '', one.title));
      let drawn = null;
      const names = one.series.map((series) => series.x.length ? series.name : `${series.name}: not run`);
      part.append(legend(names, all, (index, shown) => drawn && drawn.toggle(index, shown)));
      place.append(part);
      drawn = strip(plot, one, most, part, width, all, {part});
      return drawn;
    });
  };

  // Dots: rows below each other, in each a lane for each series. The place of a lane is uPlot's x,
  // which runs from top to bottom; values run to the right.
  const panel = (plot, one, most, place, width, all) => {
    const lanes = plot.series.length;
    const high = NAME + lanes * LANE + 6;
    const at = (row, series) => row + (NAME + (series + 0.5) * LANE) / high;
    const points = one.points.map(([row, series, low, mid, top, quoted]) =>
      ({row, series, low, mid, top, quoted, x: at(row, series)})).sort((a, b) => a.x - b.x);
    const shown = plot.series.map(() => true);
    const data = [points.map((p) => p.x), points.map((p) => p.mid)];
    let tip;
    const u = new uPlot({
      width, height: one.rows.length * high + AXIS, pxAlign: false, legend: {show: false},
      padding: [4, FIGURES, 0, 4], cursor: cursor({drag: {x: false, y: true, dist: 4}}),
      scales: {
        x: {time: false, ori: 1, dir: -1, range: () => [0, one.rows.length]},
        y: {ori: 0, dir: 1, range: upTo(most * 1.02)},
      },
      axes: [
        {show: false, side: 3},
        axis({scale: 'y', side: 2, label: plot.axis, size: 26, space: 70}),
      ],
      series: [{}, {label: plot.axis, paths: () => null, points: {show: false}}],
      hooks: {
        drawClear: [(u) => bands(u, one.rows, high)],
        draw: [(u) => points.forEach((p) => shown[p.series] && dot(u, p, colour(all, p.series)))],
        setCursor: [(u) => {
          const {left, top} = u.cursor;
          if (!tip) return;
          const place = points.filter((p) => shown[p.series] && p.mid !== null)
            .map((p) => [Math.abs(u.valToPos(p.x, 'x') - top), p]);
          const nearest = place.reduce((a, b) => a && a[0] <= b[0] ? a : b, null);
          if (left < 0 || !nearest || nearest[0] > LANE) return tip(0, 0, '', []);
          const p = nearest[1];
          const lines = [[colour(all, p.series), plot.series[p.series], number(p.mid)]];
          if (p.low !== p.top) lines.push(['transparent', 'from, to', `${number(p.low)}, ${number(p.top)}`]);
          if (p.quoted !== null) lines.push([css('--ink'), plot.quoted, number(p.quoted)]);
          tip(left, top, one.rows[p.row], lines);
        }],
      },
    }, data, place);
    tip = tooltip(u);
    return {u, part: place, toggle: (index, is) => { shown[index] = is; u.redraw(false); }};
  };

  // A band behind every other row, and the name of each.
  const bands = (u, rows, high) => {
    const {ctx, bbox} = u, ratio = devicePixelRatio;
    ctx.save();
    rows.forEach((name, row) => {
      const top = u.valToPos(row, 'x', true);
      if (row % 2 === 0) {
        ctx.fillStyle = css('--page');
        ctx.fillRect(bbox.left, top, bbox.width + FIGURES * ratio, high * ratio);
      }
      ctx.fillStyle = css('--ink');
      ctx.font = font(13);
      ctx.textAlign = 'left';
      ctx.textBaseline = 'middle';
      ctx.fillText(name, bbox.left + 4 * ratio, top + (NAME / 2 + 1) * ratio);
    });
    ctx.restore();
  };

  // A value with its spread, and the figure at the right.
  const dot = (u, p, tint) => {
    const {ctx, bbox} = u, ratio = devicePixelRatio;
    const y = u.valToPos(p.x, 'x', true), x = (value) => u.valToPos(value, 'y', true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left - 6 * ratio, bbox.top, bbox.width + (FIGURES + 6) * ratio, bbox.height);
    ctx.clip();
    ctx.font = font(11);
    ctx.textAlign = 'right';
    ctx.textBaseline = 'middle';
    ctx.fillStyle = p.mid === null ? css('--quiet') : css('--ink');
    const figure = p.mid === null ? 'not run' : number(p.mid, 3);
    ctx.fillText(figure, bbox.left + bbox.width + (FIGURES - 2) * ratio, y);
    ctx.beginPath();
    ctx.rect(bbox.left - 6 * ratio, bbox.top, bbox.width + 8 * ratio, bbox.height);
    ctx.clip();
    ctx.strokeStyle = ctx.fillStyle = tint;
    if (p.mid !== null) {
      const line = (from, to, wide, opacity) => {
        ctx.globalAlpha = opacity;
        ctx.lineWidth = wide * ratio;
        ctx.beginPath();
        ctx.moveTo(x(from), y);
        ctx.lineTo(x(to), y);
        ctx.stroke();
      };
      line(0, p.mid, 1, 0.45);
      line(p.low, p.top, 5, 0.4);
      ctx.globalAlpha = 1;
      ctx.beginPath();
      ctx.arc(x(p.mid), y, 4.5 * ratio, 0, 2 * Math.PI);
      ctx.fill();
    }
    if (p.quoted !== null) {
      const at = x(p.quoted), r = 5 * ratio;
      ctx.globalAlpha = 1;
      ctx.strokeStyle = css('--ink');
      ctx.lineWidth = 1.5 * ratio;
      ctx.beginPath();
      ctx.moveTo(at - r, y); ctx.lineTo(at, y - r); ctx.lineTo(at + r, y); ctx.lineTo(at, y + r);
      ctx.closePath();
      ctx.stroke();
    }
    ctx.restore();
  };

  const drawDots = (plot, place, width, all) => {
    const values = plot.panels.flatMap((one) => one.points)
      .flatMap(([, , , , high, quoted]) => [high, quoted]).filter((value) => value !== null);
    const most = values.reduce((most, value) => Math.max(most, value), 0);
    const drawn = [];
    const names = legend(plot.series, all, (index, shown) =>
      drawn.forEach((one) => one.toggle(index, shown)));
    if (plot.panels.some((one) => one.points.some((point) => point[5] !== null))) {
      names.append(element('span', 'quoted', `◇ ${plot.quoted}`));
    }
    place.append(names);
    const columns = Math.min(plot.panels.length, Math.max(1, Math.floor(width / 330)));
    const grid = element('div', 'grid');
    grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    place.append(grid);
    const each = Math.floor((width - (columns - 1) * 16) / columns);
    for (const one of plot.panels) {
      const part = element('div', 'part');
      if (one.title) part.append(element('h3', '', one.title));
      grid.append(part);
      drawn.push(panel(plot, one, most, part, each, all));
    }
    return drawn;
  };

  let charts = [];
  let drawnAt = 0;
  const draw = (printed) => {
    charts.forEach(({u}) => u.destroy());
    charts = [];
    const all = palette();
    for (const plot of plots) {
      const place = document.getElementById(`plot-${plot.name}`);
      place.replaceChildren();
      const width = printed || place.clientWidth;
      const how = plot.kind === 'dots' ? drawDots : drawLines;
      charts.push(...how(plot, place, width, all).filter((chart) => chart !== null));
    }
    for (const {u} of charts) {
      u.over.addEventListener('mousedown', () => { u.zoomed = true; }, true);
      u.over.addEventListener('dblclick', () => { u.zoomed = false; draw(); });
    }
    drawnAt = innerWidth;
  };

  draw();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => draw());
  addEventListener('resize', () => { if (innerWidth !== drawnAt) draw(); });
  addEventListener('beforeprint', () => { root.classList.add('printed'); draw(PRINTED); });
  addEventListener('afterprint', () => { root.classList.remove('printed'); draw(); });
})();
