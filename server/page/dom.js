// Elements, and numbers with units. Nothing here takes text for markup.

const svgNS = "http://www.w3.org/2000/svg";

// h makes an element: h("td.n", { title: "…" }, children…). Children are nodes or text; what is null or false is left out.
// Tags, classes and names of attributes are this page's own, never anything that the daemon says.
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const e = ["svg", "rect", "polyline", "title"].includes(name) ? document.createElementNS(svgNS, name) : document.createElement(name);
  if (classes.length) e.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null && value !== false) e.setAttribute(key, value === true ? "" : value);
  e.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false).map(c => c instanceof Node ? c : visible(c)));
  return e;
}

// visible writes out the characters that would turn around or hide the text beside them, such as U+202E in a header's name.
function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

// morph turns one element into another in place: what has the focus keeps it, what is selected or scrolled stays so, and a
// screen reader hears what has changed and not the whole page every second.
export function morph(from, to) {
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  const before = [...from.childNodes];
  const after = [...to.childNodes];
  for (const gone of before.slice(after.length)) gone.remove();
  after.forEach((node, i) => {
    const old = before[i];
    if (!old) from.append(node);
    else if (old.nodeName !== node.nodeName) old.replaceWith(node);
    else if (node.nodeType === Node.ELEMENT_NODE) morph(old, node);
    else if (old.data !== node.data) old.data = node.data;
  });
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const count = v => whole.format(v);
export const plural = (v, one, many = one + "s") => `${count(v)} ${v === 1 ? one : many}`;

export function bytes(v) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; v >= 1024 && i < units.length - 1; i++) v /= 1024;
  return `${i && v < 100 ? v.toFixed(1) : count(v)} ${units[i]}`;
}

export function duration(seconds) {
  const ms = seconds * 1000;
  if (ms < 10 && ms > 0) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${+(seconds / 60).toFixed(1)} min`;
  return seconds < 172800 ? `${+(seconds / 3600).toFixed(1)} h` : `${+(seconds / 86400).toFixed(1)} days`;
}

// ago is how long something is past, in whole seconds: it is looked at once a second.
export function ago(seconds) {
  return seconds < 1.5 ? "just now" : seconds < 120 ? `${Math.round(seconds)} s ago` : `${duration(seconds)} ago`;
}

// moment is a time of day, with the day when that is not today.
export function moment(ms) {
  const at = new Date(ms);
  if (isNaN(at)) return h("span", {}, "unknown"); // a clock of somebody's that runs wild must not stop the page
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = at.toDateString() === new Date().toDateString() ? "" : at.toLocaleDateString([], { month: "short", day: "numeric" }) + ", ";
  return h("time", { datetime: at.toISOString() }, day + time);
}
