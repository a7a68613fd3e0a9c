// Dots with their spread: panels with rows, and in each row a lane for each series. The position of
// a lane is uPlot's x, which runs from top to bottom in pixels; values run to the right. The name
// of a lane and its figure are at its right end. In a single panel, a row has no lanes for series
// that it lacks; panels side by side have their rows at the same height.

const LANE = 14, NAME = 20, AXIS = 46, FIGURES = 58;
// With less room than this, a panel has no names at its lanes; the legend above shows them.
const ROOM = 300;

const widest = (names, size = 11) => {
  const {ctx} = widest;
  ctx.font = `${size}px system-ui, sans-serif`;
  return Math.ceil(Math.max(...names.map((name) => ctx.measureText(name).width)));
};
widest.ctx = document.createElement('canvas').getContext('2d');

// The beginning and the end of the axis: at 0 or beyond the farthest value. A bar is cut if it is
// much longer than the range of the values.
const reach = (plot) => {
  const all = plot.panels.flatMap((one) => one.points);
  const of = (pick) => all.map((point) => pick(...point.slice(2).map((value) => value ?? 0)));
  const values = [0, ...of((low, mid, top, quoted) => Math.min(mid, quoted)),
    ...of((low, mid, top, quoted) => Math.max(mid, quoted))];
  const least = Math.min(...values), most = Math.max(...values);
  const room = (most - least || 1) * 0.6;
  const low = Math.max(Math.min(least, ...of((low) => low)), least - room);
  const high = Math.min(Math.max(most, ...of((low, mid, top) => top)), most + room);
  const edge = (high - low || 1) * 0.02;
  return [low < 0 ? low - edge : 0, high + edge];
};

// The beginning and the end of each row, and the middle of each point's lane.
const laid = (plot, one) => {
  const points = one.points.map(([row, series, low, mid, top, quoted]) =>
    ({row, series, low, mid, top, quoted})).sort((a, b) => a.row - b.row || a.series - b.series);
  let total = 0;
  const rows = one.rows.map((name, row) => {
    const own = points.filter((p) => p.row === row).map((p) => p.series);
    const lanes = plot.panels.length > 1 ? [...plot.series.keys()] : [...new Set(own)];
    const top = total;
    total += NAME + Math.max(lanes.length, 1) * LANE + 6;
    for (const p of points.filter((p) => p.row === row)) {
      p.x = top + NAME + (lanes.indexOf(p.series) + 0.5) * LANE;
    }
    return {name, top, high: total - top};
  });
  return {points, rows, total};
};

const panel = (plot, one, whole, place, width, beside) => {
  const right = FIGURES + (beside ? widest(plot.series) + 10 : 0);
  const {points, rows, total} = laid(plot, one);
  const shown = plot.series.map(() => true);
  const data = [points.map((p) => p.x), points.map((p) => p.mid)];
  let tip;
  const u = new uPlot({
    width, height: total + AXIS, pxAlign: false, legend: {show: false},
    padding: [4, right, 0, 4], cursor: cursor({drag: {x: false, y: true, dist: 4}}),
    scales: {
      x: {time: false, ori: 1, dir: -1, range: () => [0, total]},
      y: {ori: 0, dir: 1, range: within(...whole)},
    },
    axes: [
      {show: false, side: 3},
      axis('', {scale: 'y', side: 2, label: plot.axis, size: 26, space: 70}),
    ],
    series: [{}, {label: plot.axis, paths: () => null, points: {show: false}}],
    hooks: {
      drawClear: [(u) => bands(u, rows, right)],
      draw: [(u) => points.forEach((p) => {
        if (beside) laneName(u, p, plot, right, shown[p.series]);
        if (shown[p.series]) dot(u, p, plot.tints[p.series], beside ? FIGURES : right);
      })],
      setCursor: [(u) => {
        const {left, top} = u.cursor;
        if (!tip) return;
        const place = points.filter((p) => shown[p.series] && p.mid !== null)
          .map((p) => [Math.abs(u.valToPos(p.x, 'x') - top), p]);
        const nearest = place.reduce((a, b) => a && a[0] <= b[0] ? a : b, null);
        if (left < 0 || !nearest || nearest[0] > LANE) return tip(0, 0, '', []);
        const p = nearest[1];
        const lines = [[plot.tints[p.series], plot.series[p.series], number(p.mid)]];
        if (p.low !== p.top) lines.push([null, 'from, to', `${number(p.low)}, ${number(p.top)}`]);
        if (p.quoted !== null) lines.push([null, plot.quoted, number(p.quoted)]);
        tip(left, top, one.rows[p.row], lines);
      }],
    },
  }, data, place);
  tip = tooltip(u);
  return {u, part: place, points, toggle: (index, is) => { shown[index] = is; u.redraw(false); }};
};

// A band behind every second row, and the name of each row.
const bands = (u, rows, right) => {
  const {ctx, bbox} = u, ratio = devicePixelRatio;
  ctx.save();
  rows.forEach(({name, top: at, high}, row) => {
    const top = u.valToPos(at, 'x', true);
    if (row % 2 === 0) {
      ctx.fillStyle = css('--page');
      ctx.fillRect(bbox.left, top, bbox.width + right * ratio, high * ratio);
    }
    ctx.fillStyle = css('--ink');
    ctx.font = font(13);
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    ctx.fillText(name, bbox.left + 4 * ratio, top + (NAME / 2 + 1) * ratio);
  });
  ctx.restore();
};

// The name of a lane, after its figure.
const laneName = (u, p, plot, right, shown) => {
  const {ctx, bbox} = u, ratio = devicePixelRatio;
  ctx.save();
  ctx.font = font(11);
  ctx.textAlign = 'left';
  ctx.textBaseline = 'middle';
  ctx.globalAlpha = shown ? 1 : 0.4;
  ctx.fillStyle = colour(plot.tints[p.series]);
  const x = bbox.left + bbox.width + (FIGURES + 4) * ratio;
  ctx.fillText(plot.series[p.series], x, u.valToPos(p.x, 'x', true));
  ctx.restore();
};

// A value with its spread, and its figure at the right.
const dot = (u, p, tint, right) => {
  const {ctx, bbox} = u, ratio = devicePixelRatio;
  const y = u.valToPos(p.x, 'x', true), x = (value) => u.valToPos(value, 'y', true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 6 * ratio, bbox.top, bbox.width + (right + 6) * ratio, bbox.height);
  ctx.clip();
  ctx.font = font(11);
  ctx.textAlign = 'right';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = p.mid === null ? css('--quiet') : css('--ink');
  const figure = p.mid === null ? 'not run' : number(p.mid, 3);
  ctx.fillText(figure, bbox.left + bbox.width + (right - 2) * ratio, y);
  ctx.beginPath();
  ctx.rect(bbox.left - 6 * ratio, bbox.top, bbox.width + 12 * ratio, bbox.height);
  ctx.clip();
  ctx.strokeStyle = ctx.fillStyle = colour(tint);
  if (p.mid !== null) {
    const line = (from, to, wide, opacity) => {
      ctx.globalAlpha = opacity;
      ctx.lineWidth = wide * ratio;
      ctx.beginPath();
      ctx.moveTo(x(from), y);
      ctx.lineTo(x(to), y);
      ctx.stroke();
    };
    const {min, max} = u.scales.y;
    line(0, p.mid, 1, 0.45);
    line(Math.max(p.low, min), Math.min(p.top, max), 5, 0.4);
    ctx.globalAlpha = 1;
    // A bar that extends beyond the axis ends in an arrow.
    const arrow = (edge, to) => {
      ctx.beginPath();
      ctx.moveTo(edge, y - 5 * ratio);
      ctx.lineTo(edge + to * 6 * ratio, y);
      ctx.lineTo(edge, y + 5 * ratio);
      ctx.fill();
    };
    if (p.top > max) arrow(bbox.left + bbox.width, 1);
    if (p.low < min) arrow(bbox.left, -1);
    ctx.beginPath();
    ctx.arc(x(p.mid), y, (tint[1] ? 3.75 : 4.5) * ratio, 0, 2 * Math.PI);
    if (tint[1]) ctx.fillStyle = css('--panel');
    ctx.lineWidth = 1.75 * ratio;
    ctx.fill();
    if (tint[1]) ctx.stroke();
  }
  if (p.quoted !== null) {
    const at = x(p.quoted), r = 5 * ratio;
    ctx.strokeStyle = css('--ink');
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    ctx.moveTo(at - r, y); ctx.lineTo(at, y - r); ctx.lineTo(at + r, y); ctx.lineTo(at, y + r);
    ctx.closePath();
    ctx.stroke();
  }
  ctx.restore();
};

const drawDots = (plot, place, width) => {
  const drawn = [];
  const names = legend(plot.series, plot.tints, (index, shown) =>
    drawn.forEach((one) => one.toggle(index, shown)));
  if (plot.panels.some((one) => one.points.some((point) => point[5] !== null))) {
    names.append(element('span', 'quoted', `◇ ${plot.quoted}`));
  }
  const columns = Math.min(plot.panels.length, Math.max(1, Math.floor(width / 330)));
  const each = Math.floor((width - (columns - 1) * 16) / columns);
  const alone = plot.series.length === 1;
  const beside = !alone && each - FIGURES - widest(plot.series) - 14 >= ROOM;
  if (beside) names.classList.add('named');
  if (!alone || names.querySelector('.quoted')) place.append(names);
  const grid = element('div', 'grid');
  grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  place.append(grid);
  const whole = reach(plot);
  for (const one of plot.panels) {
    const part = element('div', 'part');
    if (one.title) part.append(element('h3', '', one.title));
    grid.append(part);
    drawn.push(panel(plot, one, whole, part, each, beside));
  }
  // A click on the name of a lane acts as a click on its name in the legend.
  if (beside) drawn.forEach((one) => laneClicks(one, names));
  return drawn;
};

const laneClicks = ({u, points}, names) => {
  const wrap = u.over.parentNode;
  const at = (event) => {
    const {right, top} = u.over.getBoundingClientRect();
    if (event.clientX <= right + FIGURES) return undefined;
    return points.find((p) => Math.abs(u.valToPos(p.x, 'x') - (event.clientY - top)) < LANE / 2);
  };
  wrap.addEventListener('click', (event) => {
    const p = at(event);
    if (p) names.querySelectorAll('button')[p.series].click();
  });
  wrap.addEventListener('mousemove', (event) => {
    wrap.style.cursor = at(event) ? 'pointer' : '';
  });
};
