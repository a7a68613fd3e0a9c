// Names beside lines: elements at the right edge of a plot, each at the height of the last value of
// its series. Names that would cover each other are moved apart.

/// The tops of names of height `high`, between 0 and `room` and in the order of the `wanted`
/// middles. Each name is centred on its wanted place if there is room.
function spread(wanted, high, room) {
  const order = wanted.map((_, index) => index).sort((a, b) => wanted[a] - wanted[b]);
  const tops = wanted.map((place) => place - high / 2);
  let least = 0;
  for (const index of order) {
    tops[index] = Math.max(tops[index], least);
    least = tops[index] + high;
  }
  let most = room;
  for (const index of order.reverse()) {
    tops[index] = Math.min(tops[index], most - high);
    most = tops[index];
  }
  return tops;
}

/// The last value of a series in the plot, in pixels from the top of the plot area; null if the
/// plot shows none.
function lastPlace(u, index) {
  const { series, data, scales } = u;
  const column = data[index];
  if (!series[index].show || !column) return null;
  const scale = scales[series[index].scale];
  if (scale.min == null || scale.max == null || scales.x.min == null) return null;
  for (let at = column.length - 1; at >= 0; at--) {
    if (column[at] == null || data[0][at] > scales.x.max) continue;
    if (data[0][at] < scales.x.min) return null;
    const area = u.bbox.height / devicePixelRatio;
    return Math.min(Math.max(u.valToPos(column[at], series[index].scale), 0), area);
  }
  return null;
}

/// Put the element for each series, except the time, beside its line. Names of series that are not
/// drawn are at the bottom, so that they can be clicked on.
function putBeside(u, elements) {
  const area = u.bbox.height / devicePixelRatio;
  const left = (u.bbox.left + u.bbox.width) / devicePixelRatio + 8;
  const top = u.bbox.top / devicePixelRatio;
  const places = elements.map((_, index) => lastPlace(u, index + 1) ?? area);
  const high = Math.max(...elements.map((element) => element.offsetHeight), 1);
  const room = Math.max(area, high * elements.length);
  spread(places, high, room).forEach((at, index) => {
    elements[index].style.left = `${left}px`;
    elements[index].style.top = `${top + at}px`;
  });
}
