// Figures for people: powers of 1000, three digits, and a unit after the number.

/// 1234567 as "1.23M".
function short(n) {
  if (n == null || !isFinite(n)) return "-";
  const units = ["", "k", "M", "G", "T", "P"];
  let unit = 0;
  let left = Math.abs(n);
  while (left >= 999.5 && unit < units.length - 1) {
    left /= 1000;
    unit += 1;
  }
  const of_unit = left < 9.995 ? 2 : left < 99.95 ? 1 : 0;
  const digits = unit > 0 ? of_unit : left < 10 && left % 1 ? 1 : 0;
  return (n < 0 ? "-" : "") + left.toFixed(digits) + units[unit];
}

/// A number in the form of `short`, followed by its unit: 1.23 Gb/s.
function withUnit(n, unit) {
  const text = short(n);
  if (text === "-") return text;
  const power = /[a-zA-Z]$/.test(text) ? text.slice(-1) : "";
  return text.slice(0, text.length - power.length) + " " + power + unit;
}

/// A label of an axis: 30.0G becomes 30 G.
function round(text) {
  const bare = text.replace(/\.0+(?=\D|$)/, "").replace(/(\.\d*?)0+(?=\D|$)/, "$1");
  return bare.replace(/(\d)([a-zA-Z])/, "$1 $2");
}

/// Microseconds as milliseconds, or a dash if there is no measurement yet.
function ms(us) {
  if (!us) return "-";
  const value = us / 1000;
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}

/// The increase of a count per second; null if one of the values is not known, or if the count
/// began anew.
function rate(now, before, seconds) {
  if (now == null || before == null || seconds <= 0 || now < before) return null;
  return (now - before) / seconds;
}

/// The element with this id.
function at(id) {
  return document.getElementById(id);
}

/// Set an element's text, if it differs.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/// An element with a text.
function made(name, text, kind) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  if (text != null) element.textContent = text;
  return element;
}

/// Give a table's body these rows, each a list of [text, class]. Existing elements are reused.
function fill(body, rows, dress) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, index) => {
    const row = body.rows[index] || body.insertRow();
    cells.forEach(([text, kind], column) => {
      const cell = row.cells[column] || row.insertCell();
      if (cell.className !== (kind || "")) cell.className = kind || "";
      if (!dress || !dress(cell, index, column, text)) say(cell, text);
    });
  });
}
