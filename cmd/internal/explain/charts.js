// What happened over time, of the packets in the list: each chart has axes with units, and a click goes to the packet.
const css = v => getComputedStyle(document.documentElement).getPropertyValue(v).trim();
const charted = []; // {canvas, cursor, x}: x gives the place of a time
let range = [0, 1];
function nice(lo, hi, n) { // round values from lo to hi
  const d = (hi - lo) / n || 1, p = 10 ** Math.floor(Math.log10(d)), s = (d / p > 5 ? 10 : d / p > 2 ? 5 : d / p > 1 ? 2 : 1) * p, out = [];
  for (let v = Math.ceil(lo / s) * s; v <= hi + s / 1e6; v += s) out.push(Math.abs(v) < s / 1e6 ? 0 : v);
  return out;
}
// plot makes a figure and returns what draws it: y is [lowest, highest], unitY what the axis counts, points is called with how to draw one.
function plot(title, legend, y, unitY, fmt, points) {
  const fig = document.createElement("figure"), c = document.createElement("canvas"), over = document.createElement("canvas"), cap = document.createElement("figcaption");
  c.setAttribute("role", "img"); over.className = "cursor"; over.setAttribute("aria-hidden", "true"); cap.innerHTML = "<b>" + esc(title) + "</b> " + legend;
  c.setAttribute("aria-label", title + ", from " + fmt(y[0]) + " to " + fmt(y[1]) + " " + unitY);
  fig.append(cap, c, over); $("charts").append(fig);
  return () => paint(c, over, y, unitY, fmt, points); // when all have their place
}
function paint(c, over, y, unitY, fmt, points) {
  const q = devicePixelRatio || 1, w = c.clientWidth, h = c.clientHeight; if (!w) return;
  c.width = over.width = w * q; c.height = over.height = h * q; over.style.height = h + "px"; over.style.top = c.offsetTop + "px";
  const g = c.getContext("2d"); g.scale(q, q); g.font = "10.5px system-ui, sans-serif"; g.textBaseline = "middle";
  if (y[1] <= y[0]) y = [y[0], y[0] + 1];
  const ticks = nice(y[0], y[1], 4), left = 10 + Math.max(...ticks.map(v => g.measureText(fmt(v)).width)), bottom = h - 26, at = 8, right = w - 6;
  const X = t => left + (t - range[0]) / (range[1] - range[0]) * (right - left), YY = v => bottom - (v - y[0]) / (y[1] - y[0]) * (bottom - at);
  g.strokeStyle = css("--line"); g.fillStyle = css("--dim"); g.lineWidth = 1; g.beginPath();
  g.textAlign = "right"; ticks.forEach(v => { const p = Math.round(YY(v)) + .5; g.moveTo(left, p); g.lineTo(right, p); g.fillText(fmt(v), left - 4, p); });
  const u = unit(range[1] - range[0]), xs = nice(range[0] / u[0], range[1] / u[0], Math.max(2, Math.min(6, (right - left) / 60)));
  g.textAlign = "center"; xs.forEach(v => { const p = Math.round(X(v * u[0])) + .5; g.moveTo(p, at); g.lineTo(p, bottom + 3); const s = String(+v.toPrecision(6)); g.fillText(s, Math.min(p, w - g.measureText(s).width / 2 - 1), bottom + 9); });
  g.stroke(); g.textAlign = "right"; g.fillText(u[1], right, h - 5); g.textAlign = "left"; g.fillText(unitY, 2, h - 5);
  g.save(); g.beginPath(); g.rect(left, 0, right - left + 2, bottom + 2); g.clip();
  const drawn = new Uint8Array((w + 2) * (h + 2)); // one dot a pixel: there may be far more packets
  points(g, X, YY, (t, v, color, size) => {
    const px = X(t), py = YY(v), k = (Math.round(py) * (w + 2) + Math.round(px)); if (drawn[k] >= size) return; drawn[k] = size;
    if (g.fillStyle !== color) g.fillStyle = color; g.fillRect(px - size / 2, py - size / 2, size, size);
  }, bottom);
  g.restore();
  const chart = { over, X, h, q, left, right, bottom, at }; charted.push(chart);
  c.onclick = e => {
    const t = range[0] + (e.offsetX - left) / (right - left) * (range[1] - range[0]); let best = -1, near = Infinity;
    list.forEach(i => { const d = Math.abs(when(rows[i]) - t); if (d < near) { near = d; best = i; } });
    if (best >= 0) show(best, true);
  };
}
function cursors() {
  for (const c of charted) {
    const g = c.over.getContext("2d"); g.clearRect(0, 0, c.over.width, c.over.height);
    if (sel < 0) continue;
    g.fillStyle = css("--ink"); g.fillRect(Math.round(c.X(when(rows[sel])) * c.q), c.at * c.q, Math.max(1, c.q), (c.bottom - c.at) * c.q);
  }
}
const dirOf = r => r[C] * 2 + (r[FL] & RESP ? 1 - r[E] : r[E]); // connection and end whose requests it belongs to
const apart = (a, b) => (a - b) << 8 >> 8; // of PSNs
const si = v => Math.abs(v) >= 1e6 ? +(v / 1e6).toPrecision(3) + "M" : Math.abs(v) >= 1e4 ? +(v / 1e3).toPrecision(3) + "k" : String(+v.toPrecision(3));
function charts() {
  $("charts").textContent = ""; charted.length = 0;
  if (!list.length || !$("plots").open) return;
  let t0 = Infinity, t1 = -Infinity; list.forEach(i => { const t = when(rows[i]); if (t < t0) t0 = t; if (t > t1) t1 = t; }); range = [t0, Math.max(t1, t0 + 1)];
  const colors = { request: css("--req"), answer: css("--ans"), again: css("--again"), datagram: css("--cm"), cnp: css("--net") };
  const colored = (c, s) => "<span class=" + c + ">" + s + "</span>";
  // PSNs, from the first of their direction on.
  const base = new Map(), ys = new Float64Array(list.length); let lo = 0, hi = 1;
  list.forEach((i, k) => { const r = rows[i]; if (r[ROLE] > DATAGRAM || !r[ROLE]) { ys[k] = NaN; return; }
    const d = dirOf(r); if (!base.has(d)) base.set(d, r[PSN]);
    const y = apart(r[PSN], base.get(d)); ys[k] = y; if (y < lo) lo = y; if (y > hi) hi = y; });
  const one = base.size === 1 ? base.values().next().value : 0; // a single direction: its own numbers
  const paints = [];
  paints.push(plot("PSN", colored("request", "requests") + ", " + colored("answer", "answers") + ", " + colored("again", "sent again") + ", " + colored("again", "✕ lost"), [lo, hi], one ? "PSN" : "PSN, from the first on", v => one ? String((one + v) & 0xffffff) : si(v), (g, X, Y, dot) => {
    list.forEach((i, k) => { if (!isNaN(ys[k])) dot(when(rows[i]), ys[k], colors[kind(rows[i])] || colors.request, rows[i][CAUSE] ? 4 : 2); });
    g.strokeStyle = colors.again; g.lineWidth = 1.5; g.beginPath();
    list.forEach((i, k) => { if (!isNaN(ys[k]) && gone(rows[i])) { const x = X(when(rows[i])), y = Y(ys[k]); g.moveTo(x - 3, y - 3); g.lineTo(x + 3, y + 3); g.moveTo(x + 3, y - 3); g.lineTo(x - 3, y + 3); } }); g.stroke();
  }));
  // What is on its way or waits at the other end: from the last PSN that was sent to the last that was acknowledged.
  const open = new Map(), steps = []; let most = 1;
  list.forEach(i => { const r = rows[i]; if (r[ROLE] !== REQUEST && r[ROLE] !== ANSWER || r[FL] & (BAD | TWICE) || !r[F] && !r[F2]) return;
    const d = dirOf(r); let o = open.get(d);
    if (!o) { if (r[ROLE] === ANSWER) return; open.set(d, o = { next: r[PSN], una: r[PSN] }); }
    const nak = r[SYN] >= 0 && (r[SYN] & 0x60) !== 0, p = r[ROLE] === REQUEST || !nak ? (r[PSN] + 1) & 0xffffff : r[PSN];
    if (r[ROLE] === REQUEST) { if (Math.abs(apart(p, o.next)) > 1 << 22) o.una = r[PSN], o.next = p; else if (apart(p, o.next) > 0) o.next = p; }
    else if (apart(p, o.una) > 0 && apart(p, o.una) < 1 << 22) { o.una = p; if (apart(p, o.next) > 0) o.next = p; }
    const n = apart(o.next, o.una); if (n > most) most = n;
    steps.push([when(r), n, d & 1]); });
  const ce = [], cnp = []; list.forEach(i => { const r = rows[i]; if (r[FL] & CE) ce.push(when(r)); if (r[ROLE] === CNP) cnp.push(when(r)); });
  paints.push(plot("Queue",  "sent, not acknowledged: " + colored("request", "→") + " " + colored("datagram", "←") + (ce.length ? ", " + colored("net", "▴ " + ce.length + " CE") : "") + (cnp.length ? ", " + colored("again", "▾ " + count(cnp.length, "CNP")) : ""), [0, most], "packets", si, (g, X, Y, dot, bottom) => {
    steps.forEach(s => dot(s[0], s[1], s[2] ? colors.datagram : colors.request, 2));
    let was = -9; g.fillStyle = colors.cnp; ce.forEach(t => { const x = X(t); if (x - was < 1) return; was = x; g.beginPath(); g.moveTo(x, bottom - 6); g.lineTo(x - 3, bottom); g.lineTo(x + 3, bottom); g.fill(); });
    was = -9; g.fillStyle = colors.again; cnp.forEach(t => { const x = X(t); if (x - was < 1) return; was = x; g.beginPath(); g.moveTo(x, 14); g.lineTo(x - 4, 7); g.lineTo(x + 4, 7); g.fill(); });
  }));
  // Goodput: payload of what came for the first time. Round trip: from a request to its answer.
  const n = 100, bins = new Float64Array(n), rtt = [], asked = new Map(); let far = 0;
  list.forEach(i => { const r = rows[i], b = Math.min(n - 1, Math.floor((when(r) - range[0]) / (range[1] - range[0]) * n));
    if (!r[CAUSE] && !gone(r) && !(r[FL] & (BAD | TWICE))) bins[b] += r[PAY] * 8;
    const key = dirOf(r) * 16777216 + r[PSN], t = both ? (r[ROLE] === REQUEST ? sentAt(r) : cameAt(r)) : r[T];
    if (r[ROLE] === REQUEST) { if (r[CAUSE]) asked.delete(key); else if (asked.size < 100000) asked.set(key, t); }
    else if (r[ROLE] === ANSWER && asked.has(key) && !gone(r)) { const d = t - asked.get(key); rtt.push([t, d]); if (d > far) far = d; asked.delete(key); } });
  const bin = (range[1] - range[0]) / n; let top = 0; bins.forEach((v, k) => { bins[k] = v / bin; if (bins[k] > top) top = bins[k]; });
  const gu = top >= 1 ? [1, "Gb/s"] : top >= 1e-3 ? [1e-3, "Mb/s"] : [1e-6, "kb/s"];
  paints.push(plot("Goodput", esc(span(bin)) + " a bar", [0, top / gu[0] || 1], gu[1], si, (g, X, Y) => {
    g.fillStyle = colors.request; bins.forEach((v, k) => { if (v) { const x = X(range[0] + k * bin), x1 = X(range[0] + (k + 1) * bin), y = Y(v / gu[0]); g.fillRect(x, y, Math.max(1, x1 - x - .5), Y(0) - y); } });
  }));
  if (rtt.length) { const u = unit(far || 1); paints.push(plot("Round trip", "request to answer", [0, far / u[0] || 1], u[1], si, (g, X, Y, dot) => rtt.forEach(x => dot(x[0], x[1] / u[0], colors.answer, 3)))); }
  if (both) {
    const way = []; let low = Infinity, high = -Infinity;
    list.forEach(i => { const r = rows[i]; if (r[F] && r[F2]) { const d = cameAt(r) - sentAt(r); way.push([sentAt(r), d, r[FL] & FROM2]); low = Math.min(low, d); high = Math.max(high, d); } });
    if (way.length) { const u = unit(high || 1); paints.push(plot("One way", colored("request", "→") + " " + colored("datagram", "←") + " what is above the shortest waits in queues", [Math.min(0, low / u[0]), high / u[0]], u[1], si, (g, X, Y, dot) => way.forEach(x => dot(x[0], x[1] / u[0], x[2] ? colors.datagram : colors.request, 2)))); }
  }
  paints.forEach(f => f()); cursors();
}
