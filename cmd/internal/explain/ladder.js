// The packets: what a row says, and the ladder, which holds only those rows that are seen.
const $ = id => document.getElementById(id);
const D = JSON.parse($("data").textContent);
const F = 0, T = 1, C = 2, E = 3, ROLE = 4, OP = 5, PSN = 6, PAY = 7, FL = 8, CAUSE = 9, OPER = 10, SYN = 11, MSN = 12, QP = 13, MORE = 14, FATE = 15, F2 = 16, T2 = 17;
const ACKREQ = 1, SOL = 2, LATE = 4, CE = 8, BAD = 16, TWICE = 32, RESP = 64, FROM2 = 128, CHANGED = 256;
const LOST = 1, MAYBELOST = 2, DROPPED = 3, MAYBEDROPPED = 4, UNSEEN = 5, BEYOND = 6, DOUBLED = 7;
const REQUEST = 1, ANSWER = 2, DATAGRAM = 3, CM = 4, CNP = 5, ICMP = 6;
const esc = s => String(s).replace(/[&<>"']/g, c => "&#" + c.charCodeAt(0) + ";");
const unit = ns => ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
const time = ns => { const a = Math.abs(ns); return (ns < 0 ? "−" : "") + (a >= 1e9 ? (a / 1e9).toFixed(6) + " s" : a >= 1e6 ? (a / 1e6).toFixed(3) + " ms" : (a / 1e3).toFixed(1) + " µs"); };
const span = ns => { const u = unit(ns); return +(ns / u[0]).toPrecision(3) + " " + u[1]; };
const bps = v => v >= 1e9 ? (v / 1e9).toFixed(2) + " Gb/s" : v >= 1e6 ? (v / 1e6).toFixed(2) + " Mb/s" : (v / 1e3).toFixed(1) + " kb/s";
const hex = (n, w) => "0x" + n.toString(16).padStart(w, "0");
const count = (n, what) => n + " " + what + (n === 1 ? "" : "s");
const rows = D.rows, findings = D.findings || [], conns = D.connections || [], files = D.files || [], both = files.length === 2;
const connOf = new Map(conns.map(c => [c.number, c]));
const frames = [new Map(), new Map()]; // of either file: row
for (let i = rows.length - 1; i >= 0; i--) { const r = rows[i]; if (r[F]) frames[0].set(r[F], i); if (r[F2]) frames[1].set(r[F2], i); }
const rowOf = (file, frame) => { const i = frames[file].get(frame); return i === undefined ? -1 : i; };
const hits = new Map(); // row: findings
findings.forEach((f, i) => f.frames.forEach(n => { const k = rowOf(f.in || 0, n); if (k >= 0) { if (!hits.has(k)) hits.set(k, []); hits.get(k).push(i); } }));
let conn = 0, list = [], place = new Int32Array(rows.length), sel = -1;

const gone = r => r[FATE] >= LOST && r[FATE] <= MAYBEDROPPED;
const when = r => !r[F2] ? r[T] : !r[F] ? r[T2] : Math.min(r[T], r[T2]);
const sentAt = r => !both ? r[T] : r[FL] & FROM2 ? (r[F2] ? r[T2] : r[T]) : (r[F] ? r[T] : r[T2]);
const cameAt = r => !both ? r[T] : r[FL] & FROM2 ? (r[F] ? r[T] : r[T2]) : (r[F2] ? r[T2] : r[T]);
const unseenIn = r => files[r[F] ? 1 : 0].name;
function fateText(r) {
  switch (r[FATE]) {
  case LOST: return !r[F] && !r[F2] ? "lost before it came here" : "lost on the way";
  case MAYBELOST: return both ? "not in " + unseenIn(r) + ": probably lost on the way" : !r[F] && !r[F2] ? "probably lost before it came here" : "probably lost on the way";
  case DROPPED: return "dropped by the host that it was for";
  case MAYBEDROPPED: return "probably dropped by the host that it was for";
  case UNSEEN: return "not in " + unseenIn(r) + ", though it was there";
  case BEYOND: return "not in " + unseenIn(r) + ", which does not reach here";
  case DOUBLED: return "doubled on the way";
  }
  return "";
}
function label(r) {
  let s = D.opcodes[r[OP]] || "";
  if (r[ROLE] === CM) s = r[MORE] || "MAD";
  else if (r[ROLE] === ICMP || (!r[F] && !r[F2])) s = r[MORE];
  else if (r[ROLE] === CNP) s = "CNP";
  else {
    s = s.replace(/^(RC|UC|UD) /, "") + " " + r[PSN];
    if (r[SYN] >= 0 && !/^ACK( |$)/.test(D.syndromes[r[SYN]])) s = D.syndromes[r[SYN]] + " " + r[PSN];
    if (r[PAY]) s += ", " + r[PAY] + " B";
  }
  const f = fateText(r);
  if (f) s += " — " + f;
  if (r[CAUSE]) s += " — again: " + D.causes[r[CAUSE]];
  if (r[FL] & CHANGED) s += " — changed on the way"; if (r[FL] & BAD) s += " — ICRC wrong"; if (r[FL] & CE) s += " — CE";
  return s;
}
const ROLES = ["", "request", "answer", "datagram", "cm", "cnp", "icmp"]; // and classes of their looks
const kind = r => r[CAUSE] ? "again" : ROLES[r[ROLE]] || "";
const stamp = (frame, ns) => "<span>" + (frame ? "<span class=n>" + frame + " </span><span class=dim>" + time(ns) + "</span>" : "<span class=dim>–</span>") + "</span>";
function cells(r, more) { // more: rows that there was no room for below it
  const x = gone(r) || r[FL] & BAD, far = !(r[FATE] === LOST || r[FATE] === MAYBELOST);
  const maybe = r[FATE] === MAYBELOST || r[FATE] === MAYBEDROPPED || r[FATE] === UNSEEN || r[FATE] === BEYOND || r[FATE] === DOUBLED;
  return "<span class=l>" + stamp(r[F], r[T]) + "</span><span class='lane " + kind(r) + (r[E] ? " to0" : " to1") + (maybe ? " maybe" : "") + "'><i></i><span class=t>" + esc(label(r)) + (more ? " (and " + more + " more)" : "") + "</span><i></i>" +
    (x ? "<u>✕" + (r[FATE] === MAYBELOST || r[FATE] === MAYBEDROPPED ? "?" : "") + "</u>" + (far ? "" : "<em></em>") : "<b></b>") + "</span>" + (both ? "<span class=r>" + stamp(r[F2], r[T2]) + "</span>" : "");
}
const mark = i => "row" + (hits.has(i) ? " hit" : "") + (!rows[i][F] && !rows[i][F2] ? " ghost" : "");

const box = $("ladder"), narrow = matchMedia("(max-width: 600px)");
const toScale = () => $("scale").checked;
let H = 20, Y = null, events = null, ypos = null, breaks = null, zoom = 0; // of time to scale: a row's place, times, their places, pixels a ns
// Time to scale: a place for each moment at which something was captured. Longer pauses are cut, which is drawn and said.
const CUT = 44;
function scaleTime() {
  const n = list.length; let k = 0;
  events = new Float64Array(both ? 2 * n : n);
  list.forEach(i => { const r = rows[i]; events[k++] = sentAt(r); if (both) events[k++] = cameAt(r); });
  events.sort();
  if (!zoom) { // half of the packets are as far apart as a line is high
    const gaps = []; for (let j = 1; j < n; j++) { const d = when(rows[list[j]]) - when(rows[list[j - 1]]); if (d > 0) gaps.push(d); }
    gaps.sort((a, b) => a - b); zoom = 18 / (gaps[gaps.length >> 1] || 1000);
  }
  const most = Math.max(2, Math.min(160, 12e6 / Math.max(1, events.length)));
  ypos = new Float64Array(events.length); breaks = [];
  let y = 14;
  for (let j = 0; j < events.length; j++) {
    if (j) { const d = (events[j] - events[j - 1]) * zoom; if (d > most) { breaks.push(j); y += Math.min(CUT, most); } else y += d; }
    ypos[j] = y;
  }
  Y = new Float64Array(n); list.forEach((i, j) => Y[j] = yOf(when(rows[i])));
  return y + 40;
}
const lower = (a, v) => { let lo = 0, hi = a.length; while (lo < hi) { const m = (lo + hi) >> 1; if (a[m] < v) lo = m + 1; else hi = m; } return lo; };
const yOf = t => ypos[Math.min(ypos.length - 1, lower(events, t))];
const top = k => Y ? Y[k] - 9 : k * H;

function filter() {
  const only = $("only").checked; list = [];
  for (let i = 0; i < rows.length; i++) {
    const r = rows[i];
    if (conn && r[C] !== conn) continue;
    if (only && !r[CAUSE] && !gone(r) && !hits.has(i)) continue;
    list.push(i);
  }
  if (toScale()) list.sort((a, b) => when(rows[a]) - when(rows[b]) || a - b);
  place.fill(-1); list.forEach((i, k) => place[i] = k);
  const c = connOf.get(conn) || (conns.length === 1 ? conns[0] : null);
  $("h0").textContent = c ? endText(c.ends[0]) : both ? "" : "first end"; $("h1").textContent = c ? endText(c.ends[1]) : both ? "" : "second end";
  $("ha").textContent = both ? files[0].name : "packet, time"; $("hb").textContent = both ? files[1].name : ""; $("hb").hidden = !both; for (const id of ["ha", "h0", "h1", "hb"]) $(id).title = $(id).textContent;
  layout(); charts();
}
function layout() {
  H = narrow.matches ? 38 : 20; Y = null;
  box.classList.toggle("toscale", toScale()); $("zoom").hidden = !toScale();
  $("space").style.height = Math.max(1, toScale() ? scaleTime() : list.length * H) + "px";
  if (toScale()) { let d = 60 / zoom, p = 10 ** Math.floor(Math.log10(d)); d = (d / p >= 5 ? 5 : d / p >= 2 ? 2 : 1) * p; tick = d; $("rule").style.width = d * zoom + "px"; $("rule").textContent = span(d); }
  draw(true);
}
let tick = 1;
const option = (k, style, more) => "<div class='" + mark(list[k]) + (list[k] === sel ? " sel" : "") + "' data-k=" + k + " role=option id=r" + k + " aria-selected=" + (list[k] === sel) + " style='top:" + style + "px'>" + cells(rows[list[k]], more) + "</div>";
let last = [-1, -1];
function draw(force) {
  if (Y) { drawScaled(force); return; }
  const from = Math.max(0, Math.floor(box.scrollTop / H) - 10), to = Math.min(list.length, from + Math.ceil(box.clientHeight / H) + 20);
  if (!force && last[0] === from && last[1] === to) return;
  last = [from, to];
  let h = ""; for (let k = from; k < to; k++) h += option(k, k * H);
  $("space").innerHTML = h;
}
const LINES = 1500; // arrows at a time
function drawScaled(force) {
  const y0 = Math.max(0, Math.floor(box.scrollTop / 200) * 200 - 400), y1 = y0 + box.clientHeight + 1000;
  if (!force && last[0] === y0 && last[1] === -y1) return;
  last = [y0, -y1];
  let svg = "", free = -1e9, was = "", n = 0; const labels = [];
  for (let k = lower(Y, y0 - 600); k < list.length && Y[k] < y1; k++) {
    const i = list[k], r = rows[i], a = yOf(sentAt(r)) - y0, b = yOf(cameAt(r)) - y0, id = Math.round(a) + " " + Math.round(b) + " " + r[E] + gone(r);
    if (id !== was && n < LINES) {
      n++; was = id;
      const x = gone(r) || r[FL] & BAD, far = r[FATE] !== LOST && r[FATE] !== MAYBELOST, end = x && !far ? 82 : 100, c = kind(r) + (!r[F] && !r[F2] || r[FATE] > LOST && r[FATE] !== DROPPED ? " ghost" : "");
      const from = r[E] ? 100 : 0, to = r[E] ? 100 - end : end;
      svg += "<line class='" + c + "' x1='" + from + "%' x2='" + to + "%' y1=" + a + " y2=" + b + (x ? "" : " marker-end='url(#m" + kind(r) + ")'") + "></line>";
      if (x) svg += "<svg x='" + to + "%' y=" + b + " overflow=visible><path class=x d='M-5-5L5 5M-5 5L5-5'></path></svg>";
    }
    const mid = (a + b) / 2 + y0 - 9;
    if (mid >= free) { labels.push([k, Math.round(mid), 0]); free = mid + 17; } else if (i === sel) labels[labels.length - 1][0] = k, labels[labels.length - 1][2]++; else labels[labels.length - 1][2]++;
  }
  for (const j of breaks.slice(lower(breaks, lower(ypos, y0)))) {
    if (ypos[j - 1] > y1) break;
    if (ypos[j] - ypos[j - 1] > 20) svg += "<svg x='50%' y=" + ((ypos[j] + ypos[j - 1]) / 2 - y0) + " overflow=visible class=dim><path d='M-70 0l8-5 8 10 8-10 8 5M38 0l8-5 8 10 8-10 8 5'></path><text y=4>" + esc(span(events[j] - events[j - 1])) + "</text></svg>";
  }
  for (let j = Math.max(0, lower(ypos, y0) - 1), m = 0; j < events.length - 1 && ypos[j] < y1 && m < 400; j++) { // ticks between two events
    if (breaks[lower(breaks, j + 1)] === j + 1) continue;
    for (let t = Math.ceil(events[j] / tick) * tick; t < events[j + 1] && m < 400; t += tick, m++) svg += "<line class=tick x1=-5 x2=0 y1=" + (ypos[j] + (t - events[j]) * zoom - y0) + " y2=" + (ypos[j] + (t - events[j]) * zoom - y0) + "></line>";
  }
  const heads = ROLES.concat("again").filter(x => x).map(c => "<marker id=m" + c + " viewBox='0 0 8 8' refX=8 refY=4 markerWidth=8 markerHeight=8 markerUnits=userSpaceOnUse orient=auto><path class='head " + c + "' d='M0 0L8 4L0 8z'></path></marker>").join("");
  $("space").innerHTML = "<div class='row sky' aria-hidden=true style='top:" + y0 + "px;height:" + (y1 - y0) + "px'><span class=l></span><svg><defs>" + heads + "</defs>" + svg + "</svg></div>" + labels.map(l => option(...l)).join("");
}
function show(i, focus) {
  const r = rows[i]; if (!r) return;
  if (place[i] < 0) { // it is filtered out
    if (conn && r[C] !== conn) { conn = 0; $("pick").value = 0; }
    $("only").checked = false; filter();
  }
  sel = i; const k = place[i], y = top(k);
  if (y < box.scrollTop || y > box.scrollTop + box.clientHeight - 2 * H) box.scrollTop = Math.max(0, y - box.clientHeight / 3);
  box.setAttribute("aria-activedescendant", "r" + k);
  $("pos").textContent = (r[F] || r[F2] ? "packet " + (r[F] || r[F2]) + (both ? " of " + files[r[F] ? 0 : 1].name : "") + ", " : "") + time(when(r)) + ": " + label(r);
  if (!$("sheet").hidden) $("fields").innerHTML = fields(i);
  draw(true); cursors(); if (focus) box.focus({ preventScroll: true });
}
function clockOf(ns) { // of the day, in UTC
  const t = D.start_ns + ns, s = Math.floor(t / 1e9);
  return new Date((D.start_s + s) * 1000).toISOString().slice(0, 19).replace("T", " ") + "." + String(Math.floor((t - s * 1e9) / 1e3)).padStart(6, "0") + " UTC";
}
function fields(i) {
  const r = rows[i], c = connOf.get(r[C]), t = [];
  if (both) {
    if (r[F]) t.push(["packet of " + files[0].name, r[F] + ", " + time(r[T])]);
    if (r[F2]) t.push(["packet of " + files[1].name, r[F2] + ", " + time(r[T2])]);
    if (r[F] && r[F2]) t.push(["took", time(cameAt(r) - sentAt(r))]);
  } else t.push(["packet", r[F] || "not in the capture"], ["time", time(r[T])]);
  if (D.start_s > 1e9) t.push(["at", clockOf(when(r))]); // a simulation begins at 0
  const k = place[i]; if (k > 0) t.push(["after the row above", span(when(r) - when(rows[list[k - 1]]))]);
  if (r[F] || r[F2]) t.push(["opcode", D.opcodes[r[OP]]], ["destination QP", hex(r[QP], 6)]);
  t.push(["PSN", r[PSN] + " (" + hex(r[PSN], 6) + ")"]);
  if (r[C]) t.push(["connection", r[C] + (c ? ": from " + c.ends[r[E]].addr : "")]);
  if (r[OPER]) t.push(["operation", r[OPER]]); if (r[PAY]) t.push(["payload", r[PAY] + " bytes"]);
  if (r[SYN] >= 0) t.push(["syndrome", D.syndromes[r[SYN]]], ["MSN", r[MSN]]);
  if (r[MORE]) t.push(["says", r[MORE]]); if (r[CAUSE]) t.push(["sent again", D.causes[r[CAUSE]]]);
  if (r[FATE]) t.push(["fate", fateText(r)]);
  const fl = [[ACKREQ, "asks for an ACK"], [SOL, "solicited event"], [LATE, "late"], [CE, "congestion experienced"], [BAD, "ICRC wrong"], [TWICE, "captured twice"], [CHANGED, "changed on the way"]].filter(x => r[FL] & x[0]).map(x => x[1]).join(", ");
  if (fl) t.push(["flags", fl]);
  (hits.get(i) || []).forEach(j => t.push(["finding", findings[j].kind]));
  return "<table>" + t.map(x => "<tr><td class=dim>" + esc(x[0]) + "</td><td>" + esc(x[1]) + "</td></tr>").join("") + "</table>";
}
