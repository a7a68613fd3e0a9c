// The lab's report: plots of lines, and the reader's position among the experiments. Hovering shows
// values, dragging zooms, a double-click undoes the zoom, and a click on a name hides its series.

const plots = JSON.parse(document.getElementById('plots').textContent);
const PRINTED = 660;   // Pixels across a sheet of paper.
const STRIP = 190;
// From this width on, names are beside lines; with less room they are above the plot.
const WIDE = 440;

// The value of a series at the index, or at the nearest index where the series has one.
const near = (u, column, index) => {
  for (let off = 0; off < column.length; off++) {
    for (const at of [index - off, index + off]) {
      const is_there = at >= 0 && at < column.length;
      if (!is_there || column[at] === null || column[at] === undefined) continue;
      const apart = u.valToPos(u.data[0][at], 'x') - u.valToPos(u.data[0][index], 'x');
      return Math.abs(apart) <= 40 ? [u.data[0][at], column[at]] : null;
    }
  }
  return null;
};

const strip = (plot, one, most, place, width, room) => {
  const full = one.series.filter((series) => series.x.length > 0);
  if (full.length === 0) return null;
  const data = uPlot.join(full.map((series) => [series.x, series.y]));
  const points = full.some((series) => series.x.length < 60);
  const names = legend(full.map((series) => series.name), full.map((series) => series.tint),
    (index, shown) => u.setSeries(index + 1, {show: shown}));
  const beside = width >= WIDE;
  place.append(names);
  let tip;
  const u = new uPlot({
    width, height: STRIP, pxAlign: false, legend: {show: false},
    padding: [8, beside ? room : 8, 0, 0],
    cursor: cursor({sync: {key: plot.name}}),
    scales: {x: {time: false}, y: {range: within(0, most * 1.04)}},
    axes: [axis(plot.across, {size: 30, space: 70}), axis('', {size: 48})],
    series: [{}, ...full.map((series) => ({
      label: series.name, stroke: colour(series.tint), width: 1.6,
      dash: series.tint[1] ? [5, 4] : undefined,
      spanGaps: true, points: {show: points && !series.tint[1], size: 4},
    }))],
    hooks: {
      draw: [(u) => {
        if (names.classList.contains('placed')) putBeside(u, [...names.children]);
      }],
      setCursor: [(u) => {
        const {idx, left, top} = u.cursor;
        if (!tip) return;
        if (idx === null || idx === undefined || left < 0) return tip(0, 0, '', []);
        const lines = full.flatMap((series, index) => {
          const found = u.series[index + 1].show ? near(u, u.data[index + 1], idx) : null;
          return found ? [[series.tint, series.name, number(found[1])]] : [];
        });
        tip(left, top, `${number(u.data[0][idx])} ${plot.across}`, lines);
      }],
    },
  }, data, place);
  tip = tooltip(u);
  if (beside) {
    names.classList.add('placed');
    [...names.children].forEach((name) => name.classList.add('beside'));
    u.over.parentNode.append(names);
    u.redraw(false);
  }
  return {u, part: place};
};

const drawLines = (plot, place, width) => {
  const highest = plot.strips.flatMap((one) => one.series).flatMap((series) => series.y);
  const most = highest.reduce((most, y) => Math.max(most, y), 0);
  // If there are many strips, two are side by side.
  const columns = plot.strips.length > 3 && width >= 2 * WIDE + 16 ? 2 : 1;
  const grid = element('div', 'grid');
  grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  place.append(grid);
  const each = Math.floor((width - (columns - 1) * 16) / columns);
  // All strips have the same room for names, so that their axes are equally long.
  const names = plot.strips.flatMap((one) => one.series.map((series) => series.name));
  const room = widest(names, 13) + 34;
  return plot.strips.map((one) => {
    const part = element('div', 'part');
    const heading = element('h3', '', one.title);
    heading.append(element('span', 'quiet', ` ${plot.up}`));
    part.append(heading);
    const lacks = one.series.filter((series) => series.x.length === 0);
    for (const series of lacks) part.append(element('p', 'quiet', `${series.name}: not run`));
    grid.append(part);
    return strip(plot, one, most, part, each, room);
  });
};

let charts = [];
let drawnAt = 0;
const draw = (printed) => {
  charts.forEach(({u}) => u.destroy());
  charts = [];
  for (const plot of plots) {
    const place = document.getElementById(`plot-${plot.name}`);
    place.replaceChildren();
    const width = printed || place.clientWidth;
    const how = plot.kind === 'dots' ? drawDots : drawLines;
    charts.push(...how(plot, place, width).filter((chart) => chart !== null));
  }
  for (const {u} of charts) {
    u.over.addEventListener('mousedown', () => { u.zoomed = true; }, true);
    u.over.addEventListener('dblclick', () => { u.zoomed = false; draw(); });
  }
  drawnAt = innerWidth;
};

// The link of the experiment that the reader sees is marked, and scrolled into view.
const links = document.getElementById('links');
const here = () => {
  const middle = innerHeight / 3;
  const read = [...document.querySelectorAll('section')].filter((section) =>
    section.getBoundingClientRect().top <= middle).at(-1);
  for (const link of links.querySelectorAll('a')) {
    const is_it = link.getAttribute('href') === `#${read ? read.id : ''}`;
    if (is_it === link.hasAttribute('aria-current')) continue;
    link.toggleAttribute('aria-current', is_it);
    if (is_it) {
      const {left, right} = link.getBoundingClientRect();
      if (left < 0 || right > links.clientWidth) links.scrollTo({left: link.offsetLeft - 40});
    }
  }
};

draw();
here();
addEventListener('scroll', here, {passive: true});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => draw());
addEventListener('resize', () => { if (innerWidth !== drawnAt) draw(); });
addEventListener('beforeprint', () => { root.classList.add('printed'); draw(PRINTED); });
addEventListener('afterprint', () => { root.classList.remove('printed'); draw(); });
