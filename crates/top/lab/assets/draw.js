// Code that the plots of the lab's report share: figures for people, colours, names of series,
// values at the pointer, axes.

const root = document.documentElement;
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
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

// A tint: a colour of the theme, and whether dots are hollow and lines are dashed.
const colour = (tint) => css(tint[0]);
const mark = (tint) => {
  const dot = element('i', tint[1] ? 'hollow' : '');
  dot.style.setProperty('--own', `var(${tint[0]})`);
  return dot;
};

// A button for each series, which hides the series and shows it again.
const legend = (names, tints, toggle) => {
  const line = element('div', 'legend');
  line.append(...names.map((name, index) => {
    const button = element('button', '', name);
    button.type = 'button';
    button.setAttribute('aria-pressed', 'true');
    button.prepend(mark(tints[index]));
    button.addEventListener('click', () => {
      const shown = button.getAttribute('aria-pressed') !== 'true';
      button.setAttribute('aria-pressed', String(shown));
      toggle(index, shown);
    });
    return button;
  }));
  return line;
};

// A box beside the pointer with a heading and lines of [tint or null, name, value].
const tooltip = (u) => {
  const box = element('div', 'tip');
  box.hidden = true;
  u.over.append(box);
  u.over.addEventListener('mouseleave', () => { box.hidden = true; });
  return (left, top, heading, lines) => {
    box.hidden = lines.length === 0;
    if (box.hidden) return;
    box.replaceChildren(element('b', '', heading), ...lines.map(([tint, name, value]) => {
      const line = element('div');
      line.append(tint ? mark(tint) : element('i', 'none'), element('span', '', name),
        element('b', '', value));
      return line;
    }));
    const right = left + box.offsetWidth + 14 > u.over.clientWidth;
    const x = right ? left - box.offsetWidth - 14 : left + 14;
    box.style.left = `${Math.max(0, Math.min(x, u.over.clientWidth - box.offsetWidth))}px`;
    box.style.top = `${Math.max(0, Math.min(top + 10, u.over.clientHeight - box.offsetHeight))}px`;
  };
};

// An axis. Its first label includes the unit.
const axis = (unit, more) => ({
  stroke: css('--quiet'), font: font(12), labelFont: font(12), labelSize: 20,
  grid: {stroke: css('--rule'), width: 1}, ticks: {stroke: css('--rule'), width: 1, size: 4},
  values: (u, splits) => splits.map((value, index) =>
    value === null ? '' : number(value) + (unit && index === 0 ? ` ${unit}` : '')),
  ...more,
});
const within = (least, most) => (u, low, high) =>
  low !== null && u.zoomed ? [low, high] : [least, most > least ? most : least + 1];
const cursor = (more) => ({
  y: false, drag: {x: true, y: false, dist: 4}, points: {show: false}, ...more,
});
